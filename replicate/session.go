package replicate

import (
	"errors"
	"sync"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

// session carries one partition from fetcher to stream: it checks each batch, gives it the
// partition's producer and pushes it. deliver is called by one fetcher goroutine; the runner
// watches failed. It is used once.
type session struct {
	target     produce.Target
	producerID int64
	stream     *produce.Stream
	live       *state.LivePartition
	queueBytes int
	nowMs      func() int64
	failed     chan struct{} // closed with the first fault
	trim       *trimming
	fresh      freshness

	mu     sync.Mutex
	next   int64            // source offset of the next record
	epochs []state.EpochRun // source leader epochs of the records before it
	fault  *produce.Fault
}

func (s *session) wants() (offset int64, epoch int32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next, lastEpoch(s.epochs), s.fault == nil && s.stream.QueuedBytes() < s.queueBytes
}

func (s *session) broken(fault *produce.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil {
		s.fault = fault
		close(s.failed)
	}
}

func (s *session) Fault() *produce.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// epochsBelow are the source leader epochs of the records below an offset.
func (s *session) epochsBelow(end int64) []state.EpochRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	return epochsBelow(s.epochs, end)
}

func (s *session) deliver(records []byte, logStart, highWatermark int64, held *holding, coder *batch.Coder) {
	if s.Fault() != nil {
		return
	}
	s.live.LastFetchMs.Store(s.nowMs())
	s.fresh.look(s.nowMs(), s.next, s.live.DestinationOffset.Load())
	s.live.SourceOffset.Store(highWatermark)
	s.trim.begins(logStart, s.nowMs())
	if end := s.live.DestinationOffset.Load(); end >= highWatermark {
		s.live.LaggingSinceMs.Store(0)
	} else if s.live.LaggingSinceMs.Load() == 0 {
		s.live.LaggingSinceMs.Store(s.nowMs())
	}
	_, err := batch.Each(records, func(b batch.Batch) error { return s.take(b, held, coder) })
	var fault *produce.Fault
	if errors.As(err, &fault) {
		s.broken(fault)
	} else if err != nil {
		s.broken(produce.Because(produce.Retry, err, "%s: what the source sent from offset %d on cannot be mirrored", s.target, s.next))
	}
}

// take checks a batch of the source and pushes it. Only the fetcher's goroutine changes next.
func (s *session) take(b batch.Batch, held *holding, coder *batch.Coder) error {
	if b.Magic() < 2 {
		return produce.Faultf(produce.Quarantined, "%s: the batch at source offset %d has the old message format %d, which this version cannot mirror", s.target, b.BaseOffset(), b.Magic())
	}
	class := batch.Classify(b)
	if class.Kind == batch.KindInvalid {
		return batch.Validate(b)
	}
	if b.LastOffset() < s.next {
		return nil // a fetch in the middle of a batch brings the whole of it
	}
	base := b.BaseOffset()
	switch {
	case base > s.next:
		return produce.Faultf(produce.Quarantined, "%s: the source has no records at offsets %d to %d (compacted, deleted, or aborted), which this version cannot mirror", s.target, s.next, base-1)
	case class.Kind == batch.KindControl:
		return produce.Faultf(produce.Quarantined, "%s: the source has a transaction marker at offset %d, which this version cannot mirror", s.target, base)
	case class.Kind == batch.KindEmpty || int64(b.Count()) != int64(b.LastOffsetDelta())+1:
		return produce.Faultf(produce.Quarantined, "%s: compaction has removed records from the source's batch of offsets %d to %d, which this version cannot mirror", s.target, base, b.LastOffset())
	case class.Transactional:
		return produce.Faultf(produce.Quarantined, "%s: the source has transactional records at offsets %d to %d, which this version cannot mirror", s.target, base, b.LastOffset())
	case class.Kind == batch.KindReencode || base < s.next:
		return s.pushReencoded(b, held.budget, coder)
	}
	if err := s.check(b, coder); err != nil {
		return err
	}
	epoch := b.LeaderEpoch()
	count := b.Count()
	batch.SetProducer(b, s.producerID, 0, batch.SequenceOf(base))
	held.use()
	s.advance(base+int64(count), epoch)
	s.stream.Push(produce.Batch{Bytes: b, BaseOffset: base, Count: count, Release: held.releaser})
	return nil
}

func (s *session) check(b batch.Batch, coder *batch.Coder) error {
	if err := batch.CheckDeltas(b); err != nil {
		return err
	}
	return reservedKey(s.target, coder.CheckNoFillerKey(b))
}

// reservedKey: a record that could be taken for filler later on is never copied.
func reservedKey(target produce.Target, err error) error {
	if errors.Is(err, batch.ErrFillerKey) {
		return produce.Because(produce.Quarantined, err, "%s cannot be mirrored", target)
	}
	return err
}

// reencodedBytes is the uncompressed size of batches that are written anew.
const reencodedBytes = 256 << 10

// pushReencoded writes a dense batch anew: one that carries LogAppendTime, so that its records
// keep the timestamps consumers saw, or one that begins before the next offset.
func (s *session) pushReencoded(b batch.Batch, budget *Budget, coder *batch.Coder) error {
	last, epoch := b.LastOffset(), b.LeaderEpoch()
	out, err := coder.Reencode(nil, b, batch.ReencodeOptions{FromOffset: s.next, PreviousTimestampMs: -1, MaxBatchBytes: reencodedBytes})
	if err != nil {
		return reservedKey(s.target, err)
	}
	held := budget.hold(int64(len(out)))
	budget.Adjust(held.bytes)
	defer held.release()
	rest, err := batch.Each(out, func(b batch.Batch) error {
		base, count := b.BaseOffset(), b.Count()
		if base != s.next || int64(count) != int64(b.LastOffsetDelta())+1 {
			return produce.Faultf(produce.Quarantined, "%s: the source's batch of offsets %d to %d does not hold every offset, which this version cannot mirror", s.target, base, b.LastOffset())
		}
		batch.SetProducer(b, s.producerID, 0, batch.SequenceOf(base))
		held.use()
		s.advance(base+int64(count), epoch)
		s.stream.Push(produce.Batch{Bytes: b, BaseOffset: base, Count: count, Release: held.releaser})
		return nil
	})
	if err == nil && (len(rest) != 0 || s.next != last+1) {
		err = produce.Faultf(produce.Quarantined, "%s: the source's batch up to offset %d ends at offset %d when written anew", s.target, last, s.next-1)
	}
	return err
}

func (s *session) advance(next int64, epoch int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epochs = appendEpoch(s.epochs, s.next, epoch)
	s.next = next
}
