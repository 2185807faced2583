package batch

// The producer ids of mirrors: above every id that a cluster hands out, one for each partition of a mirror. A topic that
// was in several mirrors holds batches of several.
const (
	MirrorProducerBits  = 60
	FirstMirrorProducer = int64(1) << MirrorProducerBits
)

// OfMirror says that a magic 2 batch was written by a mirror.
func OfMirror(b Batch) bool { return b.ProducerID()>>MirrorProducerBits == 1 }

// SequenceOf is the sequence number of a mirror's record at an offset: the offset modulo 2^31, which is how a broker wraps
// sequence numbers.
func SequenceOf(offset int64) int32 { return int32(offset & 0x7fffffff) }
