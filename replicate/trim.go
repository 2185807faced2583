package replicate

import (
	"context"
	"sync"
	"time"

	"kafka-mirror-proxy/replicate/produce"
)

const (
	// trimPause is the least time between two deletions in a partition: a source deletes a segment at a time.
	trimPause = time.Minute
	// trimTimeout bounds one, so that there is never more than one under way.
	trimTimeout = 30 * time.Second
)

// trimming makes the destination's log begin where the source's does, while a session lasts: the destination itself
// deletes nothing, whatever its topic's retention will be once it is handed over. begins is called by the fetcher.
type trimming struct {
	due   chan struct{}  // a token when there is something to delete
	group sync.WaitGroup // of the deletion under way

	mu          sync.Mutex
	source      int64 // where the source's log begins
	destination int64 // where the destination's log begins
	dueMs       int64 // not before
}

func newTrimming(destinationStart, dueMs int64) *trimming {
	return &trimming{due: make(chan struct{}, 1), source: -1, destination: destinationStart, dueMs: dueMs}
}

// begins notes where the source's log begins.
func (t *trimming) begins(sourceStart, nowMs int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.source = max(t.source, sourceStart)
	if t.source <= t.destination || nowMs < t.dueMs {
		return
	}
	select {
	case t.due <- struct{}{}:
	default: // a token is there already
	}
}

// take is the offset to delete up to, when the destination's log has come so far. The next one is due at nextMs.
func (t *trimming) take(end, nextMs int64) (offset int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.source <= t.destination || t.source > end {
		return -1, false
	}
	t.dueMs = nextMs
	return t.source, true
}

func (t *trimming) trimmed(offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.destination = max(t.destination, offset)
}

// trimDueMs is when records may be deleted next.
func (p *partition) trimDueMs() int64 { return p.trimmedAt.Add(trimPause).UnixMilli() }

// followLogStart begins to delete what the source has deleted, of what the destination has acknowledged with all its
// followers. How far the copy has come is recorded first: once nothing is left to compare, it is all that tells.
func (p *partition) followLogStart(s *session, stream *produce.Stream) error {
	end, _, _, _ := stream.Status()
	now := p.tenure.cfg.Clock()
	offset, ok := s.trim.take(end, now.Add(trimPause).UnixMilli())
	if !ok {
		return nil
	}
	p.trimmedAt = now
	if err := p.noteCopy(s, end); err != nil {
		return err
	}
	s.trim.group.Go(func() {
		ctx, cancel := context.WithTimeout(p.ctx, trimTimeout)
		defer cancel()
		// Who leads the topic, and whether it is the same one, a session that writes nothing does not notice.
		err := p.tenure.engine.Trim(ctx, s.target, offset, now)
		if err == nil {
			s.trim.trimmed(offset)
		} else if p.ctx.Err() == nil {
			p.tenure.log.Warn().Err(err).Str("topic", s.target.Topic).Int32("partition", s.target.Partition).Int64("offset", offset).
				Msg("the destination keeps records that the source has deleted; trying again")
		}
	})
	return nil
}
