package produce

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// writeRecorder is a connection that keeps what is written.
type writeRecorder struct {
	net.Conn
	written bytes.Buffer
}

func (w *writeRecorder) Write(b []byte) (int, error) { return w.written.Write(b) }

// The frame is, byte for byte, what kmsg makes of the same request.
func TestFrameEqualsKmsg(t *testing.T) {
	for version := int16(7); version <= 13; version++ {
		request := kmsg.NewPtrProduceRequest()
		request.Version, request.Acks, request.TimeoutMillis = version, -1, 15_000
		var topics []frameTopic
		var f frame
		for i, name := range []string{"a", "topic", "z"} {
			target := &Target{Topic: name, TopicID: [16]byte{byte(i), 9}}
			topic := kmsg.NewProduceRequestTopic()
			topic.Topic, topic.TopicID = target.Topic, target.TopicID
			own := frameTopic{target: target}
			for p := range int32(i + 1) {
				records := bytes.Repeat([]byte{byte(p + 1)}, 50+100*i*int(p+1))
				partition := kmsg.NewProduceRequestTopicPartition()
				partition.Partition, partition.Records = p, records
				topic.Partitions = append(topic.Partitions, partition)
				own.partitions = append(own.partitions, framePartition{p, records})
			}
			request.Topics = append(request.Topics, topic)
			topics = append(topics, own)
			want := kmsg.NewRequestFormatter(kmsg.FormatterClientID("client")).AppendRequest(nil, request, 77)
			var got writeRecorder
			f.layOut(version, 77, "client", request.Acks, 15*time.Second, topics) // again with the same memory
			if err := f.writeTo(&got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.written.Bytes(), want) {
				t.Errorf("version %d, %d topics:\n%x\nwant\n%x", version, i+1, got.written.Bytes(), want)
			}
		}
	}
}

func TestFrameAllocatesNothing(t *testing.T) {
	target := &Target{Topic: "t"}
	topics := []frameTopic{{target: target, partitions: make([]framePartition, 20)}}
	for i := range topics[0].partitions {
		topics[0].partitions[i] = framePartition{int32(i), make([]byte, 1000)}
	}
	var f frame
	if n := testing.AllocsPerRun(100, func() { f.layOut(13, 1, "client", -1, time.Second, topics) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
