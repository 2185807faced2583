package produce

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"kafka-mirror-proxy/protocol/batch"
)

func TestAlign(t *testing.T) {
	type want struct {
		next, fillFrom int64
		gap            bool
		verdict        Verdict
		texts          []string // of the error; none: it agrees
	}
	none := Expectation{FillToOffset: -1, HandedOverAt: -1, CopiedOffset: -1}
	inSequence := func(end int64) *ProducerState { return &ProducerState{LastSequence: batch.SequenceOf(end - 1)} }
	own := func(r *rig) { r.fill(100, "v") }
	deleted := func(r *rig) { r.fill(100, "v"); r.deleteAll(100) }
	endsInFiller := func(r *rig) { r.fill(90, "v"); r.put(fillerAt(t, r.target, 90, 10)) }
	for _, test := range []struct {
		name   string
		put    func(*rig)
		state  *ProducerState
		start  int64 // of the source's log
		end    int64
		moved  int64 // where the source ends when it is asked again, if above 0
		source []byte
		expect Expectation
		want   want
	}{
		{name: "both empty", expect: none, want: want{next: 0, fillFrom: -1}},
		{name: "empty destination", end: 100, expect: none, want: want{next: 0, fillFrom: -1}},
		{name: "empty destination, late source", start: 500, end: 900, expect: none, want: want{next: 500, fillFrom: 0}},
		{name: "in sequence", put: own, state: inSequence(100), end: 150, source: source(0, 150, "v"), expect: none, want: want{next: 100, fillFrom: -1}},
		{name: "caught up", put: own, state: inSequence(100), end: 100, source: source(0, 100, "v"), expect: none, want: want{next: 100, fillFrom: -1}},
		{name: "forgotten producer, own last batch", put: own, end: 150, source: source(0, 150, "v"), expect: none, want: want{next: 100, fillFrom: -1}},
		{name: "forgotten producer, other batches at the source", put: own, end: 150, source: source(5, 145, "v"), expect: none, want: want{next: 100, fillFrom: -1}},
		{name: "forgotten producer, last records compacted at the source", put: own, end: 150, source: source(110, 40, "v"), expect: none, want: want{next: 100, fillFrom: -1}},
		{name: "forgotten producer, foreign last batch", put: func(r *rig) { r.fill(100, "v"); r.put(dense(-1, -1, 0, -1, 1, "x")) }, end: 150, source: source(0, 150, "v"), expect: none,
			want: want{verdict: Quarantined, texts: []string{"offsets 100 to 100 of t-1", "not written by the mirror"}}},
		{name: "forgotten producer, shifted", put: func(r *rig) {
			r.put(dense(-1, -1, 0, -1, 1, "x"))
			r.put(dense(r.target.ProducerID(), 0, 0, 0, 5, "v"))
		}, end: 150, source: source(0, 150, "v"), expect: none,
			want: want{verdict: Quarantined, texts: []string{"at offset 1 of t-1", "source offset 0"}}},
		{name: "foreign write behind ours", put: func(r *rig) { r.fill(100, "v"); r.put(dense(-1, -1, 0, -1, 1, "x")) }, state: inSequence(100), end: 150, source: source(0, 150, "v"), expect: none,
			want: want{verdict: Quarantined, texts: []string{"t-1 ends at offset 101", "sequence 99 instead of 100"}}},
		{name: "the broker's own timestamps", put: func(r *rig) {
			own := dense(r.target.ProducerID(), 0, 0, 0, 5, "v")
			own[22] |= 0x08 // the lower byte of the attributes: LogAppendTime
			binary.BigEndian.PutUint32(own[17:], crc32.Checksum(own[21:], crc32.MakeTable(crc32.Castagnoli)))
			r.put(own)
		}, state: inSequence(5), end: 150, source: source(0, 150, "v"), expect: none,
			want: want{verdict: Quarantined, texts: []string{"t-1: the topic has message.timestamp.type=LogAppendTime", "offsets 0 to 4"}}},
		{name: "fenced", put: own, state: &ProducerState{Epoch: 1, LastSequence: -1}, end: 150, expect: none, want: want{verdict: Quarantined, texts: []string{"marker", "log end 100"}}},
		{name: "fenced, and nobody wrote since", put: own, state: &ProducerState{Epoch: 1, LastSequence: -1}, end: 150, expect: Expectation{FillToOffset: -1, HandedOverAt: 99, CopiedOffset: 99},
			want: want{verdict: Quarantined, texts: []string{"closed to the mirror by a marker", "log end 100"}}},
		{name: "fenced, and written to since", put: own, state: &ProducerState{Epoch: 1, LastSequence: -1}, end: 150, expect: Expectation{FillToOffset: -1, HandedOverAt: 90, CopiedOffset: 90},
			want: want{verdict: Quarantined, texts: []string{"handed over at offset 90", "ends at 100", "written to since"}}},
		{name: "destination ahead", put: own, state: inSequence(100), end: 60, source: source(0, 60, "v"), expect: none,
			want: want{verdict: Quarantined, texts: []string{"holds 40 records from offset 60", "ends at 60"}}},
		{name: "destination ahead of what the source said", put: own, state: inSequence(100), end: 60, moved: 150, source: source(0, 150, "v"), expect: none, want: want{next: 100, fillFrom: -1}},
		{name: "gap", put: own, state: inSequence(100), start: 120, end: 150, expect: none, want: want{next: 120, fillFrom: 100, gap: true}},
		{name: "gap, behind nothing", put: deleted, state: inSequence(100), start: 120, end: 150, expect: none, want: want{next: 120, fillFrom: 100, gap: true}},
		{name: "gap behind a foreign write", put: func(r *rig) { r.fill(100, "v"); r.put(dense(-1, -1, 0, -1, 1, "x")) }, start: 120, end: 150, expect: none,
			want: want{verdict: Quarantined, texts: []string{"offsets 100 to 100 of t-1", "not written by the mirror"}}},
		{name: "source deleted all that is compared", put: own, state: inSequence(100), start: 100, end: 150, expect: none, want: want{next: 100, fillFrom: -1}},
		{name: "source rewrote the tail", put: own, state: inSequence(100), end: 150, source: append(source(0, 90, "v"), source(90, 60, "w")...), expect: none,
			want: want{verdict: Quarantined, texts: []string{"record at offset 90", "holds 10 records"}}},
		{name: "filler in a hole", put: endsInFiller, state: inSequence(100), end: 150, source: append(source(0, 90, "v"), source(100, 50, "v")...), expect: none, want: want{next: 100, fillFrom: -1}},
		{name: "filler for what may be aborted", put: endsInFiller, state: inSequence(100), end: 150,
			source: slices.Concat(source(0, 90, "v"), transactional(source(90, 10, "v")), source(100, 50, "v")), expect: none, want: want{next: 100, fillFrom: -1}},
		{name: "filler where the source has a record", put: endsInFiller, state: inSequence(100), end: 150, source: source(0, 150, "v"), expect: none,
			want: want{verdict: Quarantined, texts: []string{"record at offset 90", "holds 10 records"}}},
		{name: "filler for what was skipped", put: endsInFiller, state: inSequence(100), end: 150, source: source(0, 150, "v"),
			expect: Expectation{FillToOffset: -1, HandedOverAt: -1, CopiedOffset: -1, SkippedTo: 100}, want: want{next: 100, fillFrom: -1}},
		{name: "filler behind records that the source rewrote", put: func(r *rig) { endsInFiller(r); r.put(fillerAt(t, r.target, 100, 5)) }, state: inSequence(105), end: 150,
			source: slices.Concat(source(0, 80, "v"), source(80, 10, "w"), transactional(source(90, 60, "w"))), expect: none,
			want: want{verdict: Quarantined, texts: []string{"record at offset 80", "holds 25 records"}}},
		{name: "all deleted, in sequence", put: deleted, state: inSequence(100), end: 150, expect: none, want: want{next: 100, fillFrom: -1}},
		{name: "all deleted, forgotten producer, known end", put: deleted, end: 150, expect: Expectation{FillToOffset: -1, HandedOverAt: -1, CopiedOffset: 100}, want: want{next: 100, fillFrom: -1}},
		{name: "all deleted, and what came behind was lost", put: deleted, end: 150, expect: Expectation{FillToOffset: -1, HandedOverAt: -1, CopiedOffset: 120}, want: want{next: 100, fillFrom: -1}},
		{name: "all deleted, forgotten producer, unknown end", put: deleted, end: 150, expect: Expectation{FillToOffset: -1, HandedOverAt: -1, CopiedOffset: 60},
			want: want{verdict: Quarantined, texts: []string{"t-1 holds no records and ends at offset 100", "up to 60"}}},
		{name: "unfinished filler", put: own, state: inSequence(100), start: 300, end: 900, expect: Expectation{FillToOffset: 300, HandedOverAt: -1}, want: want{next: 300, fillFrom: 100}},
		{name: "finished filler, source moved on", put: own, state: inSequence(100), start: 400, end: 900, expect: Expectation{FillToOffset: 100, HandedOverAt: -1}, want: want{next: 400, fillFrom: 100}},
		{name: "handed over and unchanged", put: own, state: inSequence(100), end: 150, source: source(0, 150, "v"), expect: Expectation{FillToOffset: -1, HandedOverAt: 100}, want: want{next: 100, fillFrom: -1}},
		{name: "handed over and shorter since", put: own, state: inSequence(100), end: 150, expect: Expectation{FillToOffset: -1, HandedOverAt: 110},
			want: want{verdict: Quarantined, texts: []string{"offset 110", "ends at 100", "lost records"}}},
		{name: "handed over and written to", put: own, state: inSequence(100), end: 150, expect: Expectation{FillToOffset: -1, HandedOverAt: 90},
			want: want{verdict: Quarantined, texts: []string{"offset 90", "ends at 100"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if test.put != nil {
				test.put(r)
			}
			r.state = test.state
			log := SourceLog{LogStart: test.start, HighWatermark: test.end, Ask: func(context.Context) (int64, error) { return max(test.end, test.moved), nil }, Batches: func(_ context.Context, offset int64) ([]byte, error) {
				return from(test.source, offset), nil
			}}
			start, err := r.engine.Align(context.Background(), r.target, log, test.expect, time.Time{})
			if len(test.want.texts) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				if start.NextOffset != test.want.next || start.FillFrom != test.want.fillFrom || start.Gap != test.want.gap {
					t.Errorf("next %d, fill from %d; want %d and %d", start.NextOffset, start.FillFrom, test.want.next, test.want.fillFrom)
				}
				return
			}
			var fault *Fault
			if !errors.As(err, &fault) || fault.Verdict != test.want.verdict {
				t.Fatalf("error %v, want a fault that is %v", err, test.want.verdict)
			}
			for _, text := range test.want.texts {
				if !strings.Contains(fault.Error(), text) {
					t.Errorf("%q does not say %q", fault, text)
				}
			}
		})
	}
}

// fillerAt is filler of the mirror.
func fillerAt(t *testing.T, target Target, base int64, n int32) []byte {
	t.Helper()
	maker, err := batch.NewFillerMaker(batch.FillerMakerConfig{Cached: 1})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := maker.Append(nil, n, 1000, target.ProducerID(), 0, batch.SequenceOf(base))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// transactional makes all batches of a log, changed in place, ones of transactions.
func transactional(log []byte) []byte {
	_, err := batch.Each(log, func(b batch.Batch) error {
		b[22] |= 0x10
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
		return nil
	})
	if err != nil {
		panic(err)
	}
	return log
}

// from is a fetch of a log: from the batch on that holds an offset.
func from(log []byte, offset int64) []byte {
	for len(log) > 0 {
		b, rest, err := batch.Next(log)
		if err != nil {
			panic(err)
		}
		if b.LastOffset() >= offset {
			return log
		}
		log = rest
	}
	return nil
}

func TestAlignMissesTheDestinationTopic(t *testing.T) {
	for name, act := range map[string]func(*rig){
		"is gone": func(r *rig) {
			if _, err := kadm.NewClient(r.client).DeleteTopic(context.Background(), "t"); err != nil {
				t.Fatal(err)
			}
		},
		"was recreated": func(r *rig) { r.target.TopicID[3]++ },
	} {
		r := newRig(t)
		act(r)
		_, err := r.engine.Align(context.Background(), r.target, SourceLog{}, Expectation{FillToOffset: -1, HandedOverAt: -1, CopiedOffset: -1}, time.Now())
		var fault *Fault
		if !errors.As(err, &fault) || fault.Verdict != Missing || !strings.Contains(fault.Text, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTarget(t *testing.T) {
	a := Target{Mirror: "m", Topic: "t", TopicID: [16]byte{1}, Partition: 3}
	// A fixed value: owners of different releases must agree on it.
	if got, want := a.ProducerID(), int64(2238351021667696603); got != want || got < 1<<60 {
		t.Errorf("producer id %d, want %d", got, want)
	}
	seen := map[int64]Target{}
	for _, other := range []Target{a, {"n", "t", a.TopicID, 3}, {"m", "t", [16]byte{2}, 3}, {"m", "t", a.TopicID, 4}} {
		if twin, double := seen[other.ProducerID()]; double {
			t.Errorf("%v and %v have the same producer id", twin, other)
		}
		seen[other.ProducerID()] = other
	}
	for offset, want := range map[int64]int32{0: 0, 1<<31 - 1: 1<<31 - 1, 1 << 31: 0, 1<<31 + 14: 14, 1<<40 + 7: 7} {
		if got := batch.SequenceOf(offset); got != want {
			t.Errorf("sequence of %d is %d, want %d", offset, got, want)
		}
	}
}
