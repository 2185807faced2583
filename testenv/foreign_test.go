package testenv

import (
	"context"
	"strings"
	"testing"
	"time"
)

// Each client writes one record to its own partition and kcat reads them all.
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
	lines := RunKcat(t, "-C", "-e", "-q", "-b", fake.Bootstrap()[0], "-t", "foreign")
	for _, want := range []string{"kafka-python\n", "confluent-kafka\n", "aiokafka\n"} {
		if strings.Count(lines, want) != 1 {
			t.Errorf("kcat read %q, want one %q", lines, want)
		}
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
