package mirrorapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	configMirrorName      = "mirror.name"
	configCleanupPolicy   = "cleanup.policy"
	configMaxMessageBytes = "max.message.bytes"

	policyDelete = "delete"

	defaultMaxMessageBytes = 1048588 // Kafka's default of max.message.bytes

	// maxMessageSlackBytes is room for batches that are re-encoded, or given filler, on their way.
	maxMessageSlackBytes = 64 << 10

	unlimited = "9223372036854775807"
)

// owned are the topic configs that replication needs while a topic is mirrored, with fixed values. cleanup.policy and
// max.message.bytes are owned too, and depend on the source's.
var owned = map[string]string{
	"compression.type":                "producer",   // batches are stored as they come
	"message.timestamp.type":          "CreateTime", // with their own timestamps
	"message.timestamp.before.max.ms": unlimited,    // however old
	"message.timestamp.after.max.ms":  unlimited,
	"retention.ms":                    "-1", // what the source has deleted is deleted here at its log start, not by time
	"retention.bytes":                 "-1",
	"unclean.leader.election.enable":  "false", // records that were confirmed stay
}

// dispensable are the owned configs that older clusters do not know; their defaults there do no harm.
var dispensable = map[string]bool{
	"message.timestamp.before.max.ms": true,
	"message.timestamp.after.max.ms":  true,
}

// topicConfigs are the configs of one topic as its cluster describes them.
type topicConfigs struct {
	overrides map[string]string // set on the topic
	effective map[string]string // all, wherever they come from
	err       error
}

// readTopicConfigs describes the configs of topics, as any broker of a cluster (a client) or a certain one knows them. A topic that could not be described has err set.
func readTopicConfigs(ctx context.Context, cluster kmsg.Requestor, names []string) (map[string]topicConfigs, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range names {
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType = kmsg.ConfigResourceTypeTopic
		resource.ResourceName = name
		req.Resources = append(req.Resources, resource)
	}
	resp, err := req.RequestWith(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("describe topic configs: %w", err)
	}
	found := make(map[string]topicConfigs, len(names))
	for i := range resp.Resources {
		r := &resp.Resources[i]
		configs := topicConfigs{
			overrides: map[string]string{}, effective: map[string]string{},
			err: brokerError(r.ErrorCode, r.ErrorMessage),
		}
		for i := range r.Configs {
			c := &r.Configs[i]
			if c.Value == nil {
				continue
			}
			configs.effective[c.Name] = *c.Value
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
				configs.overrides[c.Name] = *c.Value
			}
		}
		found[r.ResourceName] = configs
	}
	for _, name := range names {
		if _, ok := found[name]; !ok {
			found[name] = topicConfigs{err: fmt.Errorf("the configs of topic %s were not described", name)}
		}
	}
	return found, nil
}

// lack says which of the overrides wanted is not there.
func (c topicConfigs) lack(wanted map[string]string) error {
	if c.err != nil {
		return c.err
	}
	for key, value := range wanted {
		if found := c.overrides[key]; found != value {
			return fmt.Errorf("%s is %q, not %q", key, found, value)
		}
	}
	return nil
}

// lackOwned is lack of what every topic has that was prepared for replication.
func (c topicConfigs) lackOwned() error {
	indispensable := maps.Clone(owned)
	maps.DeleteFunc(indispensable, func(key, _ string) bool { return dispensable[key] })
	return c.lack(indispensable)
}

// exclusion chooses the topic configs that do not follow the source.
type exclusion []pattern

func newExclusion(mirrorConfigs map[string]string) (exclusion, error) {
	value, ok := mirrorConfigs[configPropertiesExclude]
	if !ok {
		value = defaultPropertiesExclude
	}
	var e exclusion
	for _, item := range splitList(value) {
		p, err := compilePattern(item)
		if err != nil {
			return nil, fmt.Errorf("mirror configuration %s: %w", configPropertiesExclude, err)
		}
		e = append(e, p)
	}
	return e, nil
}

func (e exclusion) excludes(key string) bool {
	if key == configMirrorName {
		return true
	}
	return slices.ContainsFunc(e, func(p pattern) bool { return p.matches(key) })
}

// configsWhileMirrored returns the overrides that a destination topic has while it is mirrored: the source's, and over them
// what replication owns. handBack is what the owned ones become when mirroring stops: the source's override, or none (nil).
// Without raiseLimits (mirror.raise-topic-limits) max.message.bytes is the source's; it is handed back all the same, since
// the mirror may be altered meanwhile.
func configsWhileMirrored(source topicConfigs, exclude exclusion, raiseLimits bool) (wanted map[string]string, handBack map[string]*string) {
	wanted = map[string]string{}
	for key, value := range source.overrides {
		if !exclude.excludes(key) {
			wanted[key] = value
		}
	}
	replicationOwns := map[string]string{
		configCleanupPolicy:   policyWithDelete(source.effective[configCleanupPolicy]),
		configMaxMessageBytes: withSlack(source.effective[configMaxMessageBytes]),
	}
	for key, value := range owned {
		replicationOwns[key] = value
	}
	handBack = make(map[string]*string, len(replicationOwns))
	for key, value := range replicationOwns {
		handBack[key] = nil
		if theirs, ok := wanted[key]; ok {
			handBack[key] = &theirs
		}
		if key != configMaxMessageBytes || raiseLimits {
			wanted[key] = value
		}
	}
	return wanted, handBack
}

// policyWithDelete adds delete to a cleanup policy: without it DeleteRecords is refused, by which the destination's log
// start follows the source's.
func policyWithDelete(policy string) string {
	items := splitList(policy)
	if len(items) == 0 {
		return policyDelete
	}
	if !slices.Contains(items, policyDelete) {
		items = append(items, policyDelete)
	}
	return strings.Join(items, ",")
}

func withSlack(maxMessageBytes string) string {
	n, err := strconv.ParseInt(maxMessageBytes, 10, 32)
	if err != nil || n <= 0 {
		n = defaultMaxMessageBytes
	}
	const largest = 1<<31 - 1
	return strconv.FormatInt(min(n+maxMessageSlackBytes, largest), 10)
}

func isOwned(key string) bool {
	_, ok := owned[key]
	return ok || key == configCleanupPolicy || key == configMaxMessageBytes
}

// isDispensable tells which configs may be left out when the destination refuses them.
func isDispensable(key string) bool { return !isOwned(key) || dispensable[key] }
