package batch

import (
	"bytes"
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"
)

// recompute is the oracle of every patch.
func recompute(b []byte) uint32 {
	return crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli))
}

func TestSetProducerIsWhatARecomputeGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), HeaderLen, 3000).Draw(t, "batch")
		damage := rapid.SampledFrom([]uint32{0, 0, 1, 0x80000000}).Draw(t, "damage")
		putCRC(b, recompute(b)^damage)
		before := bytes.Clone(b)

		id, epoch, sequence := rapid.Int64().Draw(t, "id"), rapid.Int16().Draw(t, "epoch"), rapid.Int32().Draw(t, "sequence")
		SetProducer(b, id, epoch, sequence)
		v := Batch(b)
		if v.ProducerID() != id || v.ProducerEpoch() != epoch || v.BaseSequence() != sequence || v.BaseOffset() != 0 || v.LeaderEpoch() != -1 {
			t.Fatalf("header is %+v", headerOf(v))
		}
		if got, want := v.CRC(), recompute(b)^damage; got != want {
			t.Fatalf("CRC %08x, want %08x: damage must stay visible", got, want)
		}
		for i := range b {
			rewritten := i < 8 || 12 <= i && i < 16 || 17 <= i && i < 21 || 43 <= i && i < 57
			if !rewritten && b[i] != before[i] {
				t.Fatalf("byte %d was changed", i)
			}
		}
	})
}

func TestPatchCRCOfAnySpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 1, 2000).Draw(t, "message")
		from := rapid.IntRange(0, len(b)).Draw(t, "from")
		to := rapid.IntRange(from, len(b)).Draw(t, "to")
		replacement := rapid.SliceOfN(rapid.Byte(), to-from, to-from).Draw(t, "replacement")
		table := crc32.MakeTable(crc32.Castagnoli)
		old := crc32.Checksum(b, table)
		got := patchCRC(old, b[from:to], replacement, len(b)-to)
		copy(b[from:], replacement)
		if want := crc32.Checksum(b, table); got != want {
			t.Fatalf("CRC %08x, want %08x", got, want)
		}
	})
}

func TestPatchCRCWithALongTail(t *testing.T) {
	table := crc32.MakeTable(crc32.Castagnoli)
	b := make([]byte, 33<<20+5)
	old := crc32.Checksum(b, table)
	replacement := []byte("changed")
	got := patchCRC(old, b[3:10], replacement, len(b)-10)
	copy(b[3:], replacement)
	if want := crc32.Checksum(b, table); got != want {
		t.Fatalf("CRC %08x, want %08x", got, want)
	}
}

// TestSquares checks the constants: each is the square of the one before, and
// the first is that of the last.
func TestSquares(t *testing.T) {
	for i, s := range squares {
		if next := squares[(i+1)%len(squares)]; mulmod(s, s) != next {
			t.Errorf("x^(2^%d) is not the square of the one before", i+1)
		}
	}
	if squares[0] != 1<<30 {
		t.Errorf("x^1 is %08x", squares[0])
	}
}

func TestClearTransactional(t *testing.T) {
	s := spec{base: 7, codec: CodecLz4, attributes: attrTransactional, producerID: 4, records: dense(7, 4)}
	b := s.encode(t)
	s.attributes = 0
	want := s.encode(t)
	ClearTransactional(b)
	if !bytes.Equal(b, want) {
		t.Errorf("got\n%x, want\n%x", b, want)
	}
	ClearTransactional(b)
	if !bytes.Equal(b, want) {
		t.Error("clearing twice changes the batch")
	}
}

func TestPatchAllocatesNothing(t *testing.T) {
	b := spec{base: 7, attributes: attrTransactional, records: dense(7, 4)}.encode(t)
	if n := testing.AllocsPerRun(100, func() {
		SetProducer(b, 1<<60, 0, 12)
		ClearTransactional(b)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func putCRC(b []byte, crc uint32) {
	b[17], b[18], b[19], b[20] = byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
}
