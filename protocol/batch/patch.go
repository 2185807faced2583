package batch

import (
	"encoding/binary"
	"hash/crc32"
)

// castagnoli is the table of CRC-32C, shared with and kept by hash/crc32.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SetProducer rewrites a magic 2 batch in place for Produce by another
// producer: producer id, epoch and base sequence, base offset 0 and leader
// epoch -1, as a stock broker asks. The CRC is patched from the difference of
// the 14 bytes, never computed anew: a batch that was damaged on its way stays
// detectable for the broker that stores it. b holds at least a whole header.
func SetProducer(b []byte, producerID int64, epoch int16, baseSequence int32) {
	var fields [posCount - posProducerID]byte
	binary.BigEndian.PutUint64(fields[0:], uint64(producerID))
	binary.BigEndian.PutUint16(fields[8:], uint16(epoch))
	binary.BigEndian.PutUint32(fields[10:], uint32(baseSequence))
	patchSpan(b, posProducerID, fields[:])
	SetBaseOffset(b, 0)
	SetLeaderEpoch(b, -1)
}

// SetBaseOffset moves the batch to another offset. The CRC does not cover it.
func SetBaseOffset(b []byte, offset int64) {
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(offset))
}

// SetLeaderEpoch rewrites the leader epoch. The CRC does not cover it.
func SetLeaderEpoch(b []byte, epoch int32) {
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(epoch))
}

// ClearTransactional turns a batch of a committed transaction into an ordinary
// one, in place, by clearing its transactional bit and patching the CRC.
func ClearTransactional(b []byte) {
	setAttributes(b, Batch(b).Attributes()&^attrTransactional)
}

func setAttributes(b []byte, attributes int16) {
	var field [2]byte
	binary.BigEndian.PutUint16(field[:], uint16(attributes))
	patchSpan(b, posAttributes, field[:])
}

// patchSpan overwrites b[pos:pos+len(replacement)], which the CRC covers, and
// patches the CRC.
func patchSpan(b []byte, pos int, replacement []byte) {
	end := pos + len(replacement)
	crc := patchCRC(Batch(b).CRC(), b[pos:end], replacement, len(b)-end)
	copy(b[pos:], replacement)
	binary.BigEndian.PutUint32(b[posCRC:], crc)
}

// patchCRC returns the CRC-32C of a message of which one span changes from old
// to replacement (of equal length) and which ends tail bytes after the span.
// CRC is linear over GF(2): crc(a) xor crc(b) is the raw CRC (initial value 0,
// no final xor) of a xor b, for which the equal bytes before the span count
// nothing and the ones after it only shift.
func patchCRC(crc uint32, old, replacement []byte, tail int) uint32 {
	var raw uint32
	for i, o := range old {
		raw = castagnoli[byte(raw)^o^replacement[i]] ^ raw>>8
	}
	return crc ^ shift(raw, tail)
}

// mulmod multiplies two polynomials modulo the Castagnoli polynomial, all in
// the reflected representation (the highest bit is x^0).
func mulmod(a, b uint32) uint32 {
	var p uint32
	for ; a != 0; a <<= 1 {
		p ^= b & -(a >> 31)
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return p
}

// zeros is what a short tail counts for.
var zeros [1 << 10]byte

// shift advances a raw CRC over tail bytes, which multiplies it by x^(8*tail):
// the part below 1 KiB is a CRC of zeros by the CPU, cheaper there than the
// multiplications by powers of x that make up the rest.
func shift(raw uint32, tail int) uint32 {
	raw = ^crc32.Update(^raw, castagnoli, zeros[:tail%len(zeros)])
	tail /= len(zeros)
	for k := 3 + 10; tail != 0; k++ { // 2^3 bits a byte, 2^10 bytes of zeros
		if tail&1 != 0 {
			raw = mulmod(raw, squares[k%len(squares)])
		}
		tail >>= 1
	}
	return raw
}

// squares[k] is x^(2^k). The order of x divides 2^31-1, so k wraps at 31.
var squares = [31]uint32{
	0x40000000, 0x20000000, 0x08000000, 0x00800000, 0x00008000, 0x82f63b78,
	0x6ea2d55c, 0x18b8ea18, 0x510ac59a, 0xb82be955, 0xb8fdb1e7, 0x88e56f72,
	0x74c360a4, 0xe4172b16, 0x0d65762a, 0x35d73a62, 0x28461564, 0xbf455269,
	0xe2ea32dc, 0xfe7740e6, 0xf946610b, 0x3c204f8f, 0x538586e3, 0x59726915,
	0x734d5309, 0xbc1ac763, 0x7d0722cc, 0xd289cabe, 0xe94ca9bc, 0x05b74f3f,
	0xa51e1f42,
}
