package verify

import (
	"hash/fnv"
	"iter"
	"math"
	"math/rand/v2"
)

// chunkOffsets is how many offsets a sample takes or leaves together.
const chunkOffsets = 10_000

// sampler chooses what is compared: so large a share of the chunks, always the same ones for the same seed, and the last
// chunk, which shows whether the destination is complete.
type sampler struct {
	share float64 // 0 is all
	seed  uint64
}

func (s sampler) all() bool { return s.share <= 0 || s.share >= 1 }

// part is a range of offsets, end exclusive.
type part struct{ from, end int64 }

// parts are the chosen ranges within from and end, in order, those that touch as one.
func (s sampler) parts(topic string, partition int32, from, end int64) iter.Seq[part] {
	if s.all() {
		return func(yield func(part) bool) {
			if from < end {
				yield(part{from, end})
			}
		}
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(topic))
	seed := s.seed ^ h.Sum64() + uint64(partition)
	return func(yield func(part) bool) {
		open := part{from: -1}
		for first := from; first < end; {
			chunk := first / chunkOffsets
			next := min((chunk+1)*chunkOffsets, end)
			chosen := next == end || float64(rand.NewPCG(seed, uint64(chunk)).Uint64()) < s.share*math.MaxUint64
			if chosen && open.from < 0 {
				open.from = first
			}
			if open.from >= 0 && (!chosen || next == end) {
				open.end = first
				if chosen {
					open.end = next
				}
				if !yield(open) {
					return
				}
				open.from = -1
			}
			first = next
		}
	}
}
