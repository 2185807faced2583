package protocol

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func isStateTopic(t TopicRef) bool {
	return string(t.Name) == "__mirror_state" || t.ByID && t.ID == [16]byte{9}
}

func TestFetchNamesAgreesWithKmsg(t *testing.T) {
	named := 0
	everyVersion(t, KeyFetch, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrFetchRequest())
		if len(m.Topics) > 0 && r.IntN(2) == 0 {
			topic := &m.Topics[r.IntN(len(m.Topics))]
			topic.Topic, topic.TopicID = "__mirror_state", [16]byte{9}
			named++
		}
		// What a session forgets is not fetched.
		forgotten := kmsg.NewFetchRequestForgottenTopic()
		forgotten.Topic, forgotten.TopicID = "__mirror_state", [16]byte{9}
		m.ForgottenTopics = append(m.ForgottenTopics, forgotten)
		body := m.AppendTo(nil)

		var want, got []TopicRef
		hit := false
		for _, topic := range reread(t, version, body, kmsg.NewPtrFetchRequest()).Topics {
			ref := TopicRef{Name: []byte(topic.Topic), ID: topic.TopicID, ByID: version >= 13}
			want = append(want, ref)
			if hit = isStateTopic(ref); hit {
				break
			}
		}
		found, err := FetchNames(version, body, func(ref TopicRef) bool {
			got = append(got, ref)
			return isStateTopic(ref)
		})
		if err != nil || found != hit || len(got) != len(want) {
			t.Fatalf("%v of %v, %d of %d topics, %v", found, hit, len(got), len(want), err)
		}
		for i := range got {
			if !sameTopic(got[i], want[i]) {
				t.Fatalf("topic %d: %+v, want %+v", i, got[i], want[i])
			}
		}
	})
	if named < 50 {
		t.Errorf("only %d requests name the state topic", named)
	}
}

func TestFetchRefusal(t *testing.T) {
	everyVersion(t, KeyFetch, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrFetchRequest())
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic, topic.TopicID = "__mirror_state", [16]byte{9}
		topic.Partitions = make([]kmsg.FetchRequestTopicPartition, 2)
		topic.Partitions[1].Partition = 4
		m.Topics = append(m.Topics, topic)
		body := m.AppendTo(nil)
		answer, err := AppendFetchRefusal(nil, version, body, isStateTopic)
		if err != nil {
			t.Fatal(err)
		}
		m = reread(t, version, body, kmsg.NewPtrFetchRequest())
		got := reread(t, version, answer, kmsg.NewPtrFetchResponse())
		if got.SessionID != 0 || got.ErrorCode != 0 || len(got.Topics) != len(m.Topics) || len(got.Brokers) != 0 {
			t.Fatalf("%+v", got)
		}
		for i, asked := range m.Topics {
			if got.Topics[i].Topic != asked.Topic || got.Topics[i].TopicID != asked.TopicID || len(got.Topics[i].Partitions) != len(asked.Partitions) {
				t.Fatalf("%+v for %+v", got.Topics[i], asked)
			}
			want := CodeNone
			if i == len(m.Topics)-1 {
				want = CodeTopicAuthorizationFailed
			}
			for j, p := range got.Topics[i].Partitions {
				if p.Partition != asked.Partitions[j].Partition || p.ErrorCode != want || p.RecordBatches == nil || len(p.RecordBatches) > 0 || p.HighWatermark != -1 {
					t.Fatalf("%+v", p)
				}
			}
		}
	})
}

func TestHostileFetchRequests(t *testing.T) {
	everyVersion(t, KeyFetch, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrFetchRequest())
		body := m.AppendTo(nil)
		if _, err := AppendFetchRefusal(nil, version, body[:r.IntN(len(body))], isStateTopic); !errors.Is(err, ErrMalformed) {
			t.Fatalf("refusal of a cut request: %v", err)
		}
		m.Topics, m.ForgottenTopics = nil, nil
		huge := m.AppendTo(nil)[:25]
		for i := 13; i < len(huge); i++ { // the count of topics is somewhere here
			huge[i] = 0x7f
		}
		if _, err := FetchNames(version, huge, isStateTopic); !errors.Is(err, ErrMalformed) {
			t.Fatalf("2^31 topics: %v", err)
		}
	})
	for _, version := range []int16{-1, 3, 19} {
		if _, err := FetchNames(version, nil, isStateTopic); !errors.Is(err, ErrUnsupportedVersion) {
			t.Errorf("v%d: %v", version, err)
		}
	}
}

func TestFetchNamesDoesNotAllocate(t *testing.T) {
	for version := int16(4); version <= 18; version++ {
		m := kmsg.NewPtrFetchRequest()
		m.Version = version
		for range 3 {
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic = "orders"
			topic.Partitions = make([]kmsg.FetchRequestTopicPartition, 4)
			m.Topics = append(m.Topics, topic)
		}
		body := m.AppendTo(nil)
		if n := testing.AllocsPerRun(100, func() {
			if found, err := FetchNames(version, body, isStateTopic); found || err != nil {
				t.Fatal(found, err)
			}
		}); n != 0 {
			t.Errorf("v%d: %v allocations", version, n)
		}
	}
}

func TestFetchRequestFields(t *testing.T) {
	everyVersion(t, KeyFetch, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrFetchRequest())
		m.SessionEpoch = []int32{-1, 0, 1, 77}[r.IntN(4)]
		body := m.AppendTo(nil)
		want := FetchAlone
		if version >= 7 {
			want = map[int32]FetchSession{-1: FetchAlone, 0: FetchFirst, 1: FetchNext, 77: FetchNext}[m.SessionEpoch]
		}
		if got := FetchSessionOf(version, body); got != want {
			t.Fatalf("session epoch %d: %v, want %v", m.SessionEpoch, got, want)
		}
		m.MaxBytes = min(m.MaxBytes, 50)
		LimitFetch(version, body, 50)
		if want == FetchFirst {
			m.SessionEpoch = -1
			DenyFetchSession(version, body)
		}
		if want := m.AppendTo(nil); string(body) != string(want) {
			t.Fatalf("% x\nwant\n% x", body, want)
		}
	})
}
