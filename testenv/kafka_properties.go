package testenv

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// properties is the configuration of one node: what a cluster on one machine needs, and
// settings that make it small and quick. What a client can observe is left at Kafka's defaults
// apart from the group rebalance delay and how soon a dead broker is fenced.
func (k *Kafka) properties(id int32) map[string]string {
	count := k.config.Brokers
	replicas := strconv.Itoa(min(3, count))
	minInSync := strconv.Itoa(min(2, count))
	properties := map[string]string{
		"advertised.listeners": "PLAINTEXT://" + k.ports.Addr(int(id)-1),

		"offsets.topic.replication.factor":                 replicas,
		"offsets.topic.num.partitions":                     "4",
		"transaction.state.log.replication.factor":         replicas,
		"transaction.state.log.min.isr":                    minInSync,
		"transaction.state.log.num.partitions":             "4",
		"share.coordinator.state.topic.replication.factor": replicas,
		"share.coordinator.state.topic.min.isr":            minInSync,
		"share.coordinator.state.topic.num.partitions":     "4",
		"group.initial.rebalance.delay.ms":                 "0",

		"broker.session.timeout.ms":      "4000",
		"broker.heartbeat.interval.ms":   "500",
		"num.network.threads":            "2",
		"num.io.threads":                 "4",
		"background.threads":             "2",
		"log.cleaner.dedupe.buffer.size": "16777216",
	}
	if k.zooKeeper != nil {
		k.addZooKeeper(properties, id)
	} else {
		k.addController(properties, id)
	}
	if len(k.config.Users) > 0 {
		k.addUsers(properties)
	}
	if k.config.Tiered {
		k.addTiered(properties)
	}
	maps.Copy(properties, k.config.Properties)
	return properties
}

// addController makes the node a broker and a KRaft controller. Their ports are the second half of the block.
func (k *Kafka) addController(properties map[string]string, id int32) {
	count := k.config.Brokers
	var voters []string
	for i := range count {
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, k.ports.Addr(count+i)))
	}
	properties["process.roles"] = "broker,controller"
	properties["node.id"] = strconv.Itoa(int(id))
	properties["controller.quorum.voters"] = strings.Join(voters, ",")
	properties["controller.listener.names"] = "CONTROLLER"
	properties["listeners"] = fmt.Sprintf("PLAINTEXT://%s,CONTROLLER://%s", k.ports.Addr(int(id)-1), k.ports.Addr(count+int(id)-1))
	properties["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
}

// saslPort is, in the block of ports, where the users of a single broker log in.
const saslPort = 2

func (k *Kafka) addUsers(properties map[string]string) {
	sasl := ",SASL://" + k.ports.Addr(saslPort)
	properties["listeners"] += sasl
	properties["advertised.listeners"] += sasl
	properties["listener.security.protocol.map"] += ",SASL:SASL_PLAINTEXT"
	jaas := "org.apache.kafka.common.security.plain.PlainLoginModule required"
	for _, user := range k.config.Users {
		jaas += fmt.Sprintf(" user_%s=%q", user, user)
	}
	properties["listener.name.sasl.sasl.enabled.mechanisms"] = "PLAIN"
	properties["listener.name.sasl.plain.sasl.jaas.config"] = jaas + ";"
	properties["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
	properties["super.users"] = "User:" + k.config.Users[0]
	properties["allow.everyone.if.no.acl.found"] = "true"
}

// addZooKeeper makes the node a broker that finds the others in ZooKeeper.
func (k *Kafka) addZooKeeper(properties map[string]string, id int32) {
	properties["broker.id"] = strconv.Itoa(int(id))
	properties["listeners"] = "PLAINTEXT://" + k.ports.Addr(int(id)-1)
	properties["zookeeper.connect"] = k.zooKeeper.addr
	properties["zookeeper.session.timeout.ms"] = properties["broker.session.timeout.ms"]
}

// renderProperties is the text of a Java properties file. Kafka's own names and values need no
// escaping but the backslash.
func renderProperties(properties map[string]string) []byte {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&text, "%s=%s\n", name, strings.ReplaceAll(properties[name], `\`, `\\`))
	}
	return []byte(text.String())
}
