package batch

import "github.com/twmb/franz-go/pkg/kbin"

// varint is kbin.Varint, with the one and two bytes that lengths and offset deltas mostly have decoded in line: every
// uncompressed record that is mirrored passes here.
func varint(in []byte) (int32, int) {
	if len(in) > 1 {
		first, second := uint32(in[0]), uint32(in[1])
		if first < 0x80 {
			return int32(first>>1) ^ -int32(first&1), 1
		}
		if second < 0x80 {
			u := first&0x7f | second<<7
			return int32(u>>1) ^ -int32(u&1), 2
		}
	}
	return kbin.Varint(in)
}

// varlongLen is the length of a kbin.Varlong, 0 or less when there is none.
func varlongLen(in []byte) int {
	for i := range min(len(in), 4) {
		if in[i] < 0x80 {
			return i + 1
		}
	}
	_, n := kbin.Varlong(in)
	return n
}
