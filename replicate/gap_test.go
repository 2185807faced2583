package replicate

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// setGapPolicy alters the rig's mirror.
func (r *rig) setGapPolicy(policy string) {
	r.t.Helper()
	r.do(state.AlterMirror{Name: "m", Set: map[string]string{configGapPolicy: policy}})
}

// keepRecords makes a destination refuse to delete records, so that a test sees what was written.
func keepRecords(destination *testenv.Fake) {
	destination.ControlKey(int16(kmsg.DeleteRecords), func(request kmsg.Request) (kmsg.Response, error, bool) {
		destination.KeepControl()
		return notLeader(request), nil, true
	})
}

// sampleOf is the value of a metric's only sample, -1 when it has none.
func sampleOf(t *testing.T, c prometheus.Collector, name string) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			if m := family.GetMetric()[0]; m.GetCounter() != nil {
				return m.GetCounter().GetValue()
			}
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// A gap is named, with how many records are missing; once the operator says skip, the copy goes on behind it by itself, with
// filler in the gap that has the timestamp of the record before, and the gap stays to be seen.
func TestGapSkipped(t *testing.T) {
	r, _, destination, id := mirroring(t, "gap", 1, 10)
	keepRecords(destination)
	r.do(state.PauseTopic{Mirror: "m", Name: "gap"})
	r.awaitStatus(id, 1, state.Paused)
	r.produce("gap", 0, 10, 100, nil)
	deleteRecords(t, r.source, "gap", 0, 50)
	r.do(state.ResumeTopic{Mirror: "m", Name: "gap"})
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), "gap-0", "offsets 10 to 49", "mirror.gap.policy=fail")
	if text := r.partition(id, 0).Error; strings.Contains(text, "copied up to") {
		t.Errorf("a text that names offsets has one more: %q", text)
	}
	r.wantLog(map[string]any{"level": "warn", "mirror": "m", "topic": "gap", "partition": 0.0}, "offsets 10 to 49")
	if got := sampleOf(t, r.replicator, "kafka_mirror_proxy_gap_records"); got != 40 {
		t.Errorf("kafka_mirror_proxy_gap_records %v, want 40", got)
	}
	if _, logEnds := ends(t, r.destination, "gap"); logEnds["gap"][0].Offset != 10 {
		t.Errorf("written to by policy fail: %v", logEnds)
	}
	r.setGapPolicy("skip")
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp("gap", 1)
	source := readAll(t, r.clusters.source, "gap", 0, 110)
	records := readAll(t, r.clusters.destination, "gap", 0, 110)
	if len(records) != 110 || len(source) != 60 {
		t.Fatalf("%d records, %d at the source", len(records), len(source))
	}
	for i, record := range records[10:50] {
		if string(record.Key) != string(batch.FillerKey) || record.Value != nil || !record.Timestamp.Equal(records[9].Timestamp) {
			t.Fatalf("offset %d: key %q, value %v, timestamp %v", 10+i, record.Key, record.Value, record.Timestamp)
		}
	}
	for i, record := range records[50:] {
		if diff := difference(source[i], record); diff != "" {
			t.Fatal(diff)
		}
	}
	got := r.store.View().Progress(state.PartitionID{Topic: id}).Skipped
	if got.From != 10 || got.To != 50 || got.Records != 40 || !strings.Contains(got.Note, "offsets 10 to 49") {
		t.Errorf("%+v", got)
	}
	r.wantLog(map[string]any{"level": "warn", "mirror": "m", "topic": "gap", "partition": 0.0, "fromOffset": 10.0, "toOffset": 49.0}, "filler takes their place")
	if got := sampleOf(t, r.replicator, "kafka_mirror_proxy_gap_skipped_records_total"); got != 40 {
		t.Errorf("kafka_mirror_proxy_gap_skipped_records_total %v, want 40", got)
	}
	if got := sampleOf(t, r.replicator, "kafka_mirror_proxy_gap_records"); got != -1 {
		t.Errorf("kafka_mirror_proxy_gap_records %v after the gap", got)
	}
}

// A gap that opens while the topic is being copied is found as one; the owner dies in the middle of the filler, the source
// deletes more meanwhile, and the next owner goes on.
func TestGapOpensInASessionAndTheOwnerDiesInIt(t *testing.T) {
	const topic = "opening"
	r, source, destination, id := mirroring(t, topic, 1, 10)
	r.setGapPolicy("skip")
	r.awaitStatus(id, 1, state.Mirroring)
	var blind atomic.Bool
	blind.Store(true)
	source.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		source.KeepControl()
		fetch := request.(*kmsg.FetchRequest)
		if fetch.MaxWaitMillis == 0 || !blind.Load() || fetch.Topics[0].Partitions[0].FetchOffset != 10 {
			return nil, nil, false
		}
		answer := request.ResponseKind().(*kmsg.FetchResponse) // nothing new
		answer.Topics = []kmsg.FetchResponseTopic{{Topic: topic, TopicID: fetch.Topics[0].TopicID}}
		return answer, nil, true
	})
	advanceSource(t, r, topic, fillStart) // beyond the log end, by filler's worth of offsets
	r.produce(topic, 0, 0, 10, nil)
	var passed atomic.Int64
	destination.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		destination.KeepControl()
		if n := passed.Add(1); n > 1 && n < 1<<30 {
			return notLeader(request), nil, true
		}
		return nil, nil, false
	})
	blind.Store(false)
	testenv.Eventually(t, patience, "the first filler", func() error {
		if _, logEnds := ends(t, r.destination, topic); logEnds[topic][0].Offset <= 10 || passed.Load() < 2 {
			return fmt.Errorf("%v", logEnds)
		}
		return nil
	})
	_, logEnds := ends(t, r.destination, topic)
	if end := logEnds[topic][0].Offset; end >= fillStart {
		t.Fatalf("the filler was not interrupted: log end %d", end)
	}
	r.dieUncleanly()
	passed.Store(1 << 30)
	deleteRecords(t, r.source, topic, 0, fillStart+14)
	r.start()
	r.awaitCaughtUp(topic, 1)
	r.awaitStatus(id, 1, state.Mirroring)
	got := r.store.View().Progress(state.PartitionID{Topic: id}).Skipped
	if got.From != 10 || got.To != fillStart+14 || got.Records != fillStart+4 {
		t.Errorf("%+v", got)
	}
	r.awaitStart(topic, fillStart+14)
	r.compare(topic, 1)
}

func TestSkipGap(t *testing.T) {
	target := produce.Target{Topic: "t"}
	for _, test := range []struct {
		before   state.Skipped
		from, to int64
		want     state.Skipped
	}{
		{state.Skipped{}, 10, 50, state.Skipped{From: 10, To: 50, Records: 40}},
		{state.Skipped{}, 0, 5, state.Skipped{From: 0, To: 5, Records: 5}},
		{state.Skipped{From: 10, To: 50, Records: 40}, 30, 50, state.Skipped{From: 10, To: 50, Records: 40}},    // again, after a crash
		{state.Skipped{From: 10, To: 50, Records: 40}, 30, 60, state.Skipped{From: 10, To: 60, Records: 50}},    // and it has grown
		{state.Skipped{From: 10, To: 50, Records: 40}, 70, 80, state.Skipped{From: 70, To: 80, Records: 50}},    // another one
		{state.Skipped{From: 10, To: 50, Records: 40}, 5, 80, state.Skipped{From: 5, To: 80, Records: 40 + 75}}, // of a log that lost its end
	} {
		got := skipGap(test.before, target, test.from, test.to)
		got.Note = ""
		if got != test.want {
			t.Errorf("%+v and %d to %d: %+v, want %+v", test.before, test.from, test.to, got, test.want)
		}
	}
}

// A record at the end of the filler's batches belongs to the mirror: the gap is crossed on real clusters, where the broker's
// sequence check sees the filler too.
func TestGapSkippedReal(t *testing.T) {
	r := realRig(t)
	const topic = "gapreal"
	r.createTopic(topic, 1, nil)
	r.produce(topic, 0, 0, 10, []byte("v"))
	r.setGapPolicy("skip")
	r.start()
	id := r.add(topic, 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	r.do(state.PauseTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, 1, state.Paused)
	r.produce(topic, 0, 10, 100, []byte("v"))
	deleteRecords(t, r.source, topic, 0, 50)
	r.do(state.ResumeTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	r.awaitStart(topic, 50)
	r.compare(topic, 1)
}
