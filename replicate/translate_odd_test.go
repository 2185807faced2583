package replicate

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

// translated is what becomes of an answer, from offset 10 on.
func translated(t *testing.T, highWatermark int64, rooms int, batches ...[]byte) (*takenLog, []state.EpochRun, error) {
	t.Helper()
	coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: coderLimitBytes})
	if err != nil {
		t.Fatal(err)
	}
	maker, err := batch.NewFillerMaker(batch.FillerMakerConfig{Cached: 8})
	if err != nil {
		t.Fatal(err)
	}
	target := produce.Target{Mirror: "m", Topic: "t"}
	tr := &translator{target: target, producerID: target.ProducerID(), filler: maker, next: 10, previousMs: -1}
	log := &takenLog{t: t, coder: coder, log: &sourceLog{}, next: 10, rooms: rooms, got: map[int64]string{}, fill: map[int64]int64{}}
	out := &epochLog{takenLog: log}
	err = tr.translate(bytes.Join(batches, nil), highWatermark, nil, true, coder, out)
	if tr.next != log.next {
		t.Fatalf("the translator is at %d, the log at %d", tr.next, log.next)
	}
	return log, out.epochs, err
}

// epochLog notes the leader epochs too.
type epochLog struct {
	*takenLog
	epochs []state.EpochRun
}

func (l *epochLog) push(raw []byte, base int64, count int32, epoch int32, owned bool) {
	l.takenLog.push(raw, base, count, epoch, owned)
	l.epochs = appendEpoch(l.epochs, base, epoch)
}

// A source whose offsets go back within an answer (as some old brokers' logs do): a consumer passes over what it has seen,
// and so does the mirror. Nothing of what follows is taken for a hole.
func TestOffsetsThatGoBack(t *testing.T) {
	for name, back := range map[string][]byte{
		"of the same size": sourceBatch(3, 2, nil), "larger": sourceBatch(3, 7, nil), "smaller": sourceBatch(3, 1, nil),
		"overlapping": sourceBatch(8, 4, nil),
	} {
		log, _, err := translated(t, 100, math.MaxInt, sourceBatch(10, 2, nil), back, sourceBatch(12, 2, nil), sourceBatch(14, 3, nil))
		if err != nil || log.next != 17 || len(log.got) != 7 || len(log.fill) != 0 {
			t.Errorf("%s: up to %d, %d records, %d filler: %v", name, log.next, len(log.got), len(log.fill), err)
		}
	}
}

// No checksum covers a base offset. A damaged one must not make filler where the source will have records.
func TestHoleBeyondTheSource(t *testing.T) {
	log, _, err := translated(t, 15, math.MaxInt, sourceBatch(10, 5, nil), sourceBatch(15+1<<20, 5, nil))
	if !errors.Is(err, batch.ErrCorrupt) || log.next != 15 || len(log.got) != 5 || len(log.fill) != 0 {
		t.Errorf("up to %d, %d records, %d filler: %v", log.next, len(log.got), len(log.fill), err)
	}
}

// What comes before a batch that cannot be read is written, small as it may be.
func TestSmallBatchesBeforeDamage(t *testing.T) {
	damaged := sourceBatch(12, 2, func(b *kmsg.RecordBatch) { b.LastOffsetDelta = -5 })
	if log, _, err := translated(t, 100, math.MaxInt, sourceBatch(10, 2, nil), damaged); !errors.Is(err, batch.ErrCorrupt) || log.next != 12 {
		t.Errorf("up to %d: %v", log.next, err)
	}
}

// Filler has the leader epoch of the batch that shows the hole, also when that batch itself has no room yet: a source that
// loses it, and then writes into the hole, has rewritten what was copied.
func TestFillerHasAnEpoch(t *testing.T) {
	before := sourceBatch(10, 5, nil)
	behind := sourceBatch(500_000, 5, func(b *kmsg.RecordBatch) { b.PartitionLeaderEpoch = 7 })
	log, epochs, err := translated(t, 600_000, 2, before, behind)
	if want := []state.EpochRun{{Epoch: 5, StartOffset: 10}, {Epoch: 7, StartOffset: 15}}; !errors.Is(err, errNoRoom) || log.next >= 500_000 || !slices.Equal(epochs, want) {
		t.Errorf("up to %d, epochs %v, want %v: %v", log.next, epochs, want, err)
	}
	empty := sourceBatch(15, 0, func(b *kmsg.RecordBatch) { b.LastOffsetDelta, b.PartitionLeaderEpoch = 1999, 7 })
	log, epochs, err = translated(t, 3000, math.MaxInt, before, empty)
	if want := []state.EpochRun{{Epoch: 5, StartOffset: 10}, {Epoch: 7, StartOffset: 15}}; err != nil || log.next != 2015 || !slices.Equal(epochs, want) {
		t.Errorf("up to %d, epochs %v, want %v: %v", log.next, epochs, want, err)
	}
}
