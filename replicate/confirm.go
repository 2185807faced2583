package replicate

import (
	"context"
	"time"

	"kafka-mirror-proxy/replicate/produce"
)

const (
	// confirmPause is how often to ask what the followers have, of what the leader alone has answered for
	// (mirror.produce.acks=1): nothing counts as copied before.
	confirmPause = 500 * time.Millisecond
	// confirmTimeout bounds one such question.
	confirmTimeout = 5 * time.Second
)

// confirm asks the leader how much its followers have, when that is not known by its answers. An error ends the session:
// a broker that leads no more would never tell, and the next offsets are reserved only behind what the followers have.
func (p *partition) confirm(stream *produce.Stream, target produce.Target, leader int32) error {
	if !stream.Unconfirmed() || p.ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, confirmTimeout)
	defer cancel()
	offset, err := p.tenure.engine.HighWatermark(ctx, target, leader)
	if err != nil {
		return produce.Because(produce.Retry, err, "ask what the followers of %s have", target)
	}
	stream.Confirm(offset)
	return nil
}
