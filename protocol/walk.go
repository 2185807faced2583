package protocol

import (
	"encoding/binary"
	"math"
)

// cursor reads one body, or the part of one that is there by now, without allocating. Its errors are sticky: after the first
// one every read returns zero, so that a walk asks once at its end (or once a loop) instead of at every field.
type cursor struct {
	b        []byte
	pos      int
	flexible bool
	// need is set when a read ran out of bytes: so many bytes of b would have been enough for that read.
	need int
	// bad is set when the bytes cannot be what they should be, however many more come.
	bad bool
}

func (c *cursor) ok() bool { return c.need == 0 && !c.bad }

// left is what a count can be compared with when b is the whole body.
func (c *cursor) left() int { return len(c.b) - c.pos }

// take returns the next n bytes, nil after an error.
func (c *cursor) take(n int) []byte {
	if !c.ok() {
		return nil
	}
	if n < 0 {
		c.bad = true
		return nil
	}
	if n > len(c.b)-c.pos {
		c.need = c.pos + n
		return nil
	}
	s := c.b[c.pos : c.pos+n : c.pos+n]
	c.pos += n
	return s
}

func (c *cursor) int8() int8 {
	if s := c.take(1); s != nil {
		return int8(s[0])
	}
	return 0
}

func (c *cursor) int16() int16 {
	if s := c.take(2); s != nil {
		return int16(binary.BigEndian.Uint16(s))
	}
	return 0
}

func (c *cursor) int32() int32 {
	if s := c.take(4); s != nil {
		return int32(binary.BigEndian.Uint32(s))
	}
	return 0
}

// uuid returns an id of 16 bytes.
func (c *cursor) uuid() (id [16]byte) {
	copy(id[:], c.take(16))
	return id
}

// uvarint reads an unsigned varint of at most 5 bytes. Values that do not fit in a Java int are refused: no length or tag of
// Kafka has them, and decoders disagree about what they mean.
func (c *cursor) uvarint() int {
	if !c.ok() {
		return 0
	}
	var x uint64
	for i := 0; i < 5; i++ {
		if c.pos+i >= len(c.b) {
			c.need = c.pos + i + 1
			return 0
		}
		v := c.b[c.pos+i]
		x |= uint64(v&0x7f) << (7 * i)
		if v < 0x80 {
			if x > math.MaxInt32 {
				break
			}
			c.pos += i + 1
			return int(x)
		}
	}
	c.bad = true
	return 0
}

// length reads the length of a string (wide false) or of bytes or an array (wide true); -1 is null.
func (c *cursor) length(wide bool) int {
	var n int
	switch {
	case c.flexible:
		n = c.uvarint() - 1
	case wide:
		n = int(c.int32())
	default:
		n = int(c.int16())
	}
	if !c.ok() {
		return 0
	}
	if n < -1 {
		c.bad = true
		return 0
	}
	return n
}

// string reads a string that may not be null.
func (c *cursor) string() []byte {
	n := c.length(false)
	if c.ok() && n < 0 {
		c.bad = true
	}
	return c.take(n)
}

// nullableString reads a string; null gives nil, an empty one a slice that is not nil.
func (c *cursor) nullableString() []byte {
	n := c.length(false)
	if n < 0 {
		return nil
	}
	return c.take(n)
}

// nullableBytes reads a byte field; null gives nil.
func (c *cursor) nullableBytes() []byte {
	n := c.length(true)
	if n < 0 {
		return nil
	}
	return c.take(n)
}

// array reads the count of an array that may not be null, in a body that is there to its end. Every entry takes at least
// minBytes, so a count that cannot fit is refused before anybody loops over it.
func (c *cursor) array(minBytes int) int {
	n := c.length(true)
	if c.ok() && (n < 0 || n > c.left()/minBytes) {
		c.bad = true
	}
	if !c.ok() {
		return 0
	}
	return n
}

// nullableArray is array with null counting as 0.
func (c *cursor) nullableArray(minBytes int) int {
	n := c.length(true)
	if c.ok() && n > c.left()/minBytes {
		c.bad = true
	}
	if !c.ok() || n < 0 {
		return 0
	}
	return n
}

// tags skips the tagged fields of a flexible message; others have none.
func (c *cursor) tags() {
	if !c.flexible {
		return
	}
	for n := c.uvarint(); n > 0 && c.ok(); n-- {
		c.uvarint()
		c.take(c.uvarint())
	}
}

// topic reads a topic's name or, byID, its id.
func (c *cursor) topic(byID bool) (t TopicRef) {
	if byID {
		return TopicRef{ID: c.uuid(), ByID: true}
	}
	return TopicRef{Name: c.string()}
}

// partial is the error of a peek: nil when more bytes are all that is missing.
func (c *cursor) partial(what string) (need int, err error) {
	if c.bad {
		return 0, malformed("%s at byte %d", what, c.pos)
	}
	return c.need, nil
}

// whole is the error of a walk over a whole body, which must have been read to its last byte.
func (c *cursor) whole(what string) error {
	switch {
	case c.bad:
		return malformed("%s at byte %d", what, c.pos)
	case c.need > 0:
		return malformed("%s of %d bytes would need %d", what, len(c.b), c.need)
	case c.pos != len(c.b):
		return malformed("%s ends at byte %d of %d", what, c.pos, len(c.b))
	}
	return nil
}
