package protocol

import (
	"bytes"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"pgregory.net/rapid"
)

func TestUvarintAgreesWithKbin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 7).Draw(t, "bytes")
		c := cursor{b: b}
		got := c.uvarint()
		want, n := kbin.Uvarint(b)
		switch {
		case n > 0 && want <= 1<<31-1:
			if !c.ok() || got != int(want) || c.pos != n {
				t.Fatalf("% x: %d at %d, kbin %d at %d", b, got, c.pos, want, n)
			}
		case n == 0:
			if c.need != len(b)+1 || c.bad || got != 0 {
				t.Fatalf("% x cut off: %+v", b, c)
			}
		default:
			if !c.bad || got != 0 {
				t.Fatalf("% x too big: %d, %+v", b, got, c)
			}
		}
	})
}

func TestCursorErrorsStick(t *testing.T) {
	c := cursor{b: []byte{0, 9, 1, 2, 3}}
	if s := c.string(); s != nil || c.need != 11 || c.bad {
		t.Fatalf("%q, %+v", s, c)
	}
	before := c
	c.int8()
	c.int16()
	c.int32()
	c.uuid()
	c.uvarint()
	c.string()
	c.nullableBytes()
	c.array(1)
	c.tags()
	c.take(-1)
	if c.pos != before.pos || c.need != before.need || c.bad {
		t.Fatalf("%+v became %+v", before, c)
	}
	if err := c.whole("thing"); !errors.Is(err, ErrMalformed) {
		t.Fatal(err)
	}
}

func TestCursorRefusesWhatCannotBe(t *testing.T) {
	for name, read := range map[string]func(*cursor){
		"null string":          func(c *cursor) { c.b = []byte{0xff, 0xff}; c.string() },
		"compact null string":  func(c *cursor) { c.b, c.flexible = []byte{0}, true; c.string() },
		"string of length -2":  func(c *cursor) { c.b = []byte{0xff, 0xfe}; c.nullableString() },
		"bytes of length -2":   func(c *cursor) { c.b = []byte{0xff, 0xff, 0xff, 0xfe}; c.nullableBytes() },
		"null array":           func(c *cursor) { c.b = []byte{0xff, 0xff, 0xff, 0xff}; c.array(1) },
		"array beyond the end": func(c *cursor) { c.b = []byte{0, 0, 0, 3, 1, 2, 3, 4, 5}; c.array(2) },
		"nullable beyond":      func(c *cursor) { c.b = []byte{0x7f, 0xff, 0xff, 0xff, 1}; c.nullableArray(1) },
		"negative take":        func(c *cursor) { c.take(-1) },
		"varint of six bytes":  func(c *cursor) { c.b = bytes.Repeat([]byte{0x80}, 6); c.uvarint() },
		"varint above an int":  func(c *cursor) { c.b = []byte{0xff, 0xff, 0xff, 0xff, 0x08}; c.uvarint() },
	} {
		var c cursor
		read(&c)
		if !c.bad {
			t.Errorf("%s: %+v", name, c)
		}
		if need, err := c.partial("thing"); need != 0 || !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: need %d, %v", name, need, err)
		}
	}
	left := cursor{b: []byte{0}}
	if err := left.whole("thing"); !errors.Is(err, ErrMalformed) {
		t.Errorf("a byte too many: %v", err)
	}
}
