package verify

import (
	"fmt"
	"hash/maphash"

	"kafka-mirror-proxy/protocol/batch"
)

// Batches is what the comparison saw of a partition's batches, as far as offsets were compared.
type Batches struct {
	Source      int64 `json:"source"`        // with records for consumers
	Destination int64 `json:"destination"`   // with records, filler included
	Identical   int64 `json:"identical"`     // the same bytes on both sides, but for leader epoch and producer
	Mirrored    int64 `json:"mirrored"`      // of the destination, written by a mirror
	Foreign     int64 `json:"foreign"`       // of the destination, written by others
	Filler      int64 `json:"fillerOffsets"` // of the destination, as records: seen around the proxy
	Hidden      int64 `json:"hiddenOffsets"` // of the destination, as markers: seen through the proxy
}

// facts are those of one side.
type facts struct {
	counted int64 // offsets before it have been: a batch may be read twice

	Batches, Mirrored, Foreign, Filler, Hidden int64

	foreign string // what is said of the first foreign batch
	wrong   string // what is said of the first batch of a mirror whose header is not as mirrors write it
	sums    []sum  // of batches that the other side has not come to yet
}

// sum stands for what has to be equal in identical batches.
type sum struct {
	baseOffset int64
	hash       uint64
}

// Positions in a magic 2 header: what lies between the producer's fields may not differ in identical batches.
const (
	posAttributes = 21
	posProducerID = 43
	posCount      = 57
)

var sumSeed = maphash.MakeSeed()

func sumOf(b batch.Batch) sum {
	var h maphash.Hash
	h.SetSeed(sumSeed)
	_, _ = h.Write(b[posAttributes:posProducerID])
	_, _ = h.Write(b[posCount:])
	return sum{baseOffset: b.BaseOffset(), hash: h.Sum64()}
}

// see takes note of a batch of magic 2; skipped ones hold nothing for consumers.
func (f *facts) see(b batch.Batch, skipped bool) {
	if b.BaseOffset() < f.counted {
		return
	}
	f.counted = b.LastOffset() + 1
	if batch.OfMirror(b) {
		f.Mirrored++
		f.check(b)
	} else {
		f.Foreign++
		if f.foreign == "" {
			f.foreign = fmt.Sprintf("offset %d: the destination has a batch that no mirror wrote (producer id %d)", b.BaseOffset(), b.ProducerID())
		}
	}
	if b.Control() && batch.OfMirror(b) && !b.Transactional() {
		f.Hidden += int64(b.LastOffsetDelta()) + 1
	}
	if !skipped && b.Count() > 0 {
		f.Batches++
		f.sums = append(f.sums, sumOf(b))
	}
}

// check looks whether a mirror's batch carries what makes appends conditional on their offset. In the place of hidden
// filler there is a control batch whose header may be a part of the stored one's.
func (f *facts) check(b batch.Batch) {
	if f.wrong != "" || b.Control() {
		return
	}
	if want := batch.SequenceOf(b.BaseOffset()); b.BaseSequence() != want || b.ProducerEpoch() != 0 {
		f.wrong = fmt.Sprintf("offset %d: the mirror's batch has sequence %d and producer epoch %d, want %d and 0",
			b.BaseOffset(), b.BaseSequence(), b.ProducerEpoch(), want)
	}
}

// identical compares the batches that both sides have come to, and forgets them and those that the other side does not have.
func identical(a, b *facts) (n int64) {
	i, j := 0, 0
	for i < len(a.sums) && j < len(b.sums) {
		switch x, y := a.sums[i], b.sums[j]; {
		case x.baseOffset < y.baseOffset:
			i++
		case y.baseOffset < x.baseOffset:
			j++
		default:
			if x.hash == y.hash {
				n++
			}
			i++
			j++
		}
	}
	a.sums = append(a.sums[:0], a.sums[i:]...)
	b.sums = append(b.sums[:0], b.sums[j:]...)
	return n
}
