package produce

import "slices"

// fifo is a queue of batches that keeps its memory. What bounds it is the budget of the bytes
// in it and, per partition, who pushes.
type fifo struct {
	batches []Batch
	first   int // index of the head
}

func (q *fifo) len() int { return len(q.batches) - q.first }

func (q *fifo) head() Batch { return q.batches[q.first] }

func (q *fifo) push(b Batch) {
	if q.first > 0 && len(q.batches) == cap(q.batches) {
		n := copy(q.batches, q.batches[q.first:])
		clear(q.batches[n:])
		q.batches, q.first = q.batches[:n], 0
	}
	q.batches = append(q.batches, b)
}

func (q *fifo) pop() Batch {
	b := q.batches[q.first]
	q.batches[q.first] = Batch{} // lets go of the bytes
	if q.first++; q.first == len(q.batches) {
		q.batches, q.first = q.batches[:0], 0
	}
	return b
}

// cut removes all but the first kept batches and returns them.
func (q *fifo) cut(kept int) []Batch {
	from := q.first + kept
	removed := slices.Clone(q.batches[from:])
	clear(q.batches[from:])
	q.batches = q.batches[:from]
	return removed
}
