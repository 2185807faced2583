package mirrormsg

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kbin"
)

// maxStringBytes is the longest string the reference's message classes write or accept.
const maxStringBytes = 32767

// minTagBytes is the least a tagged field takes: a byte of tag and a byte of size.
const minTagBytes = 2

// reader decodes one body. The first fault is kept and everything after it reads as zero, so that callers check once, at
// the end, with finish. Strings are copied: nothing decoded refers to the input.
type reader struct {
	kbin.Reader
	err error
}

func newReader(b []byte) *reader { return &reader{Reader: kbin.Reader{Src: b}} }

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	r.Src = nil
}

// ok reports whether decoding may go on; it turns kbin's "ran out of bytes" into this reader's error.
func (r *reader) ok() bool {
	if r.err == nil {
		r.err = r.Complete()
	}
	return r.err == nil
}

// finish returns the first fault, or an error when bytes are left over.
func (r *reader) finish() error {
	if r.ok() && len(r.Src) > 0 {
		r.fail("%d bytes left over", len(r.Src))
	}
	return r.err
}

// nullableStr reads a compact nullable string.
func (r *reader) nullableStr(field string) *string {
	length := r.Uvarint()
	if !r.ok() || length == 0 {
		return nil
	}
	if length-1 > maxStringBytes {
		r.fail("%s: string of %d bytes is longer than %d", field, length-1, maxStringBytes)
		return nil
	}
	s := string(r.Span(int(length - 1)))
	if !r.ok() {
		return nil
	}
	if !utf8.ValidString(s) {
		r.fail("%s: not UTF-8", field)
		return nil
	}
	return &s
}

// str reads a compact string that must not be null.
func (r *reader) str(field string) string {
	s := r.nullableStr(field)
	if s == nil {
		if r.ok() {
			r.fail("%s: null", field)
		}
		return ""
	}
	return *s
}

// count reads the length of a compact array that must not be null and whose elements take at least minBytes each.
func (r *reader) count(field string, minBytes int) int {
	n := r.Uvarint()
	if !r.ok() {
		return 0
	}
	if n == 0 {
		r.fail("%s: null", field)
		return 0
	}
	n--
	if uint64(n)*uint64(minBytes) > uint64(len(r.Src)) {
		r.fail("%s: %d elements do not fit into the %d bytes left", field, n, len(r.Src))
		return 0
	}
	return int(n)
}

// tags reads a tagged-field section. known decodes a tag that it knows from exactly its value's bytes and returns true;
// any other tag is skipped, as Kafka does. Tags must ascend, as the protocol demands, so that none can come twice.
func (r *reader) tags(known func(tag uint32, value *reader) bool) {
	n := r.Uvarint()
	if !r.ok() {
		return
	}
	if uint64(n)*minTagBytes > uint64(len(r.Src)) {
		r.fail("%d tagged fields do not fit into the %d bytes left", n, len(r.Src))
		return
	}
	last := int64(-1)
	for ; n > 0 && r.ok(); n-- {
		tag, size := r.Uvarint(), r.Uvarint()
		if uint64(size) > uint64(len(r.Src)) {
			r.fail("tag %d: %d bytes do not fit into the %d left", tag, size, len(r.Src))
			return
		}
		if int64(tag) <= last {
			r.fail("tag %d comes after tag %d", tag, last)
			return
		}
		last = int64(tag)
		value := newReader(r.Span(int(size)))
		if known == nil || !known(tag, value) {
			continue
		}
		if err := value.finish(); err != nil {
			r.fail("tag %d: %w", tag, err)
		}
	}
}

// skipTags reads a tagged-field section of a structure in which we know no tag.
func (r *reader) skipTags() { r.tags(nil) }

// readArray reads a compact array of elements that take at least minBytes each; an empty one is nil.
func readArray[T any](r *reader, field string, minBytes int, element func(*reader) T) []T {
	n := r.count(field, minBytes)
	if n == 0 {
		return nil
	}
	out := make([]T, 0, n)
	for ; n > 0 && r.ok(); n-- {
		out = append(out, element(r))
	}
	return out
}

func readStrings(r *reader, field string) []string {
	return readArray(r, field, 1, func(r *reader) string { return r.str(field) })
}

// decode runs read over the whole of b and says which message failed.
func decode(message string, b []byte, read func(*reader)) error {
	r := newReader(b)
	read(r)
	if err := r.finish(); err != nil {
		return fmt.Errorf("read %s: %w: %w", message, ErrMalformed, err)
	}
	return nil
}

// ErrMalformed is wrapped by every decoding error of this package: the bytes are not the message they claim to be.
var ErrMalformed = errors.New("malformed message")

func appendArray[T any](b []byte, elements []T, element func([]byte, *T) []byte) []byte {
	b = kbin.AppendCompactArrayLen(b, len(elements))
	for i := range elements {
		b = element(b, &elements[i])
	}
	return b
}

func appendStrings(b []byte, ss []string) []byte {
	return appendArray(b, ss, func(b []byte, s *string) []byte { return kbin.AppendCompactString(b, *s) })
}

// appendText appends free text (error messages). Text may hold anything, and one that clients cannot decode would make the
// whole answer unreadable: it is made valid UTF-8 and cut to the longest string the protocol allows.
func appendText(b []byte, s string) []byte { return kbin.AppendCompactString(b, legalText(s)) }

func appendNullableText(b []byte, s *string) []byte {
	if s == nil {
		return kbin.AppendCompactNullableString(b, nil)
	}
	return appendText(b, *s)
}

func legalText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxStringBytes {
		return s
	}
	cut := maxStringBytes
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// appendNoTags ends a structure that has no tagged fields.
func appendNoTags(b []byte) []byte { return append(b, 0) }

// appendTag appends one tagged field; the caller has written the count and keeps the tags ascending.
func appendTag(b []byte, tag uint32, value []byte) []byte {
	b = kbin.AppendUvarint(b, tag)
	b = kbin.AppendUvarint(b, uint32(len(value)))
	return append(b, value...)
}
