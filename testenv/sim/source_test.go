package sim

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fate is what became of an offset of the source.
type fate int8

const (
	kept      fate = iota
	compacted      // by the cleaner
	deleted        // below the log start, by retention or DeleteRecords
)

// entry is what the source holds, or held, at an offset of its present history.
type entry struct {
	text string       // of the record; "" for a marker
	txn  *transaction // nil: of none
	fate fate
}

// committed says that a READ_COMMITTED consumer is shown the entry as long as it is kept.
func (e *entry) committed() bool {
	return e.text != "" && (e.txn == nil || e.txn.last >= 0 && !e.txn.aborted)
}

type transaction struct {
	producer    int64
	first, last int64 // last: of the marker, -1 while open
	aborted     bool
	unlisted    bool // the cleaner has removed all of it
	reopened    bool // an unclean election has lost its marker
}

type sourceRecord struct {
	offset, timestampMs int64
	key, value          []byte
}

// sourceBatch is what a stored batch is made of, so that the cleaner can make it anew.
type sourceBatch struct {
	base, last int64
	epoch      int32
	producer   int64 // -1: none
	sequence   int32
	txn        *transaction
	control    bool
	gzip       bool
	baseMs     int64
	records    []sourceRecord
}

// source is a partition of the source cluster, and the history that its copy is judged by.
type source struct {
	partitionLog
	random    *rand.Rand
	made      []sourceBatch // beside batches
	history   map[int64]*entry
	txns      []*transaction
	sequences map[int64]int32
	serial    int
	// rewrittenFrom is the lowest offset from which the source's history was ever rewritten; -1 never.
	rewrittenFrom int64
	records       int
}

func newSource(random *rand.Rand, start int64) *source {
	return &source{partitionLog: newLog(start), random: random, history: map[int64]*entry{}, sequences: map[int64]int32{}, rewrittenFrom: -1}
}

// stable is the last stable offset.
func (s *source) stable() int64 {
	stable := s.hw
	for _, t := range s.txns {
		if t.last < 0 {
			stable = min(stable, t.first)
		}
	}
	return stable
}

func (s *source) openTransaction(id int64) *transaction {
	for _, t := range s.txns {
		if t.last < 0 && t.producer == id {
			return t
		}
	}
	return nil
}

// aborted is the aborted transactions that touch the offsets from from to below end.
func (s *source) aborted(from, end int64) []kmsg.FetchResponseTopicPartitionAbortedTransaction {
	var list []kmsg.FetchResponseTopicPartitionAbortedTransaction
	for _, t := range s.txns {
		if t.last >= from && t.first < end && t.aborted && !t.unlisted {
			list = append(list, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: t.producer, FirstOffset: t.first})
		}
	}
	return list
}

// append adds a batch of records, in the transaction of a producer (begun where it is not) or in none (producer -1).
func (s *source) append(n int, producer int64, transactional bool, nowMs func() int64) {
	b := sourceBatch{base: s.end, last: s.end + int64(n) - 1, epoch: s.epoch, producer: producer, sequence: -1, gzip: s.random.IntN(6) == 0}
	if producer >= 0 {
		b.sequence = s.sequences[producer]
		s.sequences[producer] += int32(n)
	}
	if transactional {
		if b.txn = s.openTransaction(producer); b.txn == nil {
			b.txn = &transaction{producer: producer, first: b.base, last: -1}
			s.txns = append(s.txns, b.txn)
		}
	}
	for i := range n {
		s.serial++
		r := sourceRecord{offset: b.base + int64(i), timestampMs: nowMs(), key: fmt.Appendf(nil, "k%d", s.random.IntN(8)), value: fmt.Appendf(nil, "v%d", s.serial)}
		switch s.random.IntN(12) {
		case 0:
			r.value = nil
		case 1:
			r.value = append(r.value, make([]byte, s.random.IntN(6000))...)
		}
		if i == 0 {
			b.baseMs = r.timestampMs
		}
		b.records = append(b.records, r)
		s.history[r.offset] = &entry{text: textOf(r.timestampMs, r.key, r.value), txn: b.txn}
	}
	s.records += n
	s.add(b)
}

// endTransaction writes the marker.
func (s *source) endTransaction(t *transaction, abort bool, nowMs int64) {
	t.last, t.aborted = s.end, abort
	b := sourceBatch{base: s.end, last: s.end, epoch: s.epoch, producer: t.producer, sequence: -1, txn: t, control: true, baseMs: nowMs}
	kind := byte(1)
	if abort {
		kind = 0
	}
	b.records = []sourceRecord{{offset: s.end, timestampMs: nowMs, key: []byte{0, 0, 0, kind}, value: make([]byte, 6)}}
	s.history[s.end] = &entry{txn: t}
	s.add(b)
}

// endTransactions ends all that are open.
func (s *source) endTransactions(nowMs int64) {
	for _, t := range s.txns {
		if t.last < 0 {
			s.endTransaction(t, s.random.IntN(2) == 0, nowMs)
		}
	}
}

func (s *source) add(b sourceBatch) {
	s.put(stored{base: b.base, last: b.last, raw: b.encode()})
	s.made = append(s.made, b)
	s.hw = s.end
	s.notify()
}

// compact is a run of the cleaner over a random part of the log: it drops records here and there, all aborted data, and
// batches of which nothing is left, but for some that it keeps without records.
func (s *source) compact() {
	limit := s.start
	if stable := s.stable(); stable > s.start {
		limit += s.random.Int64N(stable - s.start)
	}
	var made []sourceBatch
	var batches []stored
	gone := map[*transaction]bool{}
	for i, b := range s.made {
		if b.last >= limit {
			made, batches = append(made, b), append(batches, s.batches[i])
			continue
		}
		aborted := b.txn != nil && b.txn.aborted
		var left []sourceRecord
		for _, r := range b.records {
			if b.control && !aborted || !b.control && !aborted && s.random.IntN(3) > 0 {
				left = append(left, r)
			} else if e := s.history[r.offset]; e.fate == kept {
				e.fate = compacted
			}
		}
		if aborted {
			gone[b.txn] = true
		}
		if len(left) == 0 && (b.control || s.random.IntN(3) > 0) {
			continue
		}
		changed := len(left) != len(b.records)
		b.records = left
		at := s.batches[i]
		if changed {
			at.raw = b.encode()
		}
		made, batches = append(made, b), append(batches, at)
	}
	for t := range gone { // only when nothing of it is left, or its data without a marker would look committed
		t.unlisted = t.last < limit
	}
	for _, b := range made {
		if b.txn != nil {
			b.txn.unlisted = b.txn.unlisted && !(b.txn.aborted && len(b.records) > 0)
		}
	}
	s.made, s.batches = made, batches
	s.notify()
}

// deleteTo is retention, or DeleteRecords.
func (s *source) deleteTo(offset int64) {
	offset = min(max(offset, s.start), s.hw)
	for ; s.start < offset; s.start++ {
		if e := s.history[s.start]; e != nil && e.fate == kept {
			e.fate = deleted
		}
	}
	i := s.find(s.start)
	s.made, s.batches = s.made[i:], s.batches[i:]
	s.notify()
}

// truncate is an unclean election: the new leader has the log up to an offset only.
func (s *source) truncate(offset int64, leader int32) {
	was := s.end
	s.cut(max(offset, s.start))
	s.made = s.made[:len(s.batches):len(s.batches)]
	if s.end < was && (s.rewrittenFrom < 0 || s.end < s.rewrittenFrom) {
		s.rewrittenFrom = s.end
	}
	for o := s.end; o < was; o++ {
		delete(s.history, o)
	}
	var txns []*transaction
	for _, t := range s.txns {
		if t.first >= s.end {
			continue
		}
		if t.last >= s.end { // it is open again
			t.last, t.aborted, t.reopened = -1, false, true
		}
		txns = append(txns, t)
	}
	s.txns = txns
	s.elect(leader)
}

// textOf is a record in a form that can be compared and read.
func textOf(timestampMs int64, key, value []byte) string {
	out := strconv.AppendInt(nil, timestampMs, 10)
	for _, part := range [][]byte{key, value} {
		switch {
		case part == nil:
			out = append(out, " null"...)
		case len(part) > 40:
			out = fmt.Appendf(append(append(out, ' '), part[:10]...), "... (%d bytes, CRC %x)", len(part), crc32.ChecksumIEEE(part))
		default:
			out = append(append(out, ' '), part...)
		}
	}
	return string(out)
}

var gzips = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode is the batch as a broker stores it (magic 2).
func (b *sourceBatch) encode() []byte {
	var records []byte
	most := b.baseMs
	for _, r := range b.records {
		record := kmsg.Record{OffsetDelta: int32(r.offset - b.base), TimestampDelta64: r.timestampMs - b.baseMs, Key: r.key, Value: r.value}
		size := len(record.AppendTo(nil)) - 1 // Length is 0, in one byte
		record.Length = int32(size)
		records = record.AppendTo(records)
		most = max(most, r.timestampMs)
	}
	attributes := int16(0)
	if b.gzip && !b.control && len(b.records) > 0 {
		var packed bytes.Buffer
		w := gzips.Get().(*gzip.Writer)
		w.Reset(&packed)
		w.Write(records)
		w.Close()
		gzips.Put(w)
		records, attributes = packed.Bytes(), 1
	}
	if b.txn != nil {
		attributes |= 0x10
	}
	if b.control {
		attributes |= 0x20
	}
	epoch := int16(0)
	if b.producer < 0 {
		epoch = -1
	}
	rb := kmsg.RecordBatch{FirstOffset: b.base, PartitionLeaderEpoch: b.epoch, Magic: 2, Attributes: attributes, LastOffsetDelta: int32(b.last - b.base),
		FirstTimestamp: b.baseMs, MaxTimestamp: most, ProducerID: b.producer, ProducerEpoch: epoch, FirstSequence: b.sequence, NumRecords: int32(len(b.records)), Records: records}
	rb.Length = int32(len(rb.AppendTo(nil)) - 12)
	raw := rb.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], castagnoli))
	return raw
}
