package produce

import (
	"encoding/binary"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// frame lays a Produce request out around the batches without copying them: small pieces of
// scratch memory alternate with the batches, and one writev sends them all. The bytes are those
// of kmsg's ProduceRequest (versions 7 to 13, no transactional id). Its memory is reused.
type frame struct {
	scratch []byte
	cuts    []cut
	buffers net.Buffers
}

// cut is where a batch goes between scratch bytes.
type cut struct {
	at    int // length of scratch before it
	batch []byte
}

// frameTopic is the partitions of one topic, each with its batch.
type frameTopic struct {
	target     *Target // its topic
	partitions []framePartition
}

type framePartition struct {
	partition int32
	batch     []byte
}

// layOut builds the request.
func (f *frame) layOut(version int16, correlationID int32, clientID string, acks int16, timeout time.Duration, topics []frameTopic) {
	flexible := version >= 9
	out := append(f.scratch[:0], 0, 0, 0, 0) // the size
	f.cuts = f.cuts[:0]
	out = kbin.AppendInt16(out, kmsg.Produce.Int16())
	out = kbin.AppendInt16(out, version)
	out = kbin.AppendInt32(out, correlationID)
	out = kbin.AppendString(out, clientID)
	if flexible {
		out = append(out, 0, 0) // tags of the header; no transactional id
	} else {
		out = kbin.AppendInt16(out, -1)
	}
	out = kbin.AppendInt16(out, acks)
	out = kbin.AppendInt32(out, int32(timeout.Milliseconds()))
	out = appendCount(out, len(topics), flexible)
	size := 0
	for i := range topics {
		t := &topics[i]
		switch {
		case version >= 13:
			out = append(out, t.target.TopicID[:]...)
		case flexible:
			out = kbin.AppendCompactString(out, t.target.Topic)
		default:
			out = kbin.AppendString(out, t.target.Topic)
		}
		out = appendCount(out, len(t.partitions), flexible)
		for _, p := range t.partitions {
			out = kbin.AppendInt32(out, p.partition)
			out = appendCount(out, len(p.batch), flexible)
			f.cuts = append(f.cuts, cut{at: len(out), batch: p.batch})
			size += len(p.batch)
			if flexible {
				out = append(out, 0)
			}
		}
		if flexible {
			out = append(out, 0)
		}
	}
	if flexible {
		out = append(out, 0)
	}
	binary.BigEndian.PutUint32(out, uint32(len(out)-4+size))
	f.scratch = out
}

// appendCount is the length of an array or of bytes.
func appendCount(out []byte, n int, flexible bool) []byte {
	if flexible {
		return kbin.AppendUvarint(out, uint32(n)+1)
	}
	return kbin.AppendInt32(out, int32(n))
}

// writeTo sends the request, and lets go of the batches.
func (f *frame) writeTo(conn net.Conn) error {
	f.buffers = f.buffers[:0]
	from := 0
	for _, c := range f.cuts {
		f.buffers = append(f.buffers, f.scratch[from:c.at], c.batch)
		from = c.at
	}
	f.buffers = append(f.buffers, f.scratch[from:])
	sending := f.buffers // WriteTo consumes its receiver
	_, err := sending.WriteTo(conn)
	clear(f.buffers)
	clear(f.cuts)
	return err
}
