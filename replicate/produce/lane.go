package produce

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// lane is one connection to one broker and the streams that go over it, always the same ones,
// so that order within a partition is order on a connection. One goroutine (run) owns the
// connection; streams line up from any goroutine.
type lane struct {
	engine *Engine
	broker int32

	mu    sync.Mutex
	ready []*Stream // in line; a stream stands in it once
	wake  chan struct{}

	// Of run.
	wire   *wire
	picks  []pick
	acks   int16        // of the picks
	topics []frameTopic // the picks by topic
}

const (
	acksAll int16 = -1
	acksOne int16 = 1
)

// pick is a batch in the request at hand.
type pick struct {
	stream *Stream
	batch  Batch
	done   bool
}

func newLane(e *Engine, broker int32) *lane {
	return &lane{engine: e, broker: broker, wake: make(chan struct{}, 1)}
}

// line puts a stream in line.
func (l *lane) line(s *Stream) {
	l.mu.Lock()
	l.ready = append(l.ready, s)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // a token is there already
	}
}

// run sends until ctx ends; then streams that are still in line are told so.
func (l *lane) run(ctx context.Context) {
	defer l.disconnect()
	for {
		select {
		case <-l.wake:
			for ctx.Err() == nil && l.someWait() {
				// Before the batches are picked, which looks at the age of what is known of their logs: it may take long.
				err := l.connect(ctx)
				switch {
				case !l.pickBatches():
				case err != nil:
					l.untakeAll(Because(Retry, err, "produce to broker %d", l.broker))
				default:
					l.exchange()
				}
			}
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			for l.pickBatches() {
				l.untakeAll(Because(Retry, ctx.Err(), "the connection to broker %d is being closed", l.broker))
			}
			return
		}
	}
}

// pickBatches takes the head batch of each stream in line, as many as go in one request: RequestBytes at most, or one
// batch that is larger. What does not fit stays in line.
func (l *lane) pickBatches() bool {
	l.picks, l.acks = l.picks[:0], acksOne
	size, now := 0, l.engine.cfg.Now()
	for len(l.picks) < maxPicks {
		most := l.engine.cfg.RequestBytes - size
		if len(l.picks) == 0 {
			most = math.MaxInt
		}
		s := l.nextInLine(most)
		if s == nil {
			break
		}
		if b, oneAck, ok := s.take(now, l.engine.cfg.CheckToSend); ok {
			l.picks = append(l.picks, pick{stream: s, batch: b})
			size += len(b.Bytes)
			if !oneAck {
				l.acks = acksAll
			}
		}
	}
	return len(l.picks) > 0
}

// nextInLine takes the first stream out of the line, unless its next batch has more than so many bytes. Only run takes
// streams out.
func (l *lane) nextInLine(mostBytes int) *Stream {
	l.mu.Lock()
	if len(l.ready) == 0 {
		l.mu.Unlock()
		return nil
	}
	s := l.ready[0]
	l.mu.Unlock()
	if s.headBytes() > mostBytes { // not with mu held: a stream that lines up holds its own lock
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready[0] = nil
	if l.ready = l.ready[1:]; len(l.ready) == 0 {
		l.ready = nil
	}
	return s
}

func (l *lane) someWait() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ready) > 0
}

// exchange sends the picked batches and waits for what became of them.
func (l *lane) exchange() {
	size := 0
	for i := range l.picks {
		size += len(l.picks[i].batch.Bytes)
	}
	deadline := l.engine.cfg.Now().Add(l.engine.cfg.RequestTimeout + answerSlack + time.Duration(size/sendBytesPerSecond)*time.Second)
	l.groupByTopic()
	// Right before the write: from here on only this thread's time to the system call separates
	// the check from the bytes.
	if !l.engine.cfg.Lease() {
		l.untakeAll(Faultf(LostLease, "this process does not own the mirrors any more"))
		return
	}
	begun, err := l.wire.sendProduce(l.topics, l.acks, l.engine.cfg.RequestTimeout, deadline)
	l.forgetBatches()
	answer := kmsg.NewPtrProduceResponse()
	answer.Version = l.wire.produceVersion
	if err == nil {
		err = l.wire.receive(answer)
	}
	if err != nil {
		l.wire.abort()
		l.wire = nil
		if !begun {
			l.untakeAll(Because(Retry, err, "produce to broker %d", l.broker))
			return
		}
		for i := range l.picks {
			l.failAmbiguous(&l.picks[i], err)
		}
		return
	}
	l.settle(answer)
}

func (l *lane) failAmbiguous(p *pick, err error) {
	fault := Because(Ambiguous, err, "produce to %s: no answer from broker %d for the batch at offset %d", p.stream.cfg.Target, l.broker, p.batch.BaseOffset)
	fault.BeginOffset = p.batch.BaseOffset
	p.stream.failed(fault)
}

func (l *lane) untakeAll(fault *Fault) {
	for _, p := range l.picks {
		p.stream.untake(fault)
	}
}

func (l *lane) connect(ctx context.Context) error {
	if l.wire != nil {
		return nil
	}
	deadline := l.engine.cfg.Now().Add(l.engine.cfg.RequestTimeout + answerSlack)
	addr, ok := l.engine.cluster.Addr(l.broker)
	if !ok {
		return errors.New("its address is not known")
	}
	w, err := openWire(ctx, l.engine.cfg.Dial, addr, deadline)
	if err != nil {
		return err
	}
	l.wire = w
	return nil
}

func (l *lane) disconnect() {
	if l.wire != nil {
		l.wire.close()
		l.wire = nil
	}
}

// groupByTopic lays the picks out by topic, in reused memory.
func (l *lane) groupByTopic() {
	l.topics = l.topics[:0]
	for i := range l.picks {
		p := &l.picks[i]
		t := l.topicOf(&p.stream.cfg.Target)
		t.partitions = append(t.partitions, framePartition{p.stream.cfg.Target.Partition, p.batch.Bytes})
	}
}

func (l *lane) topicOf(target *Target) *frameTopic {
	for i := len(l.topics) - 1; i >= 0; i-- {
		if t := l.topics[i].target; t.TopicID == target.TopicID && t.Topic == target.Topic {
			return &l.topics[i]
		}
	}
	if n := len(l.topics); n < cap(l.topics) { // keep the memory of its partitions
		l.topics = l.topics[:n+1]
	} else {
		l.topics = append(l.topics, frameTopic{})
	}
	t := &l.topics[len(l.topics)-1]
	t.target, t.partitions = target, t.partitions[:0]
	return t
}

// forgetBatches lets go of the batches once they are sent: a batch keeps a whole fetch answer
// in memory.
func (l *lane) forgetBatches() {
	for i := range l.topics {
		clear(l.topics[i].partitions)
	}
}

// settle tells each stream what the broker answered for its batch.
func (l *lane) settle(answer *kmsg.ProduceResponse) {
	now := l.engine.cfg.Now()
	cursor := 0 // brokers answer in the order of the request, or nearly so
	for ti := range answer.Topics {
		t := &answer.Topics[ti]
		for pi := range t.Partitions {
			p := l.findPick(&cursor, t, t.Partitions[pi].Partition, answer.Version)
			if p == nil {
				continue // nothing that was asked
			}
			p.done = true
			if a := &t.Partitions[pi]; a.ErrorCode == 0 && a.BaseOffset != p.batch.BaseOffset {
				l.engine.cfg.WrongOffsets.Add(1)
			}
			if fault := verdict(p.stream.cfg.Target, p.batch, &t.Partitions[pi]); fault != nil {
				p.stream.failed(fault)
			} else {
				p.stream.appended(now)
			}
		}
	}
	for i := range l.picks {
		if p := &l.picks[i]; !p.done {
			l.failAmbiguous(p, errors.New("the answer leaves it out"))
		}
	}
}

func (l *lane) findPick(cursor *int, t *kmsg.ProduceResponseTopic, partition int32, version int16) *pick {
	for i := range l.picks {
		at := (*cursor + i) % len(l.picks)
		p := &l.picks[at]
		target := &p.stream.cfg.Target
		sameTopic := target.TopicID == t.TopicID
		if version < 13 {
			sameTopic = target.Topic == t.Topic
		}
		if sameTopic && target.Partition == partition && !p.done {
			*cursor = at + 1
			return p
		}
	}
	return nil
}
