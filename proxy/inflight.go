package proxy

import (
	"sync"

	"kafka-mirror-proxy/enforce"
)

// entryKind is how an answer comes about.
type entryKind uint8

const (
	// relay: the broker's frame as it is.
	relay entryKind = iota
	// edit: the broker's frame, held whole and rewritten by edits[key].
	edit
	// walk: the broker's Fetch frame, addresses rewritten in passing.
	walk
	// hide: the broker's Fetch frame, held whole, filler hidden and addresses rewritten.
	hide
	// merge: the broker's frame, put together with the call's.
	merge
	// local: the call's frame, nothing from the broker.
	local
	// probe: the broker's frame, swallowed.
	probe
)

// entry is one request that waits for its answer.
type entry struct {
	call        *call
	token       enforce.Token
	fillers     uint64 // of a Fetch: the policy's when its topics were judged
	correlation int32
	key         int16
	version     int16 // the client's
	kind        entryKind
}

// heavy entries keep memory beyond the entry until they are written.
func (e *entry) heavy() bool { return e.call != nil }

// maxHeavy bounds the answers made here that one client can leave unread.
const maxHeavy = 64

// firstEntries is the queue of a connection that does not pipeline.
const firstEntries = 4

// queue is the bounded FIFO of unanswered requests. The request half pushes, before the
// request's bytes go upstream; the response half looks at entries from a cursor on and pops
// them when their answers are written. Between both lies everything that is in flight.
//
// While the queue is empty the response half sits in a read of the broker, because it must
// notice when the broker hangs up; then an answer made here could wait for ever. So a push onto
// the empty queue of an entry that needs nothing from the broker interrupts that read: wake
// sets its deadline into the past, under the lock, and the half takes it back under the same
// lock when it looks at the queue. As the queue was empty there was no frame to be in the
// middle of, and it cannot be empty again before the half has looked.
type queue struct {
	mu      sync.Mutex
	ring    []entry // a power of two
	head    uint    // oldest
	cursor  uint    // first whose answer is not decided
	tail    uint    // next free
	limit   uint
	heavies int
	tokens  int
	// space is closed when there is room again; nil while nobody waits.
	space chan struct{}
	// noMore: the request half has ended.
	noMore bool
	// abandoned: nobody is there to read the answers.
	abandoned bool

	woken        bool
	wake, unwake func()
}

func newQueue(limit int) queue {
	return queue{limit: uint(limit), wake: func() {}, unwake: func() {}}
}

// room returns nil when there is room for one more entry, else what to wait for.
func (q *queue) room() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hasRoom() {
		return nil
	}
	if q.space == nil {
		q.space = make(chan struct{})
	}
	return q.space
}

func (q *queue) hasRoom() bool { return q.tail-q.head < q.limit && q.heavies < maxHeavy }

// push adds an entry; the caller has seen room.
func (q *queue) push(e entry) {
	q.mu.Lock()
	size := uint(len(q.ring))
	if q.tail-q.head == size {
		q.grow()
		size = uint(len(q.ring))
	}
	q.ring[q.tail&(size-1)] = e
	q.tail++
	if e.heavy() {
		q.heavies++
	}
	if e.token.Held() {
		q.tokens++
	}
	if e.kind == local {
		q.wakeIfIdle(1)
	}
	q.mu.Unlock()
}

func (q *queue) grow() {
	bigger := make([]entry, max(firstEntries, 2*len(q.ring)))
	for i := q.head; i != q.tail; i++ {
		bigger[i&uint(len(bigger)-1)] = q.ring[i&uint(len(q.ring)-1)]
	}
	q.ring = bigger
}

// wakeIfIdle interrupts the response half if it may sit in a read between frames: when the
// queue held nothing but the entries just pushed. Called with the lock held.
func (q *queue) wakeIfIdle(pushed uint) {
	if q.tail-q.head == pushed && !q.woken {
		q.woken = true
		q.wake()
	}
}

// look is what the response half finds.
type look uint8

const (
	lookEntry look = iota
	lookIdle       // nothing to answer now
	lookOver       // nothing to answer ever
	lookNoOne      // the client is gone: read on only for the entry's token
)

// next copies the entry at the cursor and takes a wake back.
func (q *queue) next(e *entry) look {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.woken {
		q.woken = false
		q.unwake()
	}
	if q.abandoned && q.tokens == 0 {
		return lookOver
	}
	if q.cursor == q.tail {
		if q.noMore && q.head == q.tail {
			return lookOver
		}
		return lookIdle
	}
	*e = q.ring[q.cursor&uint(len(q.ring)-1)]
	if q.abandoned {
		return lookNoOne
	}
	return lookEntry
}

// advance says that the answer of the entry at the cursor is decided to its end.
func (q *queue) advance() {
	q.mu.Lock()
	q.cursor++
	q.mu.Unlock()
}

// pop removes the entries before the cursor: their answers are written. The tokens are exited.
func (q *queue) pop() (popped bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	popped = q.head != q.cursor
	for ; q.head != q.cursor; q.head++ {
		e := &q.ring[q.head&uint(len(q.ring)-1)]
		if e.heavy() {
			q.heavies--
		}
		if e.token.Held() {
			q.tokens--
			e.token.Exit()
		}
		*e = entry{}
	}
	if q.space != nil && q.hasRoom() {
		close(q.space)
		q.space = nil
	}
	return popped
}

// end says that no request comes any more.
func (q *queue) end() {
	q.mu.Lock()
	q.noMore = true
	q.wakeIfIdle(0)
	q.mu.Unlock()
}

// abandon says that nobody reads the answers any more. It returns whether a produce is still
// unanswered, which is all that is worth reading on for.
func (q *queue) abandon() (unanswered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.abandoned = true
	q.noMore = true
	q.wakeIfIdle(0)
	return q.tokens > 0
}

func (q *queue) unanswered() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tokens > 0
}

// waited says whether a barrier waits for a token in the queue.
func (q *queue) waited() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.tokens == 0 {
		return false
	}
	for i := q.head; i != q.tail; i++ {
		if q.ring[i&uint(len(q.ring)-1)].token.Waited() {
			return true
		}
	}
	return false
}

// cut takes back the youngest entry: its request was cut off, no broker will ever see it whole.
func (q *queue) cut() enforce.Token {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cursor == q.tail {
		return enforce.Token{}
	}
	q.tail--
	e := &q.ring[q.tail&uint(len(q.ring)-1)]
	token := e.token
	if e.heavy() {
		q.heavies--
	}
	if token.Held() {
		q.tokens--
	}
	*e = entry{}
	return token
}

// die empties the queue and returns the tokens of what was never answered.
func (q *queue) die() []enforce.Token {
	q.mu.Lock()
	defer q.mu.Unlock()
	var tokens []enforce.Token
	for ; q.head != q.tail; q.head++ {
		e := &q.ring[q.head&uint(len(q.ring)-1)]
		if e.token.Held() {
			tokens = append(tokens, e.token)
		}
		*e = entry{}
	}
	q.cursor, q.tokens, q.heavies = q.head, 0, 0
	return tokens
}
