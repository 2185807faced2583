package proxy

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol"
	"kafka-mirror-proxy/protocol/batch"
)

// sealed is a batch with its length and CRC.
func sealed(b kmsg.RecordBatch) []byte {
	raw := b.AppendTo(nil)
	b.Length = int32(len(raw) - 12)
	b.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

// gapped is a batch of ten offsets from base on, of which compaction has left those of the deltas.
func gapped(base, producerID int64, deltas ...int32) []byte {
	b := kmsg.RecordBatch{FirstOffset: base, Magic: 2, LastOffsetDelta: 9, ProducerID: producerID, NumRecords: int32(len(deltas))}
	for _, delta := range deltas {
		r := kmsg.Record{OffsetDelta: delta, Key: fmt.Appendf(nil, "key %d", delta), Value: []byte("value")}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		b.Records = r.AppendTo(b.Records)
	}
	return sealed(b)
}

// control is a transaction's marker at an offset.
func control(offset, producerID int64) []byte {
	b := kmsg.RecordBatch{FirstOffset: offset, Magic: 2, Attributes: 0x30, ProducerID: producerID, FirstSequence: -1, NumRecords: 1}
	r := kmsg.Record{Key: []byte{0, 0, 0, 1}, Value: make([]byte, 6)}
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	b.Records = r.AppendTo(nil)
	return sealed(b)
}

// oneRemoved is a mirror's batch of offsets base to base+9, of which the sixth is filler.
func oneRemoved(t testing.TB, base int64) []byte {
	t.Helper()
	coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: batch.MinLimitBytes})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := coder.Reencode(nil, gapped(base, 5, 0, 1, 2, 3, 4, 6, 7, 8, 9), batch.ReencodeOptions{FromOffset: base, PreviousTimestampMs: -1, MaxBatchBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	batch.SetProducer(raw, mirrorProducer, 0, 0)
	batch.SetBaseOffset(raw, base)
	if b := batch.Batch(raw); b.Count() != 10 || b.LastOffset() != base+9 {
		t.Fatalf("%d records up to offset %d", b.Count(), b.LastOffset())
	}
	return raw
}

// offsetsOf are the offsets of the records of a record set that a consumer is shown, and the one it goes on at.
func offsetsOf(t testing.TB, records []byte) (offsets []int64, next int64) {
	t.Helper()
	coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: batch.MinLimitBytes})
	if err != nil {
		t.Fatal(err)
	}
	_, err = batch.Each(records, func(b batch.Batch) error {
		next = b.LastOffset() + 1
		if err := batch.Validate(b); err != nil || b.Attributes()&0x20 != 0 { // a control batch
			return err
		}
		return coder.Records(b, func(r *batch.Record) error {
			offsets = append(offsets, r.Offset)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return offsets, next
}

// TestFetchKeepsOffsets: in an answer that is written anew because of filler, the record that is taken out of a batch leaves
// the offsets of the others alone, whatever the base offset; what has nothing to hide is the same to the byte, also a null
// record set.
func TestFetchKeepsOffsets(t *testing.T) {
	const beyond = 1<<31 + 7
	for version := int16(4); version <= 18; version++ {
		for _, base := range []int64{100, beyond, 1<<40 + 3} {
			kept := [][]byte{
				gapped(base, 5, 0, 3, 9), gapped(base, mirrorProducer, 2, 7), control(base, 5), control(base, mirrorProducer),
				dataBatch(base, 10, 5), dataBatch(base, 10, mirrorProducer), {}, nil,
			}
			topic := mirrorTopic.of(version)
			answer := fetchAnswer(version, oneRemoved(t, base), topic)
			first := answer.Topics[0].Partitions[0]
			for i, records := range kept {
				p := first
				p.Partition, p.RecordBatches = int32(1+i), records
				answer.Topics[0].Partitions = append(answer.Topics[0].Partitions, p)
			}
			session := newTestSession(t, mirroredStore(t).View)
			p := newPump(t, session, nil, whole)
			p.requests(requestFrame(1, fetchOf(version, 0, topic)))
			p.answers(answerFrame(1, answer))
			got := partitionsOf(t, version, p.given)
			if len(got) != 1+len(kept) {
				t.Fatalf("v%d: %d partitions", version, len(got))
			}
			want := []int64{base, base + 1, base + 2, base + 3, base + 4, base + 6, base + 7, base + 8, base + 9}
			if offsets, next := offsetsOf(t, got[0].RecordBatches); !slices.Equal(offsets, want) || next != base+10 {
				t.Errorf("v%d, base offset %d: offsets %v, and on at %d", version, base, offsets, next)
			}
			for i, records := range kept {
				if g := got[1+i].RecordBatches; !bytes.Equal(g, records) || (g == nil) != (records == nil) {
					t.Errorf("v%d, base offset %d: record set %d was %x (null: %v), given is %x (null: %v)", version, base, i, records, records == nil, g, g == nil)
				}
			}
			if n := session.metrics.hiddenBatches.Load(); n != 1 {
				t.Errorf("v%d: %d hidden batches are counted, want 1", version, n)
			}
			// And without filler in any of them, the answer is what the broker sent.
			answer.Topics[0].Partitions, answer.Brokers = answer.Topics[0].Partitions[1:], nil
			p.given = nil
			p.requests(requestFrame(2, fetchOf(version, 0, topic)))
			frame := answerFrame(2, answer)
			if p.answers(frame); !bytes.Equal(p.given, frame) {
				t.Errorf("v%d: an answer with nothing to hide was changed", version)
			}
		}
	}
}

// partitionsOf are the partitions of the one topic of the one answer that reached the client.
func partitionsOf(t testing.TB, version int16, stream []byte) []kmsg.FetchResponseTopicPartition {
	t.Helper()
	all := frames(t, stream)
	if len(all) != 1 {
		t.Fatalf("%d answers", len(all))
	}
	offset, _, err := protocol.PeekResponseBody(protocol.KeyFetch, version, all[0][sizeBytes:])
	if err != nil {
		t.Fatal(err)
	}
	response := kmsg.NewPtrFetchResponse()
	response.Version = version
	if err := response.ReadFrom(all[0][sizeBytes+offset:]); err != nil {
		t.Fatal(err)
	}
	return response.Topics[0].Partitions
}
