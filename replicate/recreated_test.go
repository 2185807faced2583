package replicate

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// recreate deletes a source topic, makes one of the same name and one partition, and writes records to that.
func (r *rig) recreate(topic string, records int) {
	r.t.Helper()
	admin := kadm.NewClient(r.source)
	if _, err := admin.DeleteTopic(context.Background(), topic); err != nil {
		r.t.Fatal(err)
	}
	testenv.Eventually(r.t, patience, "the topic to be created anew", func() error {
		_, err := admin.CreateTopic(context.Background(), 1, 1, nil, topic)
		return err
	})
	topicID(r.t, r.source, topic)
	r.source = client(r.t, r.clusters.source, kgo.RecordPartitioner(kgo.ManualPartitioner())) // the old one remembers the old topic
	r.produce(topic, 0, 0, records, []byte("new"))
}

// TestSourceTopicRecreatedReal: what the new topic holds is not copied behind the old one's, whether it is shorter, as long or
// longer; nor is anything deleted. Deletion and creation fall between two looks at the source.
func TestSourceTopicRecreatedReal(t *testing.T) {
	const old = 10_000 // records
	r := realRig(t)
	r.start()
	ids, logs := map[string]state.TopicID{}, map[string][]*kgo.Record{}
	recreated := map[string]int{"recreated-shorter": 1_000, "recreated-same": old, "recreated-longer": 12_000}
	for topic := range recreated {
		r.createTopic(topic, 1, nil)
		r.produce(topic, 0, 0, old, []byte("old"))
		ids[topic] = r.add(topic, 1)
	}
	for topic, id := range ids {
		r.awaitStatus(id, 1, state.Mirroring)
		r.awaitCaughtUp(topic, 1)
		logs[topic] = readAll(t, r.clusters.destination, topic, 0, old)
		r.do(state.PauseTopic{Mirror: "m", Name: topic})
		r.awaitStatus(id, 1, state.Paused)
	}
	for topic, records := range recreated {
		r.recreate(topic, records)
		r.do(state.ResumeTopic{Mirror: "m", Name: topic})
	}
	for topic, id := range ids {
		r.awaitStatus(id, 1, state.Failed)
		wantError(t, r.partition(id, 0), "the source topic "+topic+" was recreated")
		if p := r.partition(id, 0); p.Retriable {
			t.Errorf("%s would be tried again", topic)
		}
		starts, logEnds := ends(t, r.destination, topic)
		if starts[topic][0].Offset != 0 || logEnds[topic][0].Offset != old {
			t.Errorf("the destination was changed: %v to %v", starts, logEnds)
			continue
		}
		for n, record := range readAll(t, r.clusters.destination, topic, 0, old) {
			if diff := difference(logs[topic][n], record); diff != "" {
				t.Errorf("%s: %s", topic, diff)
				break
			}
		}
		r.do(state.RemoveTopic{Mirror: "m", Name: topic})
		r.awaitStatus(id, 1, state.Stopped)
	}
}

// A topic that is recreated while its broker serves others too is asked for a few times and no more, and does not hold up
// the others.
func TestRecreatedTopicIsNotFetchedForEver(t *testing.T) {
	const replaced, kept, most = "replaced", "kept", 20
	r, source, _ := fakeRig(t)
	r.settings.DeletedPause = time.Second // so that it is not taken for deleted where a look falls between the two
	ids := map[string]state.TopicID{}
	for _, topic := range []string{replaced, kept} {
		r.createTopic(topic, 1, nil)
		topicID(t, r.source, topic)
		if source.LeaderFor(topic, 0) != 0 {
			if err := source.MoveTopicPartition(topic, 0, 0); err != nil {
				t.Fatal(err)
			}
		}
		r.produce(topic, 0, 0, 10, []byte("v"))
	}
	r.start()
	for _, topic := range []string{replaced, kept} {
		ids[topic] = r.add(topic, 1)
		r.awaitStatus(ids[topic], 1, state.Mirroring)
		r.awaitCaughtUp(topic, 1)
	}
	keptID := topicID(t, r.source, kept)
	var asked, askedKept atomic.Int64 // how often each was named in a fetch
	source.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		source.KeepControl()
		for _, topic := range request.(*kmsg.FetchRequest).Topics {
			if topic.TopicID == keptID {
				askedKept.Add(1)
			} else {
				asked.Add(1)
			}
		}
		return nil, nil, false
	})
	r.recreate(replaced, 20)
	r.awaitStatus(ids[replaced], 1, state.Failed)
	wantError(t, r.partition(ids[replaced], 0), "the source topic replaced was recreated", "(copied up to offset 10)")
	untilFailed := asked.Load()
	for round := range 10 {
		r.produce(kept, 0, 10+round, 1, []byte("v"))
		r.awaitCaughtUp(kept, 1)
	}
	if got := asked.Load(); untilFailed > most || got != untilFailed {
		t.Errorf("the recreated topic was fetched %d times until it was FAILED, want no more than %d, and %d times after that", untilFailed, most, got-untilFailed)
	}
	if n := askedKept.Load(); n < 10 {
		t.Errorf("the other topic was fetched %d times only: fetches are not counted", n)
	}
	r.awaitStatus(ids[kept], 1, state.Mirroring)
	r.compare(kept, 1)
	if _, logEnds := ends(t, r.destination, replaced); logEnds[replaced][0].Offset != 10 {
		t.Errorf("the destination was written to: %v", logEnds)
	}
}

// A source before 2.8 has no topic ids: a recreated topic that is longer is known by its data.
func TestRecreatedTopicWithoutIDs(t *testing.T) {
	const topic = "without-ids"
	r, _, _ := fakeRig(t)
	r.clusters.sourceClient = client(t, r.clusters.source, kgo.MaxVersions(kversion.V2_1_0()))
	r.createTopic(topic, 1, nil)
	r.produce(topic, 0, 0, 10, []byte("old"))
	r.start()
	id := topicID(t, r.destination, topic)
	r.do(state.AddTopic{Mirror: "m", Name: topic, ID: id, Partitions: 1, Engine: "produce"}, state.ConfirmTopic{ID: id})
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	r.do(state.PauseTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, 1, state.Paused)
	r.recreate(topic, 20)
	r.do(state.ResumeTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), topic+"-0 has diverged: the record at offset 0 is not the source's")
	if p := r.partition(id, 0); p.Retriable {
		t.Error("it would be tried again")
	}
	if _, logEnds := ends(t, r.destination, topic); logEnds[topic][0].Offset != 10 {
		t.Errorf("the destination was written to: %v", logEnds)
	}
}
