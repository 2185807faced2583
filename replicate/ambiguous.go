package replicate

import (
	"time"

	"kafka-mirror-proxy/replicate/produce"
)

// doubt: a batch that was sent to the partition may still be appended, because nobody has answered for it (the connection
// was lost, or the owner that sent it died). Such a batch is appended at the end of the log, wherever that is by then,
// unless the broker refuses it by its sequence, which it does as long as it remembers the mirror's producer
// (Start.GuardedUntilMs). It forgets a producer whose last record is older than producer.id.expiration.ms, as in history
// that is mirrored, at a check every 10 minutes. So:
//
//   - Nothing is ever sent again without a look at where the log ends.
//   - The connection is closed and what has not left this host is taken back (produce.wire).
//   - While the guard holds, what comes late is refused, or is the duplicate of what stands there already: no wait.
//   - Otherwise nothing is written until the leader has answered for a while (mirror.produce.ambiguous.wait.ms). The wait
//     begins with an answer of the leader and not with the trouble: a broker that stood still has by then read what lay in
//     its buffers. It begins anew with another leader. Then the log is looked at again.
//   - A stream that began guarded must not send, during that time, a batch that ends the guard: old records after new ones
//     (produce.Unguarded).
//
// What is left: a late batch that is under way for longer than that, and a batch of an owner that was stopped between its
// look at the lease and the write for longer than a standby waits, each with a producer that is forgotten. Both take an
// offset that is not theirs, which the next answer shows (its base offset), and the next look at the log before writing.
type doubt struct {
	open bool
	// until is when it is over; zero before the leader has answered.
	until  time.Time
	leader int32 // that has answered
	// unguarded: the next batch would end the guard, so that holding now is not enough.
	unguarded bool
}

// begins notes that something that was sent may still come.
func (d *doubt) begins() { *d = doubt{open: true, unguarded: d.open && d.unguarded} }

// look says whether to write, after the leader has answered with where its log ends; else how long to wait before asking
// it again.
func (d *doubt) look(start *produce.Start, now time.Time, wait time.Duration) (rest time.Duration, write bool) {
	switch {
	case !d.open:
		return 0, true
	case d.until.IsZero(), d.leader != start.Leader.ID:
		d.until, d.leader = now.Add(wait), start.Leader.ID
	case start.CheckedAt.After(d.until):
		*d = doubt{}
		return 0, true
	}
	if !d.unguarded && start.GuardedUntilMs > d.until.UnixMilli() {
		return 0, true
	}
	return max(d.until.Sub(now), 0) + time.Millisecond, false
}

// inDoubt waits where something may still be under way that the broker would not refuse. True means that nothing may be
// written: the view and the log have to be looked at again.
func (p *partition) inDoubt(w *wanted, target produce.Target, start *produce.Start) bool {
	rest, write := p.doubt.look(start, p.tenure.cfg.Clock(), ambiguousWait(w.mirror))
	p.tenure.cfg.Live.Partition(p.id).InDoubt.Store(!write)
	if write {
		return false
	}
	p.tenure.log.Info().Str("topic", target.Topic).Int32("partition", target.Partition).Int64("offset", start.EndOffset).Dur("waitMs", rest).
		Msg("something sent earlier may still be under way, and the broker may have forgotten the mirror's producer; waiting before the next write")
	p.restUntil(rest, func(now *wanted) bool { return now.topic.Desired != w.topic.Desired || now.revision != w.revision })
	return true
}
