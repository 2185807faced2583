package replicate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

func TestEpochRuns(t *testing.T) {
	var runs []state.EpochRun
	for i := range int64(20) {
		runs = appendEpoch(runs, i*10, int32(i/2))
	}
	if want := epochsFrom(2, 40, 60, 80, 100, 120, 140, 160, 180); !slices.Equal(runs, want) {
		t.Fatalf("%v, want %v", runs, want)
	}
	// Holes: within an epoch, between two of them, and at the end.
	var holed []state.EpochRun
	for _, run := range []state.EpochRun{{Epoch: -1, StartOffset: 0}, {Epoch: 5, StartOffset: 3}, {Epoch: -1, StartOffset: 10}, {Epoch: 5, StartOffset: 20},
		{Epoch: -1, StartOffset: 30}, {Epoch: 6, StartOffset: 40}, {Epoch: -1, StartOffset: 50}} {
		holed = appendEpoch(holed, run.StartOffset, run.Epoch)
	}
	if want := []state.EpochRun{{Epoch: 5, StartOffset: 3}, {Epoch: -1, StartOffset: 30}, {Epoch: 6, StartOffset: 40}, {Epoch: -1, StartOffset: 50}}; !slices.Equal(holed, want) {
		t.Errorf("%v, want %v", holed, want)
	}
	if epoch, upTo := lastKnownEpoch(holed, 55); epoch != 6 || upTo != 50 || lastEpoch(holed) != -1 {
		t.Errorf("behind a hole: epoch %d up to %d, last %d", epoch, upTo, lastEpoch(holed))
	}
	if epoch, upTo := lastKnownEpoch(epochsBelow(holed, 45), 45); epoch != 6 || upTo != 45 {
		t.Errorf("behind a record: epoch %d up to %d", epoch, upTo)
	}
	for _, c := range []struct {
		copied, end int64
		tail        int32
		want        int32
	}{
		{200, 200, -1, 9}, {200, 200, 12, 9}, // recorded
		{200, 181, -1, 9}, {200, 180, -1, 8}, {200, 41, -1, 2}, // the destination has lost its end
		{200, 40, -1, -1}, {200, 40, 1, 1}, // before what is kept
		{200, 201, -1, -1}, {200, 201, 11, 11}, // behind what was recorded
	} {
		progress := state.Progress{CopiedOffset: c.copied, Epochs: runs}
		if got := lastEpoch(resumedEpochs(&progress, c.end, c.tail)); got != c.want {
			t.Errorf("epoch of the record before offset %d, with %d copied: %d, want %d", c.end, c.copied, got, c.want)
		}
	}
}

// fetchEpochs notes with which last epoch a source is asked for an offset by fetchers (which, unlike Align, may wait).
type fetchEpochs struct {
	mu    sync.Mutex
	first map[int64]int32
}

func watchEpochs(source *testenv.Fake) *fetchEpochs {
	f := &fetchEpochs{first: map[int64]int32{}}
	source.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		source.KeepControl()
		fetch := request.(*kmsg.FetchRequest)
		f.mu.Lock()
		defer f.mu.Unlock()
		if fetch.MaxWaitMillis == 0 {
			return nil, nil, false
		}
		for _, topic := range fetch.Topics {
			for _, p := range topic.Partitions {
				if _, known := f.first[p.FetchOffset]; !known {
					f.first[p.FetchOffset] = p.LastFetchedEpoch
				}
			}
		}
		return nil, nil, false
	})
	return f
}

// await is the epoch in the first fetch at an offset since the last await.
func (f *fetchEpochs) await(t *testing.T, offset int64) int32 {
	t.Helper()
	var epoch int32
	testenv.Eventually(t, patience, "a fetch", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		var known bool
		if epoch, known = f.first[offset]; !known {
			return fmt.Errorf("none at offset %d", offset)
		}
		return nil
	})
	return epoch
}

func (f *fetchEpochs) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.first)
}

// A new owner asks the source with the leader epoch of the last record that was copied, so that a source that has
// rewritten its history says so: from the state, also when no record is left to look at; or, when the owner before died,
// from the record that both hold.
func TestFetchesGoOnWithTheLastEpoch(t *testing.T) {
	r, source, _, id := mirroring(t, "epochs", 1, 10)
	cluster := connect.NewCluster(r.source, time.Now)
	topic, err := cluster.Topic(context.Background(), "epochs", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	other := 1 - topic.Leaders[0].ID
	if err := source.MoveTopicPartition("epochs", 0, other); err != nil {
		t.Fatal(err)
	}
	r.produce("epochs", 0, 10, 5, nil)
	r.awaitCaughtUp("epochs", 1)
	blob, err := cluster.FetchBatches(context.Background(), other, topic, 0, 14)
	if err != nil {
		t.Fatal(err)
	}
	last, _, err := batch.Next(blob)
	if err != nil {
		t.Fatal(err)
	}
	want := last.LeaderEpoch()
	if want <= topic.Leaders[0].Epoch {
		t.Fatalf("epoch %d after %d", want, topic.Leaders[0].Epoch)
	}
	epochs := watchEpochs(source)

	r.store.lost.Store(true) // dies
	r.stop()
	r.store.lost.Store(false)
	r.store.generation.Add(1)
	epochs.forget()
	r.start()
	if got := epochs.await(t, 15); got != want {
		t.Errorf("after an owner that died: last epoch %d, want %d", got, want)
	}

	deleteRecords(t, r.source, "epochs", 0, 15)
	r.awaitStart("epochs", 15)
	r.stop()
	r.store.generation.Add(1)
	epochs.forget()
	r.start()
	if got := epochs.await(t, 15); got != want {
		t.Errorf("after an owner that stopped: last epoch %d, want %d", got, want)
	}

	r.do(state.PauseTopic{Mirror: "m", Name: "epochs"})
	r.awaitStatus(id, 1, state.Paused)
	r.stop()
	r.store.generation.Add(1)
	r.do(state.ResumeTopic{Mirror: "m", Name: "epochs"})
	epochs.forget()
	r.start()
	if got := epochs.await(t, 15); got != want {
		t.Errorf("after a pause: last epoch %d, want %d", got, want)
	}
}

// epochsFrom are runs of consecutive epochs.
func epochsFrom(epoch int32, starts ...int64) []state.EpochRun {
	var runs []state.EpochRun
	for i, start := range starts {
		runs = append(runs, state.EpochRun{Epoch: epoch + int32(i), StartOffset: start})
	}
	return runs
}

// What was recorded goes on to count below the offset that it reaches to, when the log has come further since and nothing is
// left at its end that could be compared.
func TestResumedEpochsReachAsFarAsRecorded(t *testing.T) {
	progress := &state.Progress{CopiedOffset: 50, Epochs: []state.EpochRun{{Epoch: 3, StartOffset: 0}, {Epoch: 4, StartOffset: 40}}}
	for _, test := range []struct {
		end       int64
		tail      int32
		wantEpoch int32
		wantUpTo  int64
	}{{45, -1, 4, 45}, {50, 9, 4, 50}, {80, -1, 4, 50}, {80, 4, 4, 80}, {80, 7, 7, 80}} {
		if epoch, upTo := lastKnownEpoch(resumedEpochs(progress, test.end, test.tail), test.end); epoch != test.wantEpoch || upTo != test.wantUpTo {
			t.Errorf("log end %d, epoch %d at the source: epoch %d up to %d, want %d up to %d", test.end, test.tail, epoch, upTo, test.wantEpoch, test.wantUpTo)
		}
	}
	if runs := resumedEpochs(&state.Progress{CopiedOffset: -1}, 80, -1); runs != nil {
		t.Errorf("nothing was recorded: %v", runs)
	}
}
