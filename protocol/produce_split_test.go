package protocol

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerProduce is a broker: every partition gets its code from code, ordinary ones an offset.
func answerProduce(request *kmsg.ProduceRequest, code func(topic kmsg.ProduceRequestTopic) (int16, string)) *kmsg.ProduceResponse {
	answer := kmsg.NewPtrProduceResponse()
	answer.Version = request.Version
	for _, topic := range request.Topics {
		rows := kmsg.NewProduceResponseTopic()
		rows.Topic, rows.TopicID = topic.Topic, topic.TopicID
		errorCode, message := code(topic)
		for _, p := range topic.Partitions {
			row := kmsg.NewProduceResponseTopicPartition()
			row.Partition, row.ErrorCode = p.Partition, errorCode
			if row.BaseOffset = int64(len(p.Records)); errorCode != 0 {
				row.BaseOffset, row.ErrorMessage = -1, &message
			}
			rows.Partitions = append(rows.Partitions, row)
		}
		answer.Topics = append(answer.Topics, rows)
	}
	return answer
}

func mirroredTopic(topic kmsg.ProduceRequestTopic) bool {
	return topic.TopicID[15]%2 == 1 || topic.TopicID == [16]byte{} && len(topic.Topic)%2 == 1
}

// sortedProduce brings an answer into one order, whoever made it, and joins what is about the same topic.
func sortedProduce(r *kmsg.ProduceResponse) []byte {
	slices.SortStableFunc(r.Topics, func(a, b kmsg.ProduceResponseTopic) int {
		if n := bytes.Compare([]byte(a.Topic), []byte(b.Topic)); n != 0 {
			return n
		}
		return bytes.Compare(a.TopicID[:], b.TopicID[:])
	})
	for i := 1; i < len(r.Topics); i++ {
		if a, b := &r.Topics[i-1], r.Topics[i]; a.Topic == b.Topic && a.TopicID == b.TopicID {
			a.Partitions = append(a.Partitions, b.Partitions...)
			r.Topics = slices.Delete(r.Topics, i, i+1)
			i--
		}
	}
	return r.AppendTo(nil)
}

// What a client gets from a broker behind the proxy must be what it would get from one broker that knows of mirrors.
func TestProduceSplitAndMergeIsWhatOneBrokerWouldAnswer(t *testing.T) {
	const message = "Topic orders is read-only: it is mirrored by mirror dr."
	code := func(topic kmsg.ProduceRequestTopic) (int16, string) {
		if mirroredTopic(topic) {
			return CodeReadOnlyTopic, message
		}
		return CodeNone, ""
	}
	outcomes := map[string]int{}
	everyVersion(t, KeyProduce, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomProduce(r, version)
		m.Topics = slices.DeleteFunc(m.Topics, func(topic kmsg.ProduceRequestTopic) bool { return len(topic.Partitions) == 0 })
		body := m.AppendTo(nil)
		before := bytes.Clone(body)
		m = reread(t, version, body, kmsg.NewPtrProduceRequest())
		want := sortedProduce(reread(t, version, answerProduce(m, code).AppendTo(nil), kmsg.NewPtrProduceResponse()))

		remainder, refused, err := SplitProduce(version, body, func(topic TopicRef) (int16, string, bool) {
			c, text := code(kmsg.ProduceRequestTopic{Topic: string(topic.Name), TopicID: topic.ID})
			return c, text, c != CodeNone
		})
		if err != nil {
			t.Fatal(err)
		}
		var answer []byte
		switch {
		case remainder == nil:
			outcomes["refused"]++
			answer = AppendProduceRefusal(nil, version, refused)
		case refused == nil:
			outcomes["relayed"]++
			if &remainder[0] != &body[0] || len(remainder) != len(body) {
				t.Fatal("nothing refused, but the body is another one")
			}
			return
		default:
			outcomes["split"]++
			left := reread(t, version, remainder, kmsg.NewPtrProduceRequest())
			if slices.ContainsFunc(left.Topics, mirroredTopic) {
				t.Fatal("a mirrored topic goes upstream")
			}
			kept := *m
			kept.Topics = slices.DeleteFunc(slices.Clone(m.Topics), mirroredTopic)
			if !bytes.Equal(kept.AppendTo(nil), remainder) {
				t.Fatal("the remainder is not the request without the refused topics")
			}
			if answer, err = MergeProduce(version, answerProduce(left, code).AppendTo(nil), refused); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(body, before) {
			t.Fatal("the request was changed")
		}
		clear(body) // the refused partitions must not live in the request's memory
		if remainder == nil && !bytes.Equal(answer, AppendProduceRefusal(nil, version, refused)) {
			t.Fatal("refusals share memory with the request")
		}
		if got := sortedProduce(reread(t, version, answer, kmsg.NewPtrProduceResponse())); !bytes.Equal(got, want) {
			t.Fatalf("% x\nwant\n% x", got, want)
		}
	})
	for _, outcome := range []string{"refused", "relayed", "split"} {
		if outcomes[outcome] < 20 {
			t.Errorf("%s only %d times", outcome, outcomes[outcome])
		}
	}
}

// A merge keeps what the broker says beside the partitions: leaders, endpoints, throttle time, tags.
func TestMergeProduceKeepsTheAnswer(t *testing.T) {
	everyVersion(t, KeyProduce, func(t *testing.T, version int16, r *rand.Rand) {
		body := randomize(r, version, kmsg.NewPtrProduceResponse()).AppendTo(nil)
		refused := []RefusedPartition{{TopicRef{Name: []byte("mirrored")}, 3, CodeReadOnlyTopic, "no"}}
		merged, err := MergeProduce(version, body, refused)
		if err != nil {
			t.Fatal(err)
		}
		m := reread(t, version, merged, kmsg.NewPtrProduceResponse())
		last := m.Topics[len(m.Topics)-1].Partitions
		if len(last) != 1 || last[0].Partition != 3 || last[0].ErrorCode != 134 || last[0].BaseOffset != -1 {
			t.Fatalf("%+v", last)
		}
		if withText := version >= 8; withText != (last[0].ErrorMessage != nil) {
			t.Fatalf("v%d message: %v", version, last[0].ErrorMessage)
		}
		m.Topics = m.Topics[:len(m.Topics)-1]
		if !bytes.Equal(m.AppendTo(nil), body) {
			t.Fatal("the rest of the answer changed")
		}
	})
}
