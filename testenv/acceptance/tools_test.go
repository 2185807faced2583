package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kafka-mirror-proxy/testenv"
)

// side is one of the two ways to the destination. What is seen on the one must be seen on the other, but for names.
type side struct {
	t         *testing.T
	bootstrap string
	topic     string
	group     string
	names     *strings.Replacer
	// hidden are the ports that must not be seen on this side.
	hidden map[int]bool
}

// newSides are the brokers themselves and the proxy.
func newSides(t *testing.T, p *proxy) (direct, proxied *side) {
	t.Helper()
	k := destination.Kafka(t)
	named := func(way string, bootstrap string, address func(int32) string) *side {
		s := &side{t: t, bootstrap: bootstrap, topic: uniqueName("ordinary-" + way), group: uniqueName("group-" + way)}
		names := []string{s.topic, "TOPIC", s.group, "GROUP"}
		for _, id := range k.NodeIDs() {
			broker := fmt.Sprintf("BROKER-%d", id)
			names = append(names, address(id), broker, strings.ReplaceAll(address(id), ":", " "), broker)
		}
		s.names = strings.NewReplacer(names...)
		return s
	}
	direct = named("direct", k.BrokerAddr(1), k.BrokerAddr)
	proxied = named("proxied", p.Address(), func(id int32) string {
		host, port := p.brokerAddress(id)
		return fmt.Sprintf("%s:%d", host, port)
	})
	proxied.hidden = brokerPorts(t)
	return direct, proxied
}

// noBroker wants no address of a broker in an output.
func (s *side) noBroker(what, text string) {
	s.t.Helper()
	for _, number := range numbers.FindAllString(text, -1) {
		if port, err := strconv.Atoi(number); err == nil && s.hidden[port] {
			s.t.Errorf("%s: names port %d, which is a broker's: %s", what, port, text)
		}
	}
}

// Parts of outputs that differ from run to run.
var (
	manySpaces = regexp.MustCompile(`[ \t]+`)
	topicID    = regexp.MustCompile(`TopicId: \S+`)
	numbers    = regexp.MustCompile(`\d+`)
	controller = regexp.MustCompile(`CONTROLLER://[^"]+`)
)

// normal is an output with names put in place of what is this side's own.
func (s *side) normal(text string) string {
	text = s.names.Replace(manySpaces.ReplaceAllString(text, " "))
	return strings.TrimSpace(topicID.ReplaceAllString(text, "TopicId: ID"))
}

func sortedLines(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// withoutControllers takes out the addresses of the controllers, in whose place the proxy puts those of its brokers.
func withoutControllers(text string) string {
	return withoutNumbers(controller.ReplaceAllString(text, "CONTROLLER"))
}

func withoutNumbers(text string) string { return numbers.ReplaceAllString(text, "N") }

// brokerLines are those that name a broker.
func brokerLines(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "(id: ") {
			lines = append(lines, line)
		}
	}
	return sortedLines(strings.Join(lines, ""))
}

// withoutOthers drops from a list what is not of the topic at hand or the mirror's: other tests' and Kafka's own.
func withoutOthers(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "TOPIC") || strings.HasPrefix(line, "GROUP") || strings.HasPrefix(line, "mirrored-") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return sortedLines(strings.Join(lines, "\n"))
}

const (
	tools        = "org.apache.kafka.tools."
	consumerTool = tools + "consumer.ConsoleConsumer"
	groupTool    = tools + "consumer.group.ConsumerGroupCommand"
	topicTool    = tools + "TopicCommand"
	configTool   = "kafka.admin.ConfigCommand"
	toolRecords  = 200
)

// toolStep is one run of a tool. loose takes out of its output what need not be the same on both sides.
type toolStep struct {
	class string
	args  []string
	stdin string
	loose func(string) string
	// contains is a part of the output, with names put in place.
	contains string
	// reads: it only looks, and is run again until it sees what contains says. Each broker learns of changes by itself.
	reads bool
}

// toolSteps is the life of a topic and its groups. Bootstrap is added to each.
func (s *side) toolSteps() []toolStep {
	var records strings.Builder
	for i := range toolRecords {
		fmt.Fprintf(&records, "key-%d:value %d\n", i%17, i)
	}
	deleteFile := filepath.Join(s.t.TempDir(), "delete.json")
	deletion := fmt.Sprintf(`{"version":1,"partitions":[{"topic":%q,"partition":0,"offset":1}]}`, s.topic)
	if err := os.WriteFile(deleteFile, []byte(deletion), 0o600); err != nil {
		s.t.Fatal(err)
	}
	topic := []string{"--topic", s.topic}
	group := []string{"--group", s.group}
	entity := []string{"--entity-type", "topics", "--entity-name", s.topic}
	shareGroup := []string{"--entity-type", "groups", "--entity-name", s.group + "-share"}
	with := func(base []string, more ...string) []string { return slices.Concat(more, base) }
	return []toolStep{
		{class: topicTool, args: with(topic, "--create", "--replica-assignment", "1:2:3,2:3:1,3:1:2", "--config", "retention.ms=86400000")},
		{class: topicTool, args: with(topic, "--alter", "--partitions", "4", "--replica-assignment", "1:2:3,2:3:1,3:1:2,1:3:2")},
		{class: topicTool, args: with(topic, "--describe"), contains: "PartitionCount: 4", reads: true},
		{class: topicTool, args: []string{"--list"}, loose: withoutOthers, contains: "TOPIC", reads: true},
		{class: configTool, args: with(entity, "--alter", "--add-config", "max.message.bytes=2000000,cleanup.policy=delete")},
		{class: configTool, args: with(entity, "--describe"), contains: "max.message.bytes=2000000", reads: true},
		{class: configTool, args: with(entity, "--describe", "--all"), contains: "max.message.bytes=2000000", reads: true},
		{class: configTool, args: with(entity, "--alter", "--delete-config", "max.message.bytes")},
		{class: configTool, args: []string{"--describe", "--entity-type", "brokers"}},
		{class: tools + "ConsoleProducer", stdin: records.String(), args: with(topic, "--reader-property", "parse.key=true", "--reader-property", "key.separator=:")},
		{class: tools + "GetOffsetShell", args: topic, contains: "TOPIC:3:", reads: true},
		{class: consumerTool, args: slices.Concat(topic, group, []string{"--from-beginning", "--max-messages", fmt.Sprint(toolRecords), "--timeout-ms", "60000",
			"--formatter-property", "print.key=true", "--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true"}),
			loose: sortedLines, contains: "value 199"},
		{class: groupTool, args: []string{"--list"}, loose: withoutOthers, contains: "GROUP", reads: true},
		{class: groupTool, args: with(group, "--describe"), loose: sortedLines, contains: "GROUP TOPIC 3"},
		{class: groupTool, args: with(group, "--describe", "--state"), loose: withoutNumbers, contains: "Empty"}, // the coordinator hangs on the group's name
		{class: groupTool, args: with(group, "--describe", "--members")},
		{class: groupTool, args: with(slices.Concat(group, topic), "--reset-offsets", "--to-earliest", "--execute"), loose: sortedLines, contains: "GROUP TOPIC 3 0"},
		{class: groupTool, args: with(group, "--describe"), loose: sortedLines, contains: "GROUP TOPIC 3"},
		{class: groupTool, args: with(slices.Concat(group, topic), "--delete-offsets"), loose: sortedLines},
		{class: groupTool, args: with(group, "--delete"), contains: "successful"},
		{class: configTool, args: with(shareGroup, "--alter", "--add-config", "share.auto.offset.reset=earliest")},
		{class: tools + "consumer.ConsoleShareConsumer", args: slices.Concat(topic, []string{"--group", s.group + "-share", "--max-messages", fmt.Sprint(toolRecords), "--timeout-ms", "60000"}),
			loose: sortedLines, contains: "value 199"},
		{class: tools + "DeleteRecordsCommand", args: []string{"--offset-json-file", deleteFile}, contains: "low_watermark: 1"},
		{class: tools + "GetOffsetShell", args: with(topic, "--time", "earliest"), contains: "TOPIC:0:1", reads: true},
		{class: tools + "LeaderElectionCommand", args: with(topic, "--election-type", "preferred", "--partition", "0")},
		{class: tools + "reassign.ReassignPartitionsCommand", args: []string{"--list"}},
		{class: tools + "LogDirsCommand", args: []string{"--describe", "--topic-list", s.topic}, loose: withoutNumbers, contains: "TOPIC-N"},
		{class: tools + "ClusterTool", args: []string{"cluster-id"}, contains: destination.Kafka(s.t).ClusterID()},
		{class: tools + "ClusterTool", args: []string{"list-endpoints"}, loose: sortedLines, contains: "3 "},
		{class: tools + "MetadataQuorumCommand", args: []string{"describe", "--status"}, loose: withoutControllers, contains: "ClusterId"},
		{class: tools + "MetadataQuorumCommand", args: []string{"describe", "--replication"}, loose: withoutNumbers, contains: "Leader"},
		{class: tools + "FeatureCommand", args: []string{"describe"}, loose: withoutNumbers, contains: "metadata.version"},
		{class: tools + "BrokerApiVersionsCommand", loose: brokerLines, contains: "BROKER-3 (id: 3"},
		{class: topicTool, args: with(topic, "--delete")},
	}
}

// run runs a step on this side.
func (s *side) run(java *javaTools, step toolStep) string {
	s.t.Helper()
	args := slices.Concat([]string{"--bootstrap-server", s.bootstrap}, step.args)
	if strings.HasSuffix(step.class, "ClusterTool") { // takes its command first
		args = slices.Concat(step.args, []string{"--bootstrap-server", s.bootstrap})
	}
	var text string
	once := func() error {
		r := java.run(step.stdin, step.class, args...)
		text = r.stdout
		if r.exit != 0 {
			text += r.stderr
		}
		s.noBroker(step.class, text)
		text = s.normal(text)
		if step.loose != nil {
			text = step.loose(text)
		}
		if r.exit != 0 || !strings.Contains(text, step.contains) {
			return fmt.Errorf("want exit 0 and %q, got %v\nread as: %s", step.contains, r, text)
		}
		return nil
	}
	what := fmt.Sprintf("%s %v", step.class, args)
	if step.reads {
		testenv.Eventually(s.t, callTimeout, what, once)
	} else if err := once(); err != nil {
		s.t.Errorf("%s: %v", what, err)
	}
	return text
}

// TestOrdinaryClientsJavaTools: Kafka's own tools say the same with the proxy as without, and stay behind it.
func TestOrdinaryClientsJavaTools(t *testing.T) {
	m := startMirrored(t)
	defer m.Drop()
	direct, proxied := newSides(t, m.proxy)
	java := startJavaTools(t)
	var want []string
	for _, step := range direct.toolSteps() {
		want = append(want, direct.run(java, step))
	}
	java.close()
	java = startJavaTools(t) // that holds no connection of before
	watch := watchSockets(t, m.proxy)
	steps := proxied.toolSteps()
	for i, step := range steps {
		if got := proxied.run(java, step); got != want[i] {
			t.Errorf("%s %v\nby way of the proxy: %s\n\nwithout: %s", step.class, step.args, got, want[i])
		}
	}
	watch.Finish(len(steps))
}
