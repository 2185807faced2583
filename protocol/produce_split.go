package protocol

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// RefusedPartition is one partition that was taken out of a request, and why. It shares no memory with the request.
type RefusedPartition struct {
	Topic     TopicRef
	Partition int32
	Code      int16
	Message   string
}

// RefuseTopic is a verdict about one topic of a request. t is valid for the call only.
type RefuseTopic = func(t TopicRef) (code int16, message string, refused bool)

// SplitProduce takes the topics that refuse refuses out of a Produce request. remainder is nil when nothing is left, and
// body itself when nothing was refused. refuse is asked once per topic entry; its TopicRef is valid for that call only.
func SplitProduce(version int16, body []byte, refuse RefuseTopic) (remainder []byte, refused []RefusedPartition, err error) {
	c, err := produceCursor(version, body)
	if err != nil {
		return nil, nil, err
	}
	c.produceHead()
	headEnd := c.pos
	topics := c.array(2)
	kept, keptTopics, keptFrom := []byte(nil), 0, c.pos
	for i := 0; i < topics && c.ok(); i++ {
		start := c.pos
		t := c.topic(produceByID(version))
		if !c.ok() {
			break
		}
		code, message, no := refuse(t)
		if no {
			kept = append(kept, body[keptFrom:start]...)
			t.Name = bytes.Clone(t.Name)
		} else {
			keptTopics++
		}
		for partitions := c.array(5); partitions > 0 && c.ok(); partitions-- {
			partition := c.int32()
			c.nullableBytes()
			c.tags()
			if no && c.ok() {
				refused = append(refused, RefusedPartition{Topic: t, Partition: partition, Code: code, Message: message})
			}
		}
		c.tags()
		if no {
			keptFrom = c.pos
		}
	}
	c.tags()
	if err := c.whole("Produce request"); err != nil {
		return nil, nil, err
	}
	switch {
	case keptTopics == topics:
		return body, nil, nil
	case keptTopics == 0:
		return nil, refused, nil
	}
	remainder = make([]byte, 0, headEnd+5+len(kept)+len(body)-keptFrom)
	remainder = append(remainder, body[:headEnd]...)
	remainder = appendArrayLen(remainder, keptTopics, c.flexible)
	remainder = append(remainder, kept...)
	return append(remainder, body[keptFrom:]...), refused, nil
}

func appendArrayLen(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return kbin.AppendCompactArrayLen(dst, n)
	}
	return kbin.AppendArrayLen(dst, n)
}

// AppendProduceRefusal appends a whole Produce response body that answers only the refused partitions.
func AppendProduceRefusal(dst []byte, version int16, refused []RefusedPartition) []byte {
	r := kmsg.NewPtrProduceResponse()
	r.Version = version
	r.Topics = appendRefusedTopics(nil, refused)
	return r.AppendTo(dst)
}

// MergeProduce adds the refused partitions to the broker's answer to the remainder.
func MergeProduce(version int16, upstreamBody []byte, refused []RefusedPartition) ([]byte, error) {
	r := kmsg.NewPtrProduceResponse()
	if err := decode(version, upstreamBody, r); err != nil {
		return nil, err
	}
	r.Topics = appendRefusedTopics(r.Topics, refused)
	return encode(r, len(upstreamBody)), nil
}

// appendRefusedTopics groups neighbours of the same topic, as SplitProduce leaves them.
func appendRefusedTopics(topics []kmsg.ProduceResponseTopic, refused []RefusedPartition) []kmsg.ProduceResponseTopic {
	for i, p := range refused {
		if i == 0 || !sameTopic(p.Topic, refused[i-1].Topic) {
			t := kmsg.NewProduceResponseTopic()
			t.Topic, t.TopicID = string(p.Topic.Name), p.Topic.ID
			topics = append(topics, t)
		}
		row := kmsg.NewProduceResponseTopicPartition()
		row.Partition, row.ErrorCode, row.BaseOffset = p.Partition, p.Code, -1
		if p.Message != "" {
			row.ErrorMessage = &refused[i].Message
		}
		t := &topics[len(topics)-1]
		t.Partitions = append(t.Partitions, row)
	}
	return topics
}

func sameTopic(a, b TopicRef) bool {
	return a.ByID == b.ByID && a.ID == b.ID && bytes.Equal(a.Name, b.Name)
}
