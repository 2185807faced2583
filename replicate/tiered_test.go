package replicate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// earliestLocal asks for the first offset of a log that its broker holds itself (KIP-405).
const earliestLocal = -4

// awaitLogStarts waits until partition 0 of a topic of tiered storage starts, and its local part starts, where wanted.
func awaitLogStarts(t *testing.T, c *kgo.Client, topic string, start, local int64) {
	t.Helper()
	admin := kadm.NewClient(c)
	testenv.Eventually(t, patience, fmt.Sprintf("a log start of %d and a local one of %d", start, local), func() error {
		starts, err := admin.ListStartOffsets(context.Background(), topic)
		if err != nil {
			return err
		}
		locals, err := admin.ListOffsetsAfterMilli(context.Background(), earliestLocal, topic)
		if err != nil {
			return err
		}
		s, _ := starts.Lookup(topic, 0)
		l, _ := locals.Lookup(topic, 0)
		if s.Offset != start || l.Offset != local {
			return fmt.Errorf("the log starts at %d (%v), its local part at %d (%v)", s.Offset, s.Err, l.Offset, l.Err)
		}
		return nil
	})
}

// A source with tiered storage: its log is mirrored from its start, which its broker holds no more itself. Remote segments
// that expire before they are copied are a gap that is named with both its offsets; with policy skip the mirror goes on where
// the log starts, not where its local part does.
func TestTieredSourceReal(t *testing.T) {
	if testing.Short() {
		t.Skip("real Kafka")
	}
	const topic, segment = "tiered", 100 // records
	source := testenv.RequireKafka(t, testenv.KafkaConfig{Brokers: 1, Tiered: true})
	r := newRig(t, source.Bootstrap(), realDestination.Kafka(t).Bootstrap())
	settings := map[string]string{"remote.storage.enable": "true", "retention.ms": fmt.Sprint(100 * time.Hour.Milliseconds()), "local.retention.ms": "1",
		"segment.ms": "1000", "file.delete.delay.ms": "0", "message.timestamp.before.max.ms": fmt.Sprint(1000 * time.Hour.Milliseconds())}
	configs := map[string]*string{}
	for key, value := range settings {
		configs[key] = &value
	}
	if _, err := kadm.NewClient(r.source).CreateTopic(context.Background(), 1, 1, configs, topic); err != nil {
		t.Fatal(err)
	}
	if _, err := kadm.NewClient(r.destination).CreateTopic(context.Background(), 1, 3, nil, topic); err != nil {
		t.Fatal(err)
	}
	topicID(t, r.source, topic)
	// A record that is later than the first of its segment by segment.ms begins another segment.
	begin, written := time.Now().Add(-90*time.Hour), 0
	writeSegments := func(count int) {
		t.Helper()
		for range count {
			begin = begin.Add(time.Minute)
			var records []*kgo.Record
			for range segment {
				records = append(records, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", written), Value: make([]byte, 100), Timestamp: begin})
				written++
			}
			if err := r.source.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	writeSegments(10)
	awaitLogStarts(t, r.source, topic, 0, 900)
	r.start()
	id := r.add(topic, 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	r.compare(topic, 1)

	r.do(state.PauseTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, 1, state.Paused)
	writeSegments(5)
	begin = time.Now().Add(-10 * time.Hour)
	writeSegments(5)
	awaitLogStarts(t, r.source, topic, 0, 1900)
	retention := fmt.Sprint(50 * time.Hour.Milliseconds())
	if err := alterTopic(context.Background(), r.source, topic, map[string]*string{"retention.ms": &retention}); err != nil {
		t.Fatal(err)
	}
	awaitLogStarts(t, r.source, topic, 1500, 1900)
	r.do(state.ResumeTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), topic+"-0", "offsets 1000 to 1499", "mirror.gap.policy=fail")
	if got := sampleOf(t, r.replicator, "kafka_mirror_proxy_gap_records"); got != 500 {
		t.Errorf("kafka_mirror_proxy_gap_records %v, want 500", got)
	}
	if _, logEnds := ends(t, r.destination, topic); logEnds[topic][0].Offset != 1000 {
		t.Errorf("written to by policy fail: %v", logEnds)
	}

	r.setGapPolicy("skip")
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	r.awaitStart(topic, 1500)
	r.compare(topic, 1)
}
