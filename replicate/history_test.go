package replicate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

func TestCheckHistory(t *testing.T) {
	runs := []state.EpochRun{{Epoch: 3, StartOffset: 0}, {Epoch: 5, StartOffset: 60}}
	for _, test := range []struct {
		name  string
		runs  []state.EpochRun
		known int32
		end   int64
		err   error
		want  string // of the fault, "" for none
	}{
		{"nothing known", nil, 0, 0, nil, ""},
		{"the same", runs, 5, 100, nil, ""},
		{"it has more", runs, 5, 200, nil, ""},
		{"it keeps no epochs", runs, -1, -1, nil, ""},
		{"it has lost the end", runs, 5, 80, nil, "leader epoch 5 ends at offset 80 there); the destination holds records from offset 80 on"},
		{"it has lost an epoch", runs, 3, 50, nil, "records from offset 50 on"},
		{"it went on under an epoch before", runs, 4, 200, nil, "records from offset 60 on"},
		{"the hole at the end is in the next epoch", append(slices.Clone(runs), state.EpochRun{Epoch: -1, StartOffset: 90}), 5, 90, nil, ""},
		{"it has lost what is before the hole", append(slices.Clone(runs), state.EpochRun{Epoch: -1, StartOffset: 90}), 5, 89, nil, "records from offset 89 on"},
		{"it does not answer", runs, 0, 0, errors.New("gone"), "gone"},
	} {
		log := produce.SourceLog{EpochEnd: func(_ context.Context, epoch int32) (int32, int64, error) {
			if epoch != 5 {
				t.Errorf("%s: asked for epoch %d", test.name, epoch)
			}
			return test.known, test.end, test.err
		}}
		err := checkHistory(context.Background(), produce.Target{Topic: "t"}, log, test.runs, 100)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// A source that has lost records is found out at the begin of a session also when its fetches cannot tell (below version 12),
// and when its log is longer again by then.
func TestHistoryIsAskedForAtTheBegin(t *testing.T) {
	r, source, _, id := mirroring(t, "rewritten", 1, 10)
	r.do(state.PauseTopic{Mirror: "m", Name: "rewritten"})
	r.awaitStatus(id, 1, state.Paused)
	r.produce("rewritten", 0, 10, 20, nil)
	source.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		source.KeepControl()
		asked := request.(*kmsg.OffsetForLeaderEpochRequest).Topics[0]
		answer := request.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
		p.Partition, p.LeaderEpoch, p.EndOffset = asked.Partitions[0].Partition, asked.Partitions[0].LeaderEpoch, 7
		answer.Topics = []kmsg.OffsetForLeaderEpochResponseTopic{{Topic: asked.Topic, Partitions: []kmsg.OffsetForLeaderEpochResponseTopicPartition{p}}}
		return answer, nil, true
	})
	r.do(state.ResumeTopic{Mirror: "m", Name: "rewritten"})
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), "rewritten-0 has diverged", "rewritten its history", "from offset 7 on", "recreate the topic")
	if p := r.partition(id, 0); p.Retriable {
		t.Error("it would be tried again")
	}
	r.wantLog(map[string]any{"level": "warn", "mirror": "m", "topic": "rewritten", "partition": 0.0, "message": "the partition is FAILED until an operator has acted"}, "from offset 7 on")
	if _, logEnds := ends(t, r.destination, "rewritten"); logEnds["rewritten"][0].Offset != 10 {
		t.Errorf("the destination was written to: %v", logEnds)
	}
}

// A source topic that is deleted stops its mirror, and describe says why.
func TestSourceTopicDeletedIsTold(t *testing.T) {
	r, _, _, id := mirroring(t, "deleted", 2, 10)
	if _, err := kadm.NewClient(r.source).DeleteTopic(context.Background(), "deleted"); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus(id, 2, state.Stopped)
	topic, _ := r.store.View().TopicByID(id)
	if !strings.Contains(topic.Error, "the source topic deleted was deleted") {
		t.Errorf("%q", topic.Error)
	}
}

// A session fetches from the leader that it has compared itself with, and from no later one: what it is told under another
// leader epoch ends it, and the source's history is asked for again.
func TestFetchesAreOfOneLeader(t *testing.T) {
	r, source, _, id := mirroring(t, "led", 1, 10)
	leader := func() connect.Leader {
		t.Helper()
		topic, err := connect.NewCluster(r.source, time.Now).Topic(context.Background(), "led", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return topic.Leaders[0]
	}
	var fetched, asked sync.Map // leader epochs of fetches, and of questions for the history
	source.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		source.KeepControl()
		fetch := request.(*kmsg.FetchRequest)
		if fetch.MaxWaitMillis > 0 { // not Align's
			fetched.Store(fetch.Topics[0].Partitions[0].CurrentLeaderEpoch, true)
		}
		return nil, nil, false
	})
	source.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		source.KeepControl()
		asked.Store(request.(*kmsg.OffsetForLeaderEpochRequest).Topics[0].Partitions[0].LeaderEpoch, true)
		return nil, nil, false
	})
	before := leader()
	if err := source.MoveTopicPartition("led", 0, 1-before.ID); err != nil {
		t.Fatal(err)
	}
	after := leader()
	if after.Epoch == before.Epoch {
		t.Fatalf("the leader epoch is still %d", after.Epoch)
	}
	r.produce("led", 0, 10, 5, nil)
	r.awaitCaughtUp("led", 1)
	r.awaitStatus(id, 1, state.Mirroring)
	if _, ok := fetched.Load(after.Epoch); !ok {
		t.Errorf("no fetch carried the leader epoch %d", after.Epoch)
	}
	if _, ok := fetched.Load(int32(-1)); ok {
		t.Error("a fetch carried no leader epoch")
	}
	if _, ok := asked.Load(before.Epoch); !ok {
		t.Error("the new leader was not asked for the history")
	}
}

// A source of today says in the answer to a fetch that it has rewritten its history, while the topic is being copied.
func TestFetchTellsOfAnotherHistory(t *testing.T) {
	for _, test := range []struct {
		known int32
		end   int64
		want  string
	}{
		{0, 7, "leader epoch 0 ends at offset 7 there); the destination holds records from offset 7 on"},
		{0, 30, "leader epoch 0 ends at offset 30 there); the destination holds records from offset 9 on"}, // the copied ones were of a later one
	} {
		r, source, _, id := mirroring(t, "told", 1, 10)
		source.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
			source.KeepControl()
			fetch := request.(*kmsg.FetchRequest)
			if fetch.MaxWaitMillis == 0 {
				return nil, nil, false
			}
			answer := request.ResponseKind().(*kmsg.FetchResponse)
			topic, p := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
			topic.Topic, topic.TopicID = fetch.Topics[0].Topic, fetch.Topics[0].TopicID
			p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = test.known, test.end
			topic.Partitions = append(topic.Partitions, p)
			answer.Topics = append(answer.Topics, topic)
			return answer, nil, true
		})
		r.awaitStatus(id, 1, state.Failed)
		wantError(t, r.partition(id, 0), "told-0 has diverged", test.want, "recreate the topic")
		if p := r.partition(id, 0); p.Retriable {
			t.Error("it would be tried again")
		}
	}
}

// A destination whose log is shorter than what was copied: the log says which records are copied again.
func TestLostTailIsTold(t *testing.T) {
	const topic = "shorter"
	r, _, _, id := mirroring(t, topic, 1, 10)
	r.stop()
	partition := state.PartitionID{Topic: id}
	progress := r.store.View().Progress(partition)
	progress.CopiedOffset, progress.Epochs = 15, nil // as if five more had been confirmed
	r.do(state.SetProgress{Partition: partition, Progress: progress})
	r.produce(topic, 0, 10, 10, nil)
	r.start()
	r.awaitCaughtUp(topic, 1)
	r.wantLog(map[string]any{"level": "warn", "mirror": "m", "topic": topic, "partition": 0.0, "fromOffset": 10.0, "toOffset": 14.0}, "it is copied again")
	r.compare(topic, 1)
}
