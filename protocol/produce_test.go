package protocol

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func randomProduce(r *rand.Rand, version int16) *kmsg.ProduceRequest {
	m := randomize(r, version, kmsg.NewPtrProduceRequest())
	for _, topic := range m.Topics {
		for i := range topic.Partitions {
			switch r.IntN(4) {
			case 0:
				topic.Partitions[i].Records = nil
			case 1:
				topic.Partitions[i].Records = make([]byte, r.IntN(40000))
			}
		}
	}
	return m
}

func TestPeekProduceAgreesWithKmsg(t *testing.T) {
	everyVersion(t, KeyProduce, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomProduce(r, version)
		body := m.AppendTo(nil)
		m = reread(t, version, body, kmsg.NewPtrProduceRequest())
		for shown := 0; ; {
			p, need, err := PeekProduce(version, body[:shown])
			if err != nil {
				t.Fatal(err)
			}
			if need > 0 {
				if need <= shown || need > len(body) {
					t.Fatalf("shown %d of %d, needs %d", shown, len(body), need)
				}
				shown = need
				continue
			}
			if p.Acks != m.Acks || p.Transactional != (m.TransactionID != nil) || p.Topics != len(m.Topics) {
				t.Fatalf("%+v", p)
			}
			if len(m.Topics) > 0 && (string(p.First.Name) != m.Topics[0].Topic || p.First.ID != m.Topics[0].TopicID || p.First.ByID != (version >= 13)) {
				t.Fatalf("first topic %+v", p.First)
			}
			break
		}
	})
}

func TestProduceVersionsThatAreNotOffered(t *testing.T) {
	for _, version := range []int16{-1, 0, 1, 2, 14, 100} {
		if _, need, err := PeekProduce(version, []byte{0, 1, 0, 0, 0, 1}); !errors.Is(err, ErrUnsupportedVersion) || need != 0 {
			t.Errorf("peek v%d: %v", version, err)
		}
		if _, _, err := SplitProduce(version, nil, nil); !errors.Is(err, ErrUnsupportedVersion) {
			t.Errorf("split v%d: %v", version, err)
		}
		if _, err := MergeProduce(version, []byte{0, 0, 0, 0}, nil); !errors.Is(err, ErrUnsupportedVersion) {
			t.Errorf("merge v%d: %v", version, err)
		}
	}
}

// A cut or a byte too many is never taken for a whole request, at any place.
func TestSplitProduceWantsTheWholeBody(t *testing.T) {
	everyVersion(t, KeyProduce, func(t *testing.T, version int16, r *rand.Rand) {
		body := randomize(r, version, kmsg.NewPtrProduceRequest()).AppendTo(nil)
		cut := body[:r.IntN(len(body))]
		none := func(TopicRef) (int16, string, bool) { return 0, "", false }
		if _, _, err := SplitProduce(version, cut, none); !errors.Is(err, ErrMalformed) {
			t.Errorf("cut at %d of %d: %v", len(cut), len(body), err)
		}
		if _, _, err := SplitProduce(version, append(bytes.Clone(body), 0), none); !errors.Is(err, ErrMalformed) {
			t.Errorf("a byte too many: %v", err)
		}
	})
}

func TestHostileProduce(t *testing.T) {
	huge := []byte{0xff, 0xff, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, 0, 1, 'a'} // 2^31-1 topics
	if _, _, err := SplitProduce(3, huge, func(TopicRef) (int16, string, bool) { return 0, "", false }); !errors.Is(err, ErrMalformed) {
		t.Errorf("split: %v", err)
	}
	null := []byte{0xff, 0xff, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff}
	if _, _, err := PeekProduce(3, null); !errors.Is(err, ErrMalformed) {
		t.Errorf("null topics: %v", err)
	}
}

func oneTopicProduce(version int16, topic string, partitions int) *kmsg.ProduceRequest {
	m := kmsg.NewPtrProduceRequest()
	m.Version, m.Acks = version, -1
	rows := kmsg.NewProduceRequestTopic()
	rows.Topic, rows.TopicID = topic, [16]byte{1}
	for i := range partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), make([]byte, 1000)
		rows.Partitions = append(rows.Partitions, p)
	}
	m.Topics = append(m.Topics, rows)
	return m
}

func TestProduceIsPeekedWithoutAllocating(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		body := oneTopicProduce(version, "orders", 12).AppendTo(nil)
		n := testing.AllocsPerRun(100, func() {
			if p, _, err := PeekProduce(version, body[:64]); err != nil || p.Topics != 1 {
				t.Fatal(p, err)
			}
		})
		if n != 0 {
			t.Errorf("v%d: %v allocations", version, n)
		}
	}
}
