package batch

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Positions in an LZ4 frame: magic number, flags, block sizes, the content's size when a flag says so, checksum.
const (
	posLz4Flags = 4
	posLz4Size  = 6
	lz4SizeLen  = 8
	lz4FlagSize = 1 << 3
)

// mendLz4 returns an LZ4 frame of a magic 0 message with the right header checksum. Producers of magic 0 take the magic
// number into it, which the format does not, and readers do not look at it (KAFKA-3160). What is no frame comes back as it
// is, for the reader to refuse.
func mendLz4(frame []byte) []byte {
	at := posLz4Size
	if len(frame) > posLz4Flags && frame[posLz4Flags]&lz4FlagSize != 0 {
		at += lz4SizeLen
	}
	if len(frame) <= at {
		return frame
	}
	right := byte(xxh32Short(frame[posLz4Flags:at]) >> 8)
	if frame[at] == right {
		return frame
	}
	mended := slices.Clone(frame)
	mended[at] = right
	return mended
}

// xxh32Short is the 32 bit xxHash, seed 0, of less than 16 bytes.
func xxh32Short(in []byte) uint32 {
	const (
		prime1 = 2654435761
		prime2 = 2246822519
		prime3 = 3266489917
		prime4 = 668265263
		prime5 = 374761393
	)
	h := uint32(prime5) + uint32(len(in))
	for ; len(in) >= 4; in = in[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(in)*prime3, 17) * prime4
	}
	for _, b := range in {
		h = bits.RotateLeft32(h+uint32(b)*prime5, 11) * prime1
	}
	h = (h ^ h>>15) * prime2
	h = (h ^ h>>13) * prime3
	return h ^ h>>16
}
