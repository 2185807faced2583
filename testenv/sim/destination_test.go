package sim

import (
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kafka-mirror-proxy/protocol/batch"
)

// producer is what a leader remembers of a producer (ProducerStateEntry): epoch, last sequence and timestamp, and the last
// five batches.
type producer struct {
	epoch       int16
	last        int32 // sequence; -1 after a marker
	timestampMs int64
	recent      [5]sent
}

type sent struct {
	first, last int32 // sequences
	base        int64
	timestampMs int64
	there       bool
}

// destination is a partition of the destination cluster.
type destination struct {
	partitionLog
	random       *rand.Rand
	producers    map[int64]producer
	followerLag  time.Duration // how long followers need for a batch, at most
	expirationMs func() int64
	counts       *counts
	foreign      int64 // the lowest offset that somebody else wrote, -1 for none
	forgot       bool  // an election has taken a producer that was remembered, with everything it has written
	lostShifted  bool  // an election has taken a batch that stood at a wrong offset
	longest      int64 // the largest log end it ever had
}

func newDestination(random *rand.Rand, start int64, counts *counts, expirationMs func() int64) *destination {
	return &destination{partitionLog: newLog(start), random: random, producers: map[int64]producer{}, counts: counts, expirationMs: expirationMs, foreign: -1}
}

// append is what a leader does with a batch of a Produce request (UnifiedLog.append, ProducerAppendInfo), as far as it was
// measured. baseOffset is where it stands; appended is false for a duplicate.
func (d *destination) append(raw batch.Batch) (code int16, baseOffset, logAppendTimeMs int64, appended bool) {
	switch {
	case len(raw) < batch.HeaderLen || raw.Magic() != 2 || raw.BaseOffset() != 0 || raw.Control() || raw.Transactional():
		return kerr.InvalidRecord.Code, -1, -1, false
	case crc32.Checksum(raw[21:], castagnoli) != raw.CRC():
		return kerr.CorruptMessage.Code, -1, -1, false
	case raw.Count() <= 0 || raw.Count() != raw.LastOffsetDelta()+1:
		return kerr.InvalidRecord.Code, -1, -1, false
	}
	id, first := raw.ProducerID(), raw.BaseSequence()
	last := batch.SequenceOf(int64(first) + int64(raw.Count()) - 1)
	next := sent{first: first, last: last, base: d.end, timestampMs: raw.MaxTimestamp(), there: true}
	if id >= 0 {
		if first < 0 {
			return kerr.InvalidRecord.Code, -1, -1, false
		}
		was, known := d.producers[id]
		switch {
		case !known: // accepted, whatever the sequence
			d.counts.unguarded.Add(1)
		case raw.ProducerEpoch() < was.epoch:
			return kerr.InvalidProducerEpoch.Code, -1, -1, false
		case raw.ProducerEpoch() > was.epoch:
			if first != 0 {
				return kerr.OutOfOrderSequenceNumber.Code, -1, -1, false
			}
			was.recent = [5]sent{}
		default:
			for _, old := range was.recent {
				if old.there && old.first == first && old.last == last {
					d.counts.duplicates.Add(1)
					return 0, old.base, old.timestampMs, false
				}
			}
			if expected := batch.SequenceOf(int64(was.last) + 1); was.last < 0 && first != 0 || was.last >= 0 && first != expected {
				d.counts.outOfOrder.Add(1)
				return kerr.OutOfOrderSequenceNumber.Code, -1, -1, false
			}
		}
		copy(was.recent[1:], was.recent[:4])
		was.recent[0] = next
		was.epoch, was.last, was.timestampMs = raw.ProducerEpoch(), last, raw.MaxTimestamp()
		d.remember(id, was)
	}
	d.store(raw, next.base+int64(raw.Count())-1)
	return 0, next.base, -1, true
}

func (d *destination) remember(id int64, p producer) {
	d.producers = maps.Clone(d.producers)
	d.producers[id] = p
}

func (d *destination) store(raw batch.Batch, last int64) {
	d.counts.appends.Add(1)
	d.put(stored{base: d.end, last: last, raw: append(batch.Batch(nil), raw...), producers: d.producers})
	d.longest = max(d.longest, d.end)
	d.notify()
}

// mark appends a transaction marker (WriteTxnMarkers).
func (d *destination) mark(id int64, epoch int16, nowMs int64) int16 {
	was := d.producers[id]
	if epoch < was.epoch {
		return kerr.InvalidProducerEpoch.Code
	}
	if epoch > was.epoch {
		was = producer{epoch: epoch, last: -1}
	}
	was.timestampMs = nowMs
	d.remember(id, was)
	marker := sourceBatch{base: d.end, last: d.end, producer: id, sequence: -1, control: true, txn: &transaction{}, baseMs: nowMs,
		records: []sourceRecord{{offset: d.end, timestampMs: nowMs, key: make([]byte, 4), value: make([]byte, 6)}}}
	d.store(marker.encode(), d.end)
	return 0
}

// caughtUp is what the followers have a while later.
func (d *destination) caughtUp(end int64, epoch int32) {
	if d.epoch == epoch && d.hw < end && end <= d.end {
		d.hw = end
		d.notify()
	}
}

// forget is the broker's check for producers that are too old: by the timestamp of their last record.
func (d *destination) forget(nowMs int64) {
	for id, p := range d.producers {
		if nowMs-p.timestampMs >= d.expirationMs() {
			d.producers = maps.Clone(d.producers)
			delete(d.producers, id)
			d.counts.forgotten.Add(1)
		}
	}
}

// lose is an election: the new leader has the log up to some batch at or above from. Its producer state is what it has
// copied; what is too old it may have forgotten before.
func (d *destination) lose(from int64, leader int32, nowMs int64) {
	i := d.find(max(from, d.start))
	if keep := len(d.batches) - i; keep > 0 {
		i += d.random.IntN(keep + 1)
	}
	before := d.producers
	for _, s := range d.batches[i:] {
		d.lostShifted = d.lostShifted || batch.OfMirror(s.raw) && s.raw.BaseSequence() != batch.SequenceOf(s.base)
	}
	if i < len(d.batches) {
		d.cut(d.batches[i].base)
		d.producers = map[int64]producer{}
		if i > 0 {
			d.producers = d.batches[i-1].producers
		} else if d.end > 0 {
			// Everything that is left was deleted: the snapshot remembers up to here, or nothing.
			for id, p := range before {
				if p.recent[0].base < d.end {
					d.remember(id, p)
				}
			}
		}
	}
	if d.random.IntN(2) == 0 {
		d.forget(nowMs)
	}
	for id := range before {
		if _, still := d.producers[id]; !still {
			d.forgot = true
		}
	}
	d.elect(leader)
}

// deleteTo is DeleteRecords.
func (d *destination) deleteTo(offset int64) {
	d.start = max(d.start, offset)
	d.batches = d.batches[d.find(d.start):]
	d.notify()
}
