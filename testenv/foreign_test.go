package testenv

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Each client writes one record to its own partition.
const produceWithEach = `
import asyncio, sys
import aiokafka, confluent_kafka, kafka

server, topic = sys.argv[1], sys.argv[2]

producer = kafka.KafkaProducer(bootstrap_servers=server)
producer.send(topic, b"kafka-python", partition=0).get(30)
producer.close()

producer = confluent_kafka.Producer({"bootstrap.servers": server})
producer.produce(topic, b"confluent-kafka", partition=1)
assert producer.flush(30) == 0

async def main():
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=server)
    await producer.start()
    await producer.send_and_wait(topic, b"aiokafka", partition=2)
    await producer.stop()

asyncio.run(main())
print("produced")
`

func TestForeignClients(t *testing.T) {
	fake := NewFake(t, FakeConfig{Topics: map[string]int32{"foreign": 3}})
	if got := RunPython(t, produceWithEach, fake.Bootstrap()[0], "foreign"); got != "produced\n" {
		t.Errorf("the script printed %q", got)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(fake.Bootstrap()...), kgo.ConsumeTopics("foreign"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := map[int32]string{}
	for len(got) < 3 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		for _, record := range fetches.Records() {
			got[record.Partition] += string(record.Value)
		}
	}
	if got[0] != "kafka-python" || got[1] != "confluent-kafka" || got[2] != "aiokafka" {
		t.Errorf("consumed %q", got)
	}
}

func TestKcat(t *testing.T) {
	fake := NewFake(t, FakeConfig{Topics: map[string]int32{"cat": 1}})
	if got := RunKcat(t, "-L", "-b", fake.Bootstrap()[0]); !strings.Contains(got, `topic "cat" with 1 partitions`) {
		t.Errorf("kcat listed %q", got)
	}
	if _, stderr, exit, err := Kcat(t.Context(), "-no-such-option"); err != nil || exit == 0 || stderr == "" {
		t.Errorf("a bad option: exit %d, stderr %q, %v", exit, stderr, err)
	}
}

func TestPythonFailureIsTold(t *testing.T) {
	if got := RunPython(t, "import sys; print(sys.argv[1:])", "a b", "c"); got != "['a b', 'c']\n" {
		t.Errorf("arguments arrived as %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, stderr, exit, err := Python(ctx, "raise SystemExit('broken')")
	if err != nil || exit != 1 || !strings.Contains(stderr, "broken") {
		t.Errorf("exit %d, stderr %q, %v", exit, stderr, err)
	}
}
