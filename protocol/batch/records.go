package batch

import (
	"iter"

	"github.com/twmb/franz-go/pkg/kbin"
)

// minRecordLen is the least size in bytes of a record with its length: length,
// attributes, timestamp delta, offset delta, null key, null value, no headers.
const minRecordLen = 7

// Record is one record of a batch of any magic. Key, Value and the headers
// alias the bytes they were read from and are good for as long as those.
type Record struct {
	Offset     int64
	Timestamp  int64  // in ms; the append time in a LogAppendTime batch
	Attributes int8   // of the record; no bit has a meaning so far
	Key        []byte // nil is null, empty is not
	Value      []byte // nil is null, empty is not

	headerCount int32
	headers     []byte // as on the wire, behind their count
	wire        []byte // the whole record of magic 2 with its length
}

// HeaderCount is the number of headers.
func (r *Record) HeaderCount() int { return int(r.headerCount) }

// Headers yields key and value of every header in order; a nil value is null.
func (r *Record) Headers() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		in := r.headers
		for range r.headerCount {
			var key, value []byte
			key, in, _ = readBytes(in)
			value, in, _ = readBytes(in)
			if !yield(key, value) {
				return
			}
		}
	}
}

// walk calls fn with each record of a magic 2 batch whose header is valid and
// whose uncompressed records are given. Offset deltas must ascend within the
// batch. The record is reused from call to call.
func walk(b Batch, records []byte, fn func(*Record) error) error {
	var (
		r          Record
		count      = b.Count()
		base       = b.BaseTimestamp()
		appendTime = b.LogAppendTime()
		last       = int32(-1)
	)
	for i := range count {
		body, n := splitRecord(records)
		if n == 0 {
			return corrupt(b, "record %d of %d is cut", i, count)
		}
		offsetDelta, timestampDelta, ok := r.parse(body)
		if !ok {
			return corrupt(b, "record %d of %d cannot be read", i, count)
		}
		if offsetDelta <= last || offsetDelta > b.LastOffsetDelta() {
			return corrupt(b, "record %d of %d has offset delta %d behind %d", i, count, offsetDelta, last)
		}
		last = offsetDelta
		r.wire = records[:n]
		r.Offset = b.BaseOffset() + int64(offsetDelta)
		r.Timestamp = base + timestampDelta
		if appendTime {
			r.Timestamp = b.MaxTimestamp()
		}
		if err := fn(&r); err != nil {
			return err
		}
		records = records[n:]
	}
	if len(records) != 0 {
		return corrupt(b, "%d bytes behind the last of %d records", len(records), count)
	}
	return nil
}

// splitRecord returns the body of the first record and the bytes it takes with
// its length, 0 when there is no whole record.
func splitRecord(in []byte) (body []byte, n int) {
	length, n := varint(in)
	if n <= 0 || length < minRecordLen-1 || int64(length) > int64(len(in)-n) {
		return nil, 0
	}
	return in[n : n+int(length)], n + int(length)
}

// parse reads a record body, which has at least minRecordLen-1 bytes, down to
// its last header; nothing may be left over.
func (r *Record) parse(in []byte) (offsetDelta int32, timestampDelta int64, ok bool) {
	r.Attributes = int8(in[0])
	in = in[1:]
	timestampDelta, n := kbin.Varlong(in)
	if n <= 0 {
		return 0, 0, false
	}
	in = in[n:]
	offsetDelta, n = kbin.Varint(in)
	if n <= 0 {
		return 0, 0, false
	}
	in = in[n:]
	if r.Key, in, ok = readBytes(in); !ok {
		return 0, 0, false
	}
	if r.Value, in, ok = readBytes(in); !ok {
		return 0, 0, false
	}
	r.headerCount, n = kbin.Varint(in)
	if n <= 0 || r.headerCount < 0 || int(r.headerCount) > len(in)-n { // a header takes two bytes or more
		return 0, 0, false
	}
	r.headers = in[n:]
	in = r.headers
	for range r.headerCount {
		var key []byte
		if key, in, ok = readBytes(in); !ok || key == nil {
			return 0, 0, false
		}
		if _, in, ok = readBytes(in); !ok {
			return 0, 0, false
		}
	}
	return offsetDelta, timestampDelta, len(in) == 0
}

// readBytes reads a length and that many bytes; length -1 is null, other
// negative ones are refused. An empty value is not nil.
func readBytes(in []byte) (value, rest []byte, ok bool) {
	length, n := kbin.Varint(in)
	if n <= 0 || length < -1 || int64(length) > int64(len(in)-n) {
		return nil, nil, false
	}
	in = in[n:]
	if length == -1 {
		return nil, in, true
	}
	return in[:length:length], in[length:], true
}

// appendRecord appends a magic 2 record with its length.
func appendRecord(out []byte, r *Record, timestampDelta int64, offsetDelta int32) []byte {
	size := 1 + kbin.VarlongLen(timestampDelta) + kbin.VarintLen(offsetDelta) +
		bytesLen(r.Key) + bytesLen(r.Value) + kbin.VarintLen(r.headerCount) + len(r.headers)
	out = kbin.AppendVarint(out, int32(size))
	out = append(out, byte(r.Attributes))
	out = kbin.AppendVarlong(out, timestampDelta)
	out = kbin.AppendVarint(out, offsetDelta)
	out = kbin.AppendVarintBytes(out, r.Key)
	out = kbin.AppendVarintBytes(out, r.Value)
	out = kbin.AppendVarint(out, r.headerCount)
	return append(out, r.headers...)
}

func bytesLen(v []byte) int {
	if v == nil {
		return 1 // length -1
	}
	return kbin.VarintLen(int32(len(v))) + len(v)
}
