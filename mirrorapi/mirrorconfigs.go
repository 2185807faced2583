package mirrorapi

// kind says what a config's values look like.
type kind int8

const (
	anyString kind = iota
	anyList
	password
	bootstrapList // host:port, comma-separated
	choice        // one of configSpec.choices
	boolean
	number // a decimal number from configSpec.min to configSpec.max
	regexList
	topicPatternList // as regexList, matched against topic names
	aclRules
)

// configSpec describes a config a mirror may have.
type configSpec struct {
	kind    kind
	choices []string
	// refused holds choices that exist but cannot be honoured by this version. They are refused when they are given:
	// accepting them would promise a protection that is not there.
	refused  []string
	min, max int64
	// fallback is the value of a mirror that does not set the key; APPEND and SUBTRACT start from it.
	fallback string
	// stoppedOnly marks configs that may change only while all the mirror's topics are stopped.
	stoppedOnly bool
	// unused marks configs of features that this version does not have; they are listed in status.ignored.
	unused bool
}

// Config keys that the code names.
const (
	configBootstrapServers  = "bootstrap.servers"
	configEngine            = "mirror.engine"
	configGuard             = "mirror.guard"
	configRaiseTopicLimits  = "mirror.raise-topic-limits"
	configPropertiesExclude = "mirror.topic.properties.exclude"
)

// guardACL is the value of mirror.guard that has the broker refuse what does not come through the proxy.
const guardACL = "acl"

// engineProduce is the engine that "auto" stands for as long as it is the only one.
const (
	engineAuto    = "auto"
	engineProduce = "produce"
)

const defaultPropertiesExclude = "follower.replication.throttled.replicas,leader.replication.throttled.replicas," +
	"message.timestamp.difference.max.ms,log.message.timestamp.before.max.ms,log.message.timestamp.after.max.ms," +
	"message.timestamp.type,unclean.leader.election.enable,min.insync.replicas,mirror.name"

// mirrorConfigs are the configs that mean something to mirroring itself: the KIP's (wire.md section 6, with the later names)
// and ours (design.md section 9).
var mirrorConfigs = map[string]configSpec{
	configBootstrapServers: {kind: bootstrapList},
	"security.protocol": {kind: choice, fallback: "PLAINTEXT",
		choices: []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}},

	configPropertiesExclude:    {kind: regexList, fallback: defaultPropertiesExclude},
	"mirror.groups.include":    {kind: regexList, fallback: ".*", unused: true},
	"mirror.groups.exclude":    {kind: regexList, unused: true},
	"mirror.acl.include":       {kind: aclRules, fallback: "*", unused: true},
	"mirror.acls.include":      {kind: aclRules, fallback: "*", unused: true},
	"mirror.topics.include":    {kind: topicPatternList, unused: true},
	"mirror.topics.exclude":    {kind: topicPatternList, fallback: "__.*", unused: true},
	"mirror.quotas.include":    {kind: regexList, unused: true},
	"mirror.source.cluster.id": {kind: anyString, unused: true},
	configRaiseTopicLimits:     {kind: boolean, fallback: "true"},

	configEngine: {kind: choice, fallback: engineAuto, stoppedOnly: true,
		choices: []string{engineAuto, engineProduce, "replica"}, refused: []string{"replica"}},
	"mirror.divergence.policy": {kind: choice, fallback: "fail",
		choices: []string{"fail", "recreate", "truncate"}, refused: []string{"recreate", "truncate"}},
	"mirror.gap.policy": {kind: choice, fallback: "fail",
		choices: []string{"fail", "skip"}},
	configGuard: {kind: choice, fallback: "none", stoppedOnly: true,
		choices: []string{"none", guardACL}},
	"mirror.produce.acks": {kind: choice, fallback: "all",
		choices: []string{"all", "1"}},
	"mirror.produce.raise-producer-expiration": {kind: boolean, fallback: "false"},
	"mirror.produce.ambiguous.wait.ms":         {kind: number, min: 0, max: 3_600_000, fallback: "30000"},
}

// specOf returns what is known of a config key, false for a key that a mirror cannot have.
func specOf(key string) (configSpec, bool) {
	if spec, ok := mirrorConfigs[key]; ok {
		return spec, true
	}
	spec, ok := clientConfigs[key]
	return spec, ok
}

func (s configSpec) isList() bool {
	switch s.kind {
	case anyList, bootstrapList, regexList, topicPatternList, aclRules:
		return true
	default:
		return false
	}
}
