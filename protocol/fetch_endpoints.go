package protocol

import "github.com/twmb/franz-go/pkg/kbin"

// Tags of a Fetch answer's own tagged fields.
const (
	endpointsTag = 0
	// unknownTag is a tag that Kafka has not given a meaning in any of these structs: the field under it is skipped by
	// every reader. Its varint is one byte, as that of endpointsTag.
	unknownTag = 0x7f
)

// readTag reads one tagged field. Only the endpoints, the body's own field 0, must be there as a whole.
func (w *FetchWalker) readTag(c *cursor) {
	if w.tagged == 0 {
		w.at = w.afterTags
		return
	}
	numberAt := c.pos
	number, size := c.uvarint(), c.uvarint()
	if c.ok() && size > w.left-c.pos {
		c.bad = true
	}
	if !c.ok() {
		return
	}
	w.tagged--
	switch {
	case w.afterTags != atEnd || number != endpointsTag:
		skip(c, size)
	case size > MaxEndpointsBytes:
		c.b[numberAt] |= unknownTag
		w.blank, w.at = size, atBlank
	default:
		content := c.take(size)
		if !c.ok() {
			return
		}
		fits, ok := w.rewriteEndpoints(content)
		if !ok {
			c.bad = true
		}
		if !fits {
			// |= also turns a zero that was written with more than one byte into a tag of the same length.
			c.b[numberAt] |= unknownTag
			clear(content)
		}
	}
}

// readBlank zeroes what the window holds of a field that is too long to be looked at.
func (w *FetchWalker) readBlank(c *cursor) {
	if w.blank == 0 {
		w.at = atTag
		return
	}
	if c.pos == len(c.b) {
		c.need = c.pos + 1
		return
	}
	n := min(w.blank, len(c.b)-c.pos)
	clear(c.take(n))
	w.blank -= n
}

// rewriteEndpoints writes our addresses over an array of endpoints {id, host, port, rack, tagged fields}. What our form of it
// is shorter than the broker's goes behind the last endpoint as an unknown tagged field (2 bytes and up) or, when it is a
// single byte, into a longer varint of its host's length. fits is false when our form is longer or there is no place for
// the padding; ok is false when content is not what it should be. content changes only if both are true.
func (w *FetchWalker) rewriteEndpoints(content []byte) (fits, ok bool) {
	c := cursor{b: content, flexible: true}
	endpoints := c.nullableArray(4 + 1 + 4 + 1 + 1)
	out := append(w.scratch[:0], content[:c.pos]...)
	var last struct{ host, hostLen, tags, tagCount, lastTag int } // the last endpoint, as offsets in out
	for i := 0; i < endpoints && c.ok(); i++ {
		id, upstreamHost, upstreamPort := c.int32(), c.string(), c.int32()
		rackAt := c.pos
		c.nullableString()
		tagsAt := c.pos
		last.tagCount, last.lastTag = c.uvarint(), -1
		for n := last.tagCount; n > 0 && c.ok(); n-- {
			last.lastTag = c.uvarint()
			c.take(c.uvarint())
		}
		if !c.ok() {
			break
		}
		host, port := w.a.rewrite(id, string(upstreamHost), upstreamPort)
		out = kbin.AppendInt32(out, id)
		last.host, last.hostLen = len(out), len(host)
		out = kbin.AppendCompactString(out, host)
		out = kbin.AppendInt32(out, port)
		last.tags = len(out) + tagsAt - rackAt
		out = append(out, content[rackAt:c.pos]...)
	}
	w.scratch = out
	if c.whole("node endpoints") != nil {
		return false, false
	}
	pad := len(content) - len(out)
	switch {
	case pad == 0:
	case pad < 0 || endpoints == 0:
		return false, true
	case pad == 1:
		out = insertByte(out, last.host)
		wide := kbin.UvarintLen(uint32(last.hostLen+1)) + 1
		putUvarintWide(out[last.host:last.host+wide], last.hostLen+1)
	default:
		if last.lastTag >= unknownTag || last.tagCount >= unknownTag-1 || out[last.tags] != byte(last.tagCount) {
			return false, true
		}
		out[last.tags]++ // one byte before and after
		out = append(out, unknownTag)
		if size := pad - 2; size <= 0x7f {
			out = append(out, byte(size))
		} else {
			out = append(out, 0, 0)
			putUvarintWide(out[len(out)-2:], pad-3)
		}
		for len(out) < len(content) {
			out = append(out, 0)
		}
	}
	w.scratch = out
	copy(content, out)
	return true, true
}

// insertByte makes room for one byte at offset at.
func insertByte(b []byte, at int) []byte {
	b = append(b, 0)
	copy(b[at+1:], b[at:])
	return b
}

// putUvarintWide fills all of b with v, as a varint that may be longer than it must be. All Kafka clients read those: they
// go on to the first byte without the high bit.
func putUvarintWide(b []byte, v int) {
	for i := range b {
		b[i] = byte(v&0x7f) | 0x80
		v >>= 7
	}
	b[len(b)-1] &= 0x7f
}
