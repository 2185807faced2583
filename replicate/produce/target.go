package produce

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"kafka-mirror-proxy/protocol/batch"
)

// Target is one partition of the destination, and the mirror that writes it.
type Target struct {
	Mirror    string
	Topic     string
	TopicID   [16]byte
	Partition int32
}

// String is "topic-partition", as Kafka writes it.
func (t Target) String() string { return fmt.Sprintf("%s-%d", t.Topic, t.Partition) }

// ProducerID is the id all owners of a mirror partition write with: above 2^60, where no
// cluster ever allocates one, and a function of mirror, topic id and partition, so that every
// owner takes part in the same sequence.
func (t Target) ProducerID() int64 {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(t.Mirror))))
	h.Write([]byte(t.Mirror))
	h.Write(t.TopicID[:])
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(t.Partition)))
	return int64(binary.BigEndian.Uint64(h.Sum(nil))&(uint64(batch.FirstMirrorProducer)-1) | uint64(batch.FirstMirrorProducer))
}
