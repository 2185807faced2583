package acceptance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/testenv"
)

// moveLeader makes another replica the leader, by way of the client, and returns the old and the new one.
func moveLeader(t *testing.T, client *kgo.Client, topic string, partition int32) (old, leader int32) {
	t.Helper()
	old, err := leaderOf(t, client, topic, partition)
	if err != nil {
		t.Fatal(err)
	}
	leader = old%3 + 1
	admin := kadm.NewClient(client) // not closed: the client is the caller's
	var assign kadm.AlterPartitionAssignmentsReq
	assign.Assign(topic, partition, []int32{leader, leader%3 + 1, old})
	responses, err := admin.AlterPartitionAssignments(within(t), assign)
	if err = errors.Join(err, responses.Error()); err != nil {
		t.Fatalf("reassign %s-%d: %v", topic, partition, err)
	}
	testenv.Eventually(t, callTimeout, fmt.Sprintf("broker %d to lead %s-%d", leader, topic, partition), func() error {
		elect := kmsg.NewPtrElectLeadersRequest()
		elect.TimeoutMillis = 5000
		aim := kmsg.NewElectLeadersRequestTopic()
		aim.Topic, aim.Partitions = topic, []int32{partition}
		elect.Topics = append(elect.Topics, aim)
		response, err := elect.RequestWith(within(t), client)
		if err == nil {
			err = kerr.ErrorForCode(response.ErrorCode)
		}
		if err != nil {
			return err
		}
		now, err := leaderOf(t, client, topic, partition)
		if err == nil && now != leader {
			err = fmt.Errorf("broker %d leads", now)
		}
		return err
	})
	return old, leader
}

// TestOrdinaryClientsFollowTheLeader: leaders move while clients write and read. Every record arrives once and in order, and
// the addresses that brokers add to their answers then (KIP-951) are the proxy's.
func TestOrdinaryClientsFollowTheLeader(t *testing.T) {
	m := startMirrored(t)
	defer m.Drop()
	topic := uniqueName("ordinary")
	createOrdinary(t, m.proxy, topic, []int32{1, 2, 3})
	watch := watchSockets(t, m.proxy)
	client := newClient(t, m.Bootstrap())
	defer client.Close()

	consumer := startConsole(t, consumerTool, "--bootstrap-server", m.Address(), "--topic", topic, "--from-beginning", "--timeout-ms", "120000",
		"--max-messages", fmt.Sprint(2*followRecords))
	producer := startConsole(t, tools+"ConsoleProducer", "--bootstrap-server", m.Address(), "--topic", topic, "--command-property", "enable.idempotence=true")
	franz := newClient(t, m.Bootstrap(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer franz.Close()
	for i := range followRecords {
		if i%(followRecords/4) == followRecords/8 { // four times
			old, leader := moveLeader(t, client, topic, 0)
			wantNodeEndpoints(t, m, client, topic, old, leader)
		}
		producer.write(t, fmt.Sprintf("Java %d\n", i))
		if err := client.ProduceSync(within(t), &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "franz %d", i)}).FirstErr(); err != nil {
			t.Fatalf("franz-go cannot produce: %v", err)
		}
	}
	producer.end(t)
	wantInOrder(t, "Java", strings.Fields(strings.ReplaceAll(consumer.end(t), " ", "-")))
	wantInOrder(t, "franz-go", readAll(t, franz, 2*followRecords))
	client.Close()
	franz.Close()
	watch.Finish(8)
}

// followRecords is how many records each of the two producers writes.
const followRecords = 200

// wantInOrder wants each producer's records once and in order.
func wantInOrder(t *testing.T, reader string, got []string) {
	t.Helper()
	next := map[string]int{}
	for _, record := range got {
		writer, number, _ := strings.Cut(record, "-")
		if want := fmt.Sprint(next[writer]); number != want {
			t.Fatalf("%s read %q where %s's record %s was next", reader, record, writer, want)
		}
		next[writer]++
	}
	if next["Java"] != followRecords || next["franz"] != followRecords {
		t.Fatalf("%s read %v records, want %d of each", reader, next, followRecords)
	}
}

func readAll(t *testing.T, client *kgo.Client, count int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), mirrorTimeout)
	defer cancel()
	var all []string
	for len(all) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d of %d records read: %v", len(all), count, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { all = append(all, strings.ReplaceAll(string(r.Value), " ", "-")) })
	}
	return all
}

// wantNodeEndpoints asks the old leader for what only the new one has.
func wantNodeEndpoints(t *testing.T, m *mirrored, client *kgo.Client, topic string, old, leader int32) {
	t.Helper()
	aim := aimAt(t, client, topic)
	host, port := m.brokerAddress(leader)
	for version := int16(10); version <= 13; version++ {
		pinned := newClient(t, m.Bootstrap(), kgo.MaxVersions(versionsWith(kmsg.Produce.Int16(), version)))
		answer, err := pinned.Broker(int(old)).Request(within(t), produceRequest(-1, aim))
		pinned.Close()
		if err != nil {
			t.Fatalf("Produce v%d: %v", version, err)
		}
		response := answer.(*kmsg.ProduceResponse)
		if len(response.Brokers) != 1 || response.Brokers[0].NodeID != leader || response.Brokers[0].Host != host || response.Brokers[0].Port != port {
			t.Errorf("Produce v%d to the old leader, error %d: node endpoints %+v, want broker %d at %s:%d", version,
				response.Topics[0].Partitions[0].ErrorCode, response.Brokers, leader, host, port)
		}
	}
	for version := int16(16); version <= 18; version++ {
		pinned := newClient(t, m.Bootstrap(), kgo.MaxVersions(versionsWith(kmsg.Fetch.Int16(), version)))
		answer, err := pinned.Broker(int(old)).Request(within(t), fetchFrom(aim))
		pinned.Close()
		if err != nil {
			t.Fatalf("Fetch v%d: %v", version, err)
		}
		response := answer.(*kmsg.FetchResponse)
		if len(response.Brokers) != 1 || response.Brokers[0].NodeID != leader || response.Brokers[0].Host != host || response.Brokers[0].Port != port {
			t.Errorf("Fetch v%d from the old leader: node endpoints %+v, want broker %d at %s:%d", version, response.Brokers, leader, host, port)
		}
	}
}

// fetchFrom fetches with the first leader's epoch: without one a follower answers with what it has.
func fetchFrom(aim topicAim) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.MaxBytes, request.MinBytes, request.MaxWaitMillis = 1<<20, 1, 100
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = aim.name, aim.id
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.PartitionMaxBytes, partition.CurrentLeaderEpoch = 1<<20, 0
	topic.Partitions = append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	return request
}

// console is a running console tool of its own JVM.
type console struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	output  chan string
	stderr  strings.Builder
}

func startConsole(t *testing.T, mainClass string, args ...string) *console {
	t.Helper()
	command, err := testenv.JavaCommand(t.Context(), mainClass, args...)
	if err != nil {
		t.Fatal(err)
	}
	c := &console{command: command, output: make(chan string, 1)}
	command.Stderr = &c.stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	go func() {
		text, _ := io.ReadAll(bufio.NewReader(stdout)) // a pipe that breaks is seen by how the command ends
		c.output <- string(text)
	}()
	return c
}

func (c *console) write(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c.stdin, line); err != nil {
		t.Fatalf("write to %v: %v", c.command.Args, err)
	}
}

// end closes the tool's input and returns its output when it has ended.
func (c *console) end(t *testing.T) string {
	t.Helper()
	if err := c.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case text := <-c.output:
		if err := c.command.Wait(); err != nil {
			t.Fatalf("%v: %v\n%s", c.command.Args, err, c.stderr.String())
		}
		return text
	case <-time.After(mirrorTimeout):
		t.Fatalf("%v does not end", c.command.Args)
		return ""
	}
}
