package acceptance

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/testenv"
)

const (
	mirroredPartitions = 3
	mirroredRecords    = 300
)

// mirrored is a topic that a proxy mirrors: what nobody but the proxy may write to.
type mirrored struct {
	*proxy
	mirror, topic string
}

// startMirrored starts a proxy and has it mirror a topic whose source nobody writes to any more. The caller must defer Drop.
func startMirrored(t *testing.T) *mirrored {
	t.Helper()
	m := &mirrored{mirror: uniqueName("mirror"), topic: uniqueName("mirrored")}
	createTopic(t, m.topic, mirroredPartitions)
	newWriter(t, m.topic, mirroredPartitions).Write(mirroredRecords)
	m.proxy = startProxy(t)
	m.CreateMirror(m.mirror)
	m.MustMirrors("", "--add", "--mirror", m.mirror, "--topic", m.topic)
	m.WaitNoLag(m.mirror, m.topic, mirroredPartitions)
	return m
}

// WantUntouched wants the mirror topic to end where the source's does: no record and no marker more.
func (m *mirrored) WantUntouched(t *testing.T) {
	t.Helper()
	want, got := ends(t, source, m.topic), ends(t, destination, m.topic)
	if !slices.Equal(got, want) {
		t.Errorf("%s ends at %v, on the source at %v", m.topic, got, want)
	}
}

// Drop wants the mirror topic to be the source's still, and deletes the mirror. It is not a cleanup of the test, because
// those come after the end of its context.
func (m *mirrored) Drop() {
	m.t.Helper()
	m.WantUntouched(m.t)
	verifyEqual(m.t, source.Kafka(m.t).Bootstrap(), destination.Kafka(m.t).Bootstrap(), mirroredRecords, m.topic)
	m.DropMirror(m.mirror)
}

// createOrdinary creates a topic by way of the proxy, one partition for each list of replicas, and waits until
// every broker knows its leaders.
func createOrdinary(t *testing.T, p *proxy, topic string, replicas ...[]int32) {
	t.Helper()
	createOrdinaryAt(t, p.Bootstrap(), topic, replicas...)
}

// createOrdinaryAt is createOrdinary by way of other addresses.
func createOrdinaryAt(t *testing.T, bootstrap []string, topic string, replicas ...[]int32) {
	t.Helper()
	client := newClient(t, bootstrap)
	defer client.Close()
	create := kmsg.NewCreateTopicsRequestTopic()
	create.Topic, create.NumPartitions, create.ReplicationFactor = topic, -1, -1
	for partition, brokers := range replicas {
		assignment := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		assignment.Partition, assignment.Replicas = int32(partition), brokers
		create.ReplicaAssignment = append(create.ReplicaAssignment, assignment)
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics = append(request.Topics, create)
	response, err := request.RequestWith(within(t), client)
	if err == nil {
		err = kerr.ErrorForCode(response.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("create %s: %v", topic, err)
	}
	// Each broker learns of it by itself, and a request may go to any of them.
	for _, broker := range destination.Kafka(t).NodeIDs() {
		testenv.Eventually(t, callTimeout, fmt.Sprintf("broker %d to know the leaders of %s", broker, topic), func() error {
			ask := kmsg.NewPtrMetadataRequest()
			aim := kmsg.NewMetadataRequestTopic()
			aim.Topic = &topic
			ask.Topics, ask.AllowAutoTopicCreation = append(ask.Topics, aim), false
			answer, err := client.Broker(int(broker)).Request(within(t), ask)
			if err != nil {
				return err
			}
			known := answer.(*kmsg.MetadataResponse).Topics[0]
			err = kerr.ErrorForCode(known.ErrorCode)
			for _, partition := range known.Partitions {
				err = errors.Join(err, kerr.ErrorForCode(partition.ErrorCode))
			}
			if err == nil && len(known.Partitions) != len(replicas) {
				err = fmt.Errorf("it knows %d partitions", len(known.Partitions))
			}
			return err
		})
	}
}
