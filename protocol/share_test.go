package protocol

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestRefuseShareFetch(t *testing.T) {
	refusals := 0
	everyVersion(t, KeyShareFetch, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrShareFetchRequest())
		named := false
		for i := range m.Topics {
			if r.IntN(3) == 0 {
				m.Topics[i].TopicID, named = [16]byte{9}, true
			}
		}
		body := m.AppendTo(nil)
		isState := func(topic TopicRef) bool { return topic.ByID && policy{}.StateTopicID(topic.ID) }
		answer, err := RefuseShareFetch(version, body, isState)
		if err != nil || (answer != nil) != named {
			t.Fatalf("names it: %v, answer %x, %v", named, answer, err)
		}
		if _, err := RefuseShareFetch(version, body[:r.IntN(len(body))], isState); !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut off: %v", err)
		}
		if !named {
			return
		}
		refusals++
		got := reread(t, version, answer, kmsg.NewPtrShareFetchResponse())
		if len(got.Topics) != len(m.Topics) || got.ErrorCode != 0 {
			t.Fatalf("%+v for %d topics", got, len(m.Topics))
		}
		for i, topic := range got.Topics {
			asked := m.Topics[i]
			if topic.TopicID != asked.TopicID || len(topic.Partitions) != len(asked.Partitions) {
				t.Fatalf("%+v for %+v", topic, asked)
			}
			for j, p := range topic.Partitions {
				want := int16(0)
				if topic.TopicID == [16]byte{9} {
					want = 29
				}
				acknowledged := len(asked.Partitions[j].AcknowledgementBatches) > 0
				if p.Partition != asked.Partitions[j].Partition || p.ErrorCode != want || acknowledged != (p.AcknowledgeErrorCode == 55) {
					t.Fatalf("%+v for %+v", p, asked.Partitions[j])
				}
			}
		}
	})
	if refusals < 10 {
		t.Errorf("only %d refusals", refusals)
	}
}
