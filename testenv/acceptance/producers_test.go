package acceptance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"kafka-mirror-proxy/testenv"
)

// Metrics by which a refused producer is seen from the proxy's side.
const (
	produceRequests = `kafka_mirror_proxy_requests_total{api="Produce"}`
	addRequests     = `kafka_mirror_proxy_requests_total{api="AddPartitionsToTxn"}`
	refusedCloses   = `kafka_mirror_proxy_closes_total{cause="refused_acks0"}`
)

// refusedProducers runs producers against a mirror topic.
type refusedProducers struct {
	*mirrored
	t    *testing.T
	java *javaTools
}

// TestRefusedProducersFailAtOnce: each client library gives the record up when it is refused, instead of trying on until
// its own timeout: seen by what it reports and by how often it asked.
func TestRefusedProducersFailAtOnce(t *testing.T) {
	r := refusedProducers{t: t, mirrored: startMirrored(t), java: startJavaTools(t)}
	defer r.Drop()
	r.plain()
	r.withoutAcks()
	r.transactional()
}

// once wants an attempt to be reported with these words, and exactly one request of it, seen by the metric, to have come
// to the proxy.
func (r *refusedProducers) once(name, metric string, attempt func(t *testing.T) string, words ...string) {
	r.t.Run(name, func(t *testing.T) {
		before := r.Metric(metric)
		report := attempt(t)
		t.Logf("reported: %s", strings.TrimSpace(report))
		for _, word := range words {
			if !strings.Contains(report, word) {
				t.Errorf("what it reported does not say %q", word)
			}
		}
		testenv.Eventually(t, callTimeout, metric+" to grow", func() error { // a client that waits for no answer is faster than the proxy
			if r.Metric(metric) == before {
				return errors.New("it has not")
			}
			return nil
		})
		r.WantUntouched(t)
		if came := r.Metric(metric) - before; came != 1 {
			t.Errorf("%s grew by %v, want 1", metric, came)
		}
	})
}

// plain are producers that wait for an answer.
func (r *refusedProducers) plain() {
	r.once("franz-go idempotent", produceRequests, r.franz(), "134")
	r.once("franz-go acks=1", produceRequests, r.franz(kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck())), "134")
	r.once("Java idempotent", produceRequests, r.javaProducer(r.topic), "UnknownServerException")
	r.once("Java acks=1", produceRequests, r.javaProducer(r.topic, "acks=1", "enable.idempotence=false"), "UnknownServerException")
	r.once("Java console producer", produceRequests, func(*testing.T) string {
		got := r.java.run("a record\n", "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", r.Address(), "--topic", r.topic, "--sync")
		return got.String()
	}, "is read-only: it is mirrored by mirror")
	r.once("kcat idempotent", produceRequests, r.kcat("enable.idempotence=true", 1), "134")
	r.once("kcat acks=1", produceRequests, r.kcat("acks=1", 1), "134")
	r.once("confluent-kafka", produceRequests, r.python(confluentProducer), "134")
	r.once("kafka-python idempotent", produceRequests, r.python(kafkaPythonProducer, `{"enable_idempotence": true}`), "134")
	r.once("kafka-python acks=1", produceRequests, r.python(kafkaPythonProducer, `{"acks": 1, "enable_idempotence": false}`), "134")
}

// withoutAcks are producers that wait for none. Nothing tells them, but their connection is closed, once. (kafka-python is
// not among them: with acks=0 its close throws away what it has not sent yet, and it has no way to wait for that.)
func (r *refusedProducers) withoutAcks() {
	r.once("franz-go acks=0", refusedCloses, r.franz(kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck())))
	r.once("Java acks=0", refusedCloses, r.javaProducer(r.topic, "acks=0", "enable.idempotence=false"))
	r.once("kcat acks=0", refusedCloses, r.kcat("acks=0", 0))
}

// transactional are producers whose transactions also write to an ordinary topic. They are refused when the partition is
// added, where the client does that, else when they produce. The abort leaves its marker in the ordinary topic alone.
func (r *refusedProducers) transactional() {
	for _, version := range []struct {
		name, metric string
		most         *kversion.Versions
	}{{"adding partitions", addRequests, kversion.V3_6_0()}, {"adding by producing", produceRequests, kversion.Stable()}} {
		r.inTransaction("franz-go transactional "+version.name, func(t *testing.T, ordinary string) string {
			return r.franzTransaction(t, ordinary, version.most)
		}, "134")
	}
	r.inTransaction("Java transactional", func(t *testing.T, ordinary string) string {
		return r.javaProducer(ordinary+","+r.topic, "transactional.id="+uniqueName("java"))(t)
	}, "UnknownServerException", "aborted")
	r.inTransaction("confluent-kafka transactional", func(t *testing.T, ordinary string) string {
		return testenv.RunPython(t, confluentTransaction, r.Address(), ordinary, r.topic, uniqueName("confluent"))
	}, "134", "aborted")
	r.inTransaction("kafka-python transactional", func(t *testing.T, ordinary string) string {
		return testenv.RunPython(t, kafkaPythonTransaction, r.Address(), ordinary, r.topic, uniqueName("kafka-python"))
	}, "aborted")
}

// inTransaction wants the mirror topic untouched, and the ordinary one to have the record and the marker of the abort.
func (r *refusedProducers) inTransaction(name string, attempt func(t *testing.T, ordinary string) string, words ...string) {
	r.t.Run(name, func(t *testing.T) {
		ordinary := uniqueName("ordinary")
		createOrdinary(t, r.proxy, ordinary, []int32{1, 2, 3})
		before := r.Metric("kafka_mirror_proxy_refused_partitions_total")
		report := attempt(t, ordinary)
		t.Logf("reported: %s", strings.TrimSpace(report))
		for _, word := range words {
			if !strings.Contains(report, word) {
				t.Errorf("what it reported does not say %q", word)
			}
		}
		if came := r.Metric("kafka_mirror_proxy_refused_partitions_total") - before; came != 1 {
			t.Errorf("%v partitions were refused, want 1", came)
		}
		testenv.Eventually(t, callTimeout, "the transaction to end", func() error {
			if end := ends(t, destination, ordinary)[0]; end != 2 {
				return fmt.Errorf("the ordinary topic ends at %d, want a record and a marker", end)
			}
			return nil
		})
		if log := scan(t, destination, ordinary)[0]; log[0].control || !log[1].control {
			t.Errorf("the ordinary topic holds %+v, want a record and a marker", log)
		}
		r.WantUntouched(t)
	})
}

func (r *refusedProducers) franz(opts ...kgo.Opt) func(*testing.T) string {
	return func(t *testing.T) string {
		client := newClient(t, r.Bootstrap(), opts...)
		defer client.Close()
		err := client.ProduceSync(within(t), &kgo.Record{Topic: r.topic, Value: []byte("from franz-go")}).FirstErr()
		return franzError(err)
	}
}

// franzError has the number of a broker's error: franz-go may know it by another name than the KIP's.
func franzError(err error) string {
	var broker *kerr.Error
	if errors.As(err, &broker) {
		return fmt.Sprintf("%v (%d)", err, broker.Code)
	}
	return fmt.Sprint(err)
}

func (r *refusedProducers) franzTransaction(t *testing.T, ordinary string, most *kversion.Versions) string {
	client := newClient(t, r.Bootstrap(), kgo.TransactionalID(uniqueName("franz")), kgo.MaxVersions(most))
	defer client.Close()
	ctx := within(t)
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: ordinary, Value: []byte("in a transaction")}).FirstErr(); err != nil {
		t.Fatalf("produce to an ordinary topic: %v", err)
	}
	refused := client.ProduceSync(ctx, &kgo.Record{Topic: r.topic, Value: []byte("in a transaction")}).FirstErr()
	if err := client.EndTransaction(ctx, kgo.TryAbort); err != nil {
		t.Errorf("abort: %v", err)
	}
	return franzError(refused)
}

func (r *refusedProducers) javaProducer(topics string, configs ...string) func(*testing.T) string {
	return func(*testing.T) string {
		return r.java.produce(topics, append(configs, "bootstrap.servers="+r.Address())...)
	}
}

// kcat wants an exit code. What librdkafka has no name for it reports by its number.
func (r *refusedProducers) kcat(config string, wantExit int) func(*testing.T) string {
	return func(t *testing.T) string {
		file := filepath.Join(t.TempDir(), "records")
		if err := os.WriteFile(file, []byte("from kcat\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, stderr, exit, err := testenv.Kcat(t.Context(), "-P", "-b", r.Address(), "-t", r.topic, "-p", "0",
			"-X", config, "-X", "message.timeout.ms=60000", "-l", file)
		if err != nil || exit != wantExit {
			t.Errorf("kcat: exit %d, %v", exit, err)
		}
		return stderr
	}
}

func (r *refusedProducers) python(script string, args ...string) func(*testing.T) string {
	return func(t *testing.T) string {
		return testenv.RunPython(t, script, append([]string{r.Address(), r.topic}, args...)...)
	}
}

const confluentProducer = `
import sys
from confluent_kafka import Producer
reports = []
producer = Producer({"bootstrap.servers": sys.argv[1], "message.timeout.ms": 60000})
producer.produce(sys.argv[2], b"from confluent-kafka", partition=0, on_delivery=lambda error, message: reports.append(error))
producer.flush()
print(len(reports), reports[0].code(), reports[0].str(), reports[0].retriable())
`

const confluentTransaction = `
import sys
from confluent_kafka import KafkaException, Producer
reports = []
producer = Producer({"bootstrap.servers": sys.argv[1], "transactional.id": sys.argv[4]})
producer.init_transactions()
producer.begin_transaction()
for topic in sys.argv[2:4]:
    producer.produce(topic, b"from confluent-kafka", partition=0, on_delivery=lambda error, message: reports.append(error))
    producer.flush()
print([error and (error.code(), error.str()) for error in reports])
try:
    producer.commit_transaction()
    print("committed")
except KafkaException as error:
    print(error.args[0].code(), error.args[0].str(), error.args[0].txn_requires_abort())
    producer.abort_transaction()
    print("aborted")
`

const kafkaPythonProducer = `
import json, sys
from kafka import KafkaProducer
producer = KafkaProducer(bootstrap_servers=sys.argv[1], **json.loads(sys.argv[3]))
try:
    print("written at", producer.send(sys.argv[2], b"from kafka-python", partition=0).get(timeout=60))
except Exception as error:
    print(type(error).__name__, error)
producer.close()
`

const kafkaPythonTransaction = `
import sys
from kafka import KafkaProducer
producer = KafkaProducer(bootstrap_servers=sys.argv[1], transactional_id=sys.argv[4])
producer.init_transactions()
producer.begin_transaction()
try:
    for topic in sys.argv[2:4]:
        producer.send(topic, b"from kafka-python", partition=0).get(timeout=60)
except Exception as error:
    print(type(error).__name__, error)
producer.abort_transaction()
print("aborted")
`

// TestRefusedProduceRequests: at every version of the request, what names the mirror topic is refused and what names an
// ordinary one is written.
func TestRefusedProduceRequests(t *testing.T) {
	m := startMirrored(t)
	defer m.Drop()
	wantMarkersRefused(t, m.proxy, m.topic)
	client := newClient(t, m.Bootstrap())
	defer client.Close()
	leader, err := leaderOf(t, client, m.topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	ordinary := uniqueName("ordinary")
	createOrdinary(t, m.proxy, ordinary, []int32{leader})
	mirrorAim, ordinaryAim := aimAt(t, client, m.topic), aimAt(t, client, ordinary)
	_, leaderPort := m.brokerAddress(leader)
	written := int64(0)
	for version := int16(3); version <= 13; version++ {
		for _, order := range [][]topicAim{{mirrorAim, ordinaryAim}, {ordinaryAim, mirrorAim}} {
			wantMixedAnswer(t, m, leader, version, written, order...)
			written++
		}
		for _, aims := range [][]topicAim{{mirrorAim}, {mirrorAim, ordinaryAim}, {ordinaryAim, mirrorAim}} {
			conn := dialRaw(t, fmt.Sprintf("127.0.0.1:%d", leaderPort))
			conn.send(frameOf(produceRequest(0, aims...), version))
			conn.wantClosed(fmt.Sprintf("Produce v%d with acks=0 to %d topics, one of them a mirror's", version, len(aims)))
		}
	}
	if end := ends(t, destination, ordinary)[0]; end != written {
		t.Errorf("the ordinary topic ends at %d, want %d", end, written)
	}
}

// wantMixedAnswer sends one request to both topics.
func wantMixedAnswer(t *testing.T, m *mirrored, leader int32, version int16, offset int64, aims ...topicAim) {
	t.Helper()
	client := newClient(t, m.Bootstrap(), kgo.MaxVersions(versionsWith(kmsg.Produce.Int16(), version)))
	defer client.Close()
	answer, err := client.Broker(int(leader)).Request(within(t), produceRequest(-1, aims...))
	if err != nil {
		t.Fatalf("Produce v%d: %v", version, err)
	}
	response := answer.(*kmsg.ProduceResponse)
	if response.Version != version || len(response.Topics) != len(aims) {
		t.Fatalf("Produce v%d: got v%d with %d topics", version, response.Version, len(response.Topics))
	}
	for _, topic := range response.Topics {
		partition := topic.Partitions[0]
		ofMirror := topic.Topic == m.topic
		if version >= 13 {
			for _, aim := range aims {
				ofMirror = ofMirror || aim.name == m.topic && aim.id == topic.TopicID
			}
		}
		if !ofMirror {
			if partition.ErrorCode != 0 || partition.BaseOffset != offset {
				t.Errorf("Produce v%d: the ordinary topic was answered with error %d and offset %d, want offset %d", version, partition.ErrorCode, partition.BaseOffset, offset)
			}
			continue
		}
		if partition.ErrorCode != readOnlyCode {
			t.Errorf("Produce v%d: the mirror topic was answered with error %d, want %d", version, partition.ErrorCode, readOnlyCode)
		}
		if version < 8 {
			continue
		}
		if text := partition.ErrorMessage; text == nil || !strings.Contains(*text, m.topic) || !strings.Contains(*text, m.mirror) {
			t.Errorf("Produce v%d: the refusal does not name topic and mirror", version)
		}
	}
}

// brokerAddress is where clients find a broker.
func (p *proxy) brokerAddress(nodeID int32) (host string, port int32) {
	return "127.0.0.1", int32(p.ports.First + 1 + int(nodeID))
}
