package protocol

import "fmt"

// FetchStep is what FetchWalker.Next asks of its caller.
type FetchStep int8

const (
	// FetchNeed: show at least n bytes in the window and call again. n is more than the window has now, at most
	// MaxEndpointsBytes and a few bytes, and never more than what is left of the body.
	FetchNeed FetchStep = iota
	// FetchPass: forward the next n bytes (n > 0), those in the window as they are now (Next may have edited them in place).
	// n may exceed the window: the rest is content that need not be looked at (records) and may be spliced.
	FetchPass
	// FetchEnd: the body is over.
	FetchEnd
)

// MaxEndpointsBytes is the most that FetchWalker asks to see at once. A node endpoints field longer than this is blanked.
const MaxEndpointsBytes = 16 << 10 // 2^14, so that a length within it fits a varint of 2 bytes

// FetchWalker is a resumable walk over the body of a Fetch answer of v16 or later; earlier ones hold no address and can be
// relayed unread. It rewrites the node endpoints (KIP-951) in place with the same length, so the frame's size stays true
// although it was sent long before. Where our addresses do not fit, the field is turned into an unknown tagged field of
// zeros: a hint is lost (the client asks for metadata instead), never an upstream host shown.
//
// It does not allocate, but for a buffer of its own the first time that it meets endpoints. The zero value must be Reset.
type FetchWalker struct {
	a    AddressOf
	left int // of the body, from the window's first byte on
	at   fetchPlace

	topics, partitions, aborted int        // entries that are still to come
	tagged                      int        // tagged fields that are still to come
	afterTags                   fetchPlace // where the walk goes on when there are none
	blank                       int        // bytes of a too long endpoints field that are still to be zeroed
	scratch                     []byte
}

// fetchPlace is what comes next in the body.
type fetchPlace int8

const (
	atNothing fetchPlace = iota // not reset, or failed
	atHead
	atTopic
	atPartition
	atAborted
	atRecords
	atTags  // the count of tagged fields
	atTag   // one tagged field
	atBlank // in a too long endpoints field
	atEnd
)

// Reset begins a new body of bodyBytes bytes.
func (w *FetchWalker) Reset(version int16, bodyBytes int, a AddressOf) error {
	if err := decodable(KeyFetch, version); err != nil {
		return err
	}
	if !HasNodeEndpoints(KeyFetch, version) {
		return fmt.Errorf("walk of a Fetch answer without node endpoints: %w", unsupported(KeyFetch, version))
	}
	*w = FetchWalker{a: a, left: bodyBytes, at: atHead, scratch: w.scratch[:0]}
	return nil
}

// Next looks at window, whose first byte is the first body byte that was not passed yet, and tells the caller what to do.
// After an error the walker is of no use until the next Reset.
func (w *FetchWalker) Next(window []byte) (step FetchStep, n int, err error) {
	window = window[:min(len(window), w.left)]
	passed := 0 // may run beyond the window
	for w.at != atEnd && passed <= len(window) {
		c := cursor{b: window, pos: passed, flexible: true}
		saved := *w
		w.read(&c)
		if c.bad || c.need > w.left || c.pos > w.left {
			w.at = atNothing
			return 0, 0, malformed("Fetch answer, %d bytes before its end", w.left-passed)
		}
		if c.need > 0 {
			*w = saved
			if passed > 0 {
				break
			}
			return FetchNeed, c.need, nil
		}
		passed = c.pos
	}
	if w.at == atEnd && passed < w.left {
		w.at = atNothing
		return 0, 0, malformed("Fetch answer has %d bytes too many", w.left-passed)
	}
	w.left -= passed
	if passed > 0 {
		return FetchPass, passed, nil
	}
	return FetchEnd, 0, nil
}

// Rewrite walks over a whole body, for an answer that is held.
func (w *FetchWalker) Rewrite(version int16, body []byte, a AddressOf) error {
	if err := w.Reset(version, len(body), a); err != nil {
		return err
	}
	for {
		step, n, err := w.Next(body)
		switch {
		case err != nil:
			return err
		case step == FetchEnd:
			return nil
		case step == FetchNeed:
			return malformed("Fetch answer of %d bytes would need %d", len(body), n)
		}
		body = body[n:]
	}
}

// read takes the next piece, as small as it may be, off c and moves on. When c runs out of bytes nothing has happened.
func (w *FetchWalker) read(c *cursor) {
	switch w.at {
	case atHead:
		c.take(4 + 2 + 4) // throttle, error, session id
		w.topics = w.count(c, 16+1+1)
		w.at = atTopic
	case atTopic:
		if w.topics == 0 {
			w.at, w.afterTags = atTags, atEnd
			return
		}
		c.take(16) // id
		w.partitions = w.count(c, 4+2+3*8+1+4+1+1)
		w.topics--
		w.at = atPartition
	case atPartition:
		if w.partitions == 0 {
			w.at, w.afterTags = atTags, atTopic
			return
		}
		c.take(4 + 2 + 3*8) // partition, error, high watermark, last stable offset, log start offset
		w.aborted = w.count(c, 8+8+1)
		w.partitions--
		w.at = atAborted
	case atAborted:
		if w.aborted == 0 {
			w.at = atRecords
			return
		}
		c.take(8 + 8) // producer id, first offset
		w.aborted--
		w.at, w.afterTags = atTags, atAborted
	case atRecords:
		c.take(4) // preferred read replica
		skip(c, c.length(true))
		w.at, w.afterTags = atTags, atPartition
	case atTags:
		w.tagged = c.uvarint()
		if c.ok() && w.tagged > (w.left-c.pos)/2 {
			c.bad = true
		}
		w.at = atTag
	case atTag:
		w.readTag(c)
	case atBlank:
		w.readBlank(c)
	default:
		c.bad = true
	}
}

// count reads a compact array's count, null as 0, and refuses one that what is left of the body cannot hold.
func (w *FetchWalker) count(c *cursor, minBytes int) int {
	n := c.length(true)
	if c.ok() && n > (w.left-c.pos)/minBytes {
		c.bad = true
	}
	return max(n, 0)
}

// skip moves over content without having it in the window.
func skip(c *cursor, n int) {
	if c.ok() && n > 0 {
		c.pos += n
	}
}
