package protocol

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kbin"
)

// HideRecords appends what a client is to see of a partition's record set in place of records; hidden is false, and nothing
// appended, when that is records as they are. topic is of the answer's body.
type HideRecords func(out []byte, topic TopicRef, partition int32, records []byte) (visible []byte, hidden bool)

// HideInFetch edits the record sets of a whole Fetch answer (v4+): hide is asked for those of topics for which look is true,
// which are not empty. When anything is hidden it returns the new answer appended to prefix, and edited is true; body is
// left as it was. Else edited is false and nothing was copied. It does not allocate then.
func HideInFetch(prefix []byte, version int16, body []byte, look func(TopicRef) bool, hide HideRecords) (answer []byte, edited bool, err error) {
	if err := decodable(KeyFetch, version); err != nil {
		return nil, false, err
	}
	e := recordsEditor{out: prefix, body: body}
	c := cursor{b: body, flexible: Flexible(KeyFetch, version)}
	c.take(4) // throttle
	if version >= 7 {
		c.take(2 + 4) // error, session id
	}
	beforeAborted := 4 + 2 + 8 + 8 // partition, error, high watermark, last stable offset
	if version >= 5 {
		beforeAborted += 8 // log start offset
	}
	for topics := c.array(2); topics > 0 && c.ok(); topics-- {
		t := c.topic(fetchByID(version))
		looked := c.ok() && look(t)
		for partitions := c.array(beforeAborted + 2); partitions > 0 && c.ok(); partitions-- {
			at := c.pos
			c.take(beforeAborted)
			for aborted := c.nullableArray(8 + 8); aborted > 0 && c.ok(); aborted-- {
				c.take(8 + 8) // producer id, first offset
				c.tags()
			}
			if version >= 11 {
				c.take(4) // preferred read replica
			}
			lengthAt := c.pos
			records := c.nullableBytes()
			if looked && len(records) > 0 {
				e.edit(&c, lengthAt, records, t, int32(binary.BigEndian.Uint32(body[at:])), hide)
			}
			c.tags()
		}
		c.tags()
	}
	c.tags()
	if err := c.whole("Fetch answer"); err != nil {
		return nil, false, err
	}
	answer, edited = e.done()
	return answer, edited, nil
}

// recordsEditor copies a body with some of its record sets exchanged. It copies nothing before the first.
type recordsEditor struct {
	out, body []byte
	copied    int // of body
	scratch   []byte
	edited    bool
}

// edit exchanges records, which end where the cursor stands, and their length, when hide wants them to be.
func (e *recordsEditor) edit(c *cursor, lengthAt int, records []byte, t TopicRef, partition int32, hide HideRecords) {
	visible, hidden := hide(e.scratch[:0], t, partition, records)
	e.scratch = visible
	if !hidden {
		return
	}
	e.edited = true
	e.out = append(e.out, e.body[e.copied:lengthAt]...)
	if c.flexible {
		e.out = kbin.AppendCompactBytes(e.out, visible)
	} else {
		e.out = kbin.AppendBytes(e.out, visible)
	}
	e.copied = c.pos
}

func (e *recordsEditor) done() (answer []byte, edited bool) {
	if !e.edited {
		return nil, false
	}
	return append(e.out, e.body[e.copied:]...), true
}
