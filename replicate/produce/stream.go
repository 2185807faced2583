package produce

import (
	"sync"
	"time"

	"kafka-mirror-proxy/protocol/batch"
)

// Batch is one batch on its way: bytes ready for Produce, and the offsets it takes up.
type Batch struct {
	Bytes      []byte
	BaseOffset int64
	Count      int32
	// Release is called once when the bytes are not needed any more; may be nil.
	Release func()
}

// StreamConfig sets up a Stream.
type StreamConfig struct {
	Target Target
	// StartOffset is where the destination's log ends, as Align found at CheckedAt.
	StartOffset int64
	CheckedAt   time.Time
	// ReservedOffset: no batch that begins at or beyond it is sent (see Reserve).
	ReservedOffset int64
	// Leader is the broker that Align asked.
	Leader int32
	// OneAck lets a batch be answered before the followers have it (acks=1), as long as the guard is sure to hold: after
	// a leader that took such batches with it, the next one must be refused. See Confirm.
	OneAck bool
	// GuardedUntilMs is what Align found.
	GuardedUntilMs int64
	// DoubtUntil is until when something that was sent before may still be under way: before that, nothing is sent that
	// would let the broker forget the producer, by whose sequence it refuses that. The zero value when there is nothing.
	DoubtUntil time.Time
	// OnAppend is called, on the connection's goroutine, after each append, with the end of the destination's
	// log that all followers have, and until when it is guarded. It must not block.
	OnAppend func(end, guardedUntilMs int64)
}

// Stream writes one partition from an aligned offset on. Push, Reserve and Close may be called
// from any goroutine; batches must be pushed in order by one. Its lane takes batches from it.
// It ends with its first Fault, or with Close.
type Stream struct {
	cfg    StreamConfig
	lane   *lane
	facts  *brokerFacts
	events chan struct{}

	mu          sync.Mutex
	queue       fifo // sent in this order; the head may be in flight
	queuedBytes int
	next        int64 // base offset of the head: the end of the destination's log
	confirmed   int64 // what the followers have too
	pushed      int64 // base offset of the next Push
	reserved    int64
	checkedAt   time.Time // when next was last known to be the end of the log
	queuedUp    bool      // it stands in its lane's line
	inFlight    bool
	oneAck      bool  // what is in flight does not wait for the followers
	guardedMs   int64 // the broker refuses what is out of sequence until then
	waiting     bool  // the head waits for a reservation
	ended       bool
	fault       *Fault
	unanswered  int64         // where the batch begins of which nobody knows whether it was appended, -1 for none
	idle        chan struct{} // closed when it has ended and nothing is in flight
	onSpace     func()
}

func newStream(cfg StreamConfig, l *lane, facts *brokerFacts) *Stream {
	return &Stream{
		cfg: cfg, lane: l, facts: facts, confirmed: cfg.StartOffset, guardedMs: cfg.GuardedUntilMs, events: make(chan struct{}, 1), idle: make(chan struct{}),
		unanswered: -1, next: cfg.StartOffset, pushed: cfg.StartOffset, reserved: cfg.ReservedOffset, checkedAt: cfg.CheckedAt,
	}
}

// Events holds a token after an append, when a reservation is wanted, and at the end.
func (s *Stream) Events() <-chan struct{} { return s.events }

func (s *Stream) signal() {
	select {
	case s.events <- struct{}{}:
	default: // a token is there already
	}
}

// Push takes over a batch, which must follow the last one. A stream that has ended releases it.
func (s *Stream) Push(b Batch) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		release(b)
		return
	}
	if b.BaseOffset != s.pushed || b.Count <= 0 {
		// A mistake in this process, but one that must never reach the log.
		released := s.end(Faultf(Quarantined, "a batch of %d records at offset %d was about to be written where offset %d comes next", b.Count, b.BaseOffset, s.pushed))
		s.mu.Unlock()
		release(b)
		release(released...)
		return
	}
	s.queue.push(b)
	s.queuedBytes += len(b.Bytes)
	s.pushed += int64(b.Count)
	s.lineUp()
	s.mu.Unlock()
}

// lineUp puts the stream in its lane's line when it has something to send. Called with mu held.
func (s *Stream) lineUp() {
	if s.ended || s.inFlight || s.queuedUp || s.queue.len() == 0 {
		return
	}
	if s.next >= s.reserved {
		s.waiting = true
		s.signal()
		return
	}
	s.queuedUp = true
	s.lane.line(s)
}

// QueuedBytes is what was pushed and is not acknowledged yet.
func (s *Stream) QueuedBytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queuedBytes
}

// OnSpace has fn called after each append. It must not block or call the stream.
func (s *Stream) OnSpace(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onSpace = fn
}

// Status is how far the stream has come: the end of the destination's log that all its followers have, and the first
// Fault, nil while there is none.
func (s *Stream) Status() (end, reserved int64, waiting bool, fault *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.confirmed, s.reserved, s.waiting, s.fault
}

// Unconfirmed says that the leader has more than what its followers are known to have (see OneAck).
func (s *Stream) Unconfirmed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.confirmed < s.next
}

// Confirm notes the leader's high watermark.
func (s *Stream) Confirm(highWatermark int64) {
	s.mu.Lock()
	highWatermark = min(highWatermark, s.next)
	more := highWatermark > s.confirmed
	if more {
		s.confirmed = highWatermark
		s.signal()
	}
	guardedMs := s.guardedMs
	s.mu.Unlock()
	if more && s.cfg.OnAppend != nil {
		s.cfg.OnAppend(highWatermark, guardedMs)
	}
}

// Unanswered is where the batch begins of which nobody knows whether it was appended, or will be;
// -1 when there is none.
func (s *Stream) Unanswered() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unanswered
}

// Reserve lets batches go out that begin below offset, once that is recorded in the state.
func (s *Stream) Reserve(offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved = max(s.reserved, offset)
	s.waiting = false
	s.lineUp()
}

// Close ends the stream: what is not sent yet is dropped. Idle tells when nothing is in flight.
func (s *Stream) Close() {
	s.mu.Lock()
	released := s.end(nil)
	s.mu.Unlock()
	release(released...)
}

// Idle is closed when the stream has ended and every request of it was answered, or its
// connection closed.
func (s *Stream) Idle() <-chan struct{} { return s.idle }

// end drops what is not in flight and returns it for release. Called with mu held.
func (s *Stream) end(fault *Fault) []Batch {
	if s.fault == nil {
		s.fault = fault
	}
	if s.ended {
		return nil
	}
	s.ended = true
	kept := 0
	if s.inFlight {
		kept = 1
	} else {
		close(s.idle)
	}
	dropped := s.queue.cut(kept)
	s.queuedBytes = 0
	s.signal()
	return dropped
}

// headBytes is the size of the next batch to be sent, 0 when there is none.
func (s *Stream) headBytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.inFlight || s.queue.len() == 0 {
		return 0
	}
	return len(s.queue.head().Bytes)
}

// take hands the head batch to the lane. oneAck says that it need not wait for the followers; ok is false when there is
// nothing to send now.
func (s *Stream) take(now time.Time, maxAge time.Duration) (b Batch, oneAck, ok bool) {
	s.mu.Lock()
	s.queuedUp = false
	if s.ended || s.queue.len() == 0 || s.next >= s.reserved {
		s.lineUp() // notes that it waits for a reservation
		s.mu.Unlock()
		return Batch{}, false, false
	}
	b = s.queue.head()
	guardedMs := s.facts.guardedUntilMs(lastTimestampMs(b))
	if fault := s.hindrance(b, guardedMs, now, maxAge); fault != nil {
		released := s.end(fault)
		s.mu.Unlock()
		release(released...)
		return Batch{}, false, false
	}
	s.inFlight = true
	// It must hold now and behind this batch, and nothing may be under way: what the leader alone has can be lost.
	s.oneAck = s.cfg.OneAck && min(s.guardedMs, guardedMs) > now.Add(oneAckLeast).UnixMilli() && !now.Before(s.cfg.DoubtUntil)
	oneAck = s.oneAck
	s.mu.Unlock()
	return b, oneAck, true
}

// hindrance is why a batch must not be sent now; guardedMs is until when the log will be guarded behind it.
func (s *Stream) hindrance(b Batch, guardedMs int64, now time.Time, maxAge time.Duration) *Fault {
	if age := now.Sub(s.checkedAt); age > maxAge {
		// The broker may have forgotten the producer meanwhile: its end has to be looked at again.
		return Faultf(Stale, "the end of %s was read %v ago", s.cfg.Target, age.Round(time.Second))
	}
	if now.Before(s.cfg.DoubtUntil) && guardedMs < s.cfg.DoubtUntil.UnixMilli() {
		return Faultf(Unguarded, "%s: behind the batch at offset %d the broker may forget the mirror's producer, and something that was sent before may still be under way",
			s.cfg.Target, b.BaseOffset)
	}
	if most := s.facts.requestBytes.Load(); int64(len(b.Bytes))+requestOverheadBytes > most {
		return Faultf(Refused, "produce to %s: the batch at offset %d has %d bytes, more than a request to the destination may have (socket.request.max.bytes is %d)",
			s.cfg.Target, b.BaseOffset, len(b.Bytes), most)
	}
	return nil
}

// requestOverheadBytes is more than what a request with one batch holds beside it.
const requestOverheadBytes = 1 << 10

// lastTimestampMs is what the broker will remember the producer by.
func lastTimestampMs(b Batch) int64 { return batch.Batch(b.Bytes).MaxTimestamp() }

// untake takes back a batch of which no byte was sent.
func (s *Stream) untake(fault *Fault) { s.settle(fault, time.Time{}) }

// appended notes that the batch in flight stands at its offset.
func (s *Stream) appended(at time.Time) { s.settle(nil, at) }

// failed notes what became of the batch in flight instead.
func (s *Stream) failed(fault *Fault) { s.settle(fault, time.Time{}) }

func (s *Stream) settle(fault *Fault, at time.Time) {
	s.mu.Lock()
	s.inFlight = false
	b := s.queue.pop()
	if fault != nil && fault.Verdict == Ambiguous {
		s.unanswered = fault.BeginOffset // also when another fault came first
	}
	if fault == nil {
		s.next += int64(b.Count)
		s.checkedAt = at
		s.guardedMs = s.facts.guardedUntilMs(lastTimestampMs(b))
		if !s.oneAck {
			s.confirmed = s.next // and all that comes before
		}
	}
	var dropped []Batch
	switch {
	case s.ended: // Close was waiting for this answer
		if s.fault == nil {
			s.fault = fault
		}
		close(s.idle)
		s.signal()
	case fault != nil:
		dropped = s.end(fault)
	default:
		s.queuedBytes -= len(b.Bytes)
		s.lineUp()
		s.signal()
	}
	end, guardedMs, onSpace := s.confirmed, s.guardedMs, s.onSpace
	s.mu.Unlock()
	release(b)
	release(dropped...)
	if fault == nil && s.cfg.OnAppend != nil {
		s.cfg.OnAppend(end, guardedMs)
	}
	if onSpace != nil {
		onSpace()
	}
}

func release(batches ...Batch) {
	for _, b := range batches {
		if b.Release != nil {
			b.Release()
		}
	}
}
