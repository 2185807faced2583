package acceptance

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// rawTimeout bounds one read of a connection that ought to be answered or closed.
const rawTimeout = 30 * time.Second

// rawConn is a connection without a client library.
type rawConn struct {
	t *testing.T
	net.Conn
}

// dialRaw connects; the connection ends with the test.
func dialRaw(t *testing.T, addr string) rawConn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, rawTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return rawConn{t, conn}
}

// send writes bytes; a peer that closes meanwhile is no error, the read shows it.
func (c rawConn) send(frame []byte) {
	c.t.Helper()
	_ = c.SetWriteDeadline(time.Now().Add(rawTimeout))
	_, _ = c.Write(frame)
}

// wantClosed wants the peer to close without a byte.
func (c rawConn) wantClosed(what string) {
	c.t.Helper()
	if n, err := c.drain(); n > 0 || !isClosed(err) {
		c.t.Errorf("%s: got %d bytes and then %v, want the connection to be closed without an answer", what, n, err)
	}
}

// drain reads to the end.
func (c rawConn) drain() (int64, error) {
	_ = c.SetReadDeadline(time.Now().Add(rawTimeout))
	n, err := io.Copy(io.Discard, c)
	if err == nil {
		err = io.EOF
	}
	return n, err
}

// isClosed tells the end of a connection from a peer that is silent.
func isClosed(err error) bool {
	var timeout net.Error
	return err != nil && !(errors.As(err, &timeout) && timeout.Timeout())
}

// frameOf is a request with its size and header.
func frameOf(request kmsg.Request, version int16) []byte {
	request.SetVersion(version)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("acceptance")).AppendRequest(nil, request, 1)
}

// versionsWith are the versions of a current client, but for one key.
func versionsWith(key, version int16) *kversion.Versions {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(key, version)
	return versions
}

// batchOf is a record batch of one record.
func batchOf(value string) []byte {
	record := kmsg.Record{Value: []byte(value)}
	record.Length = int32(len(record.AppendTo(nil)) - 1) // without the byte of the length itself, which is 0 still
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		FirstTimestamp: now, MaxTimestamp: now, NumRecords: 1, Records: record.AppendTo(nil)}
	const lengthEnds, crcEnds = 12, 21
	raw := batch.AppendTo(nil)
	batch.Length = int32(len(raw) - lengthEnds)
	batch.CRC = int32(crc32.Checksum(raw[crcEnds:], crc32.MakeTable(crc32.Castagnoli)))
	return batch.AppendTo(nil)
}

// topicAim is partition 0 of a topic as a Produce request names it.
type topicAim struct {
	name string
	id   [16]byte
}

// produceRequest writes one record to each.
func produceRequest(acks int16, aims ...topicAim) *kmsg.ProduceRequest {
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = acks, int32(rawTimeout.Milliseconds())
	for _, aim := range aims {
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic, topic.TopicID = aim.name, aim.id
		partition := kmsg.NewProduceRequestTopicPartition()
		partition.Records = batchOf("raw")
		topic.Partitions = append(topic.Partitions, partition)
		request.Topics = append(request.Topics, topic)
	}
	return request
}

// aimAt learns the id of a topic.
func aimAt(t *testing.T, client *kgo.Client, name string) topicAim {
	t.Helper()
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &name
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(within(t), client)
	if err != nil {
		t.Fatal(err)
	}
	return topicAim{name: name, id: response.Topics[0].TopicID}
}

// header is the size and the header of a request whose body has so many bytes, with a client id of its own.
func header(key, version int16, flexible bool, bodyBytes int) []byte {
	const clientID = "garbage"
	size := 2 + 2 + 4 + 2 + len(clientID) + bodyBytes
	if flexible {
		size++
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(size))
	frame = binary.BigEndian.AppendUint16(frame, uint16(key))
	frame = binary.BigEndian.AppendUint16(frame, uint16(version))
	frame = binary.BigEndian.AppendUint32(frame, 1)
	frame = binary.BigEndian.AppendUint16(frame, uint16(len(clientID)))
	frame = append(frame, clientID...)
	if flexible {
		frame = append(frame, 0)
	}
	return frame
}
