package protocol

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// policy is an AdminPolicy with one mirrored topic.
type policy struct{}

func (policy) StateTopic(name []byte) bool   { return string(name) == "__mirror_state" }
func (policy) StateTopicID(id [16]byte) bool { return id == [16]byte{9} }
func (policy) MirrorName(topic string) (string, bool) {
	return "dr.paused", topic == "mirrored"
}
func (policy) ReadOnlyTopic(topic string) (string, bool) { return "dr", topic == "mirrored" }
func (policy) OwnedConfig(key string) bool               { return key == "retention.ms" }

// mirrorInfo is the v8 field of one topic: nil for null.
type mirrorInfo *[16]byte

// createTopicsV8 writes a v7 request as v8: it walks kmsg's bytes of each topic alone, so it shares nothing with the product.
func createTopicsV8(m *kmsg.CreateTopicsRequest, infos []mirrorInfo) []byte {
	m.Version = 7
	body := kbin.AppendCompactArrayLen(nil, len(m.Topics))
	for i, topic := range m.Topics {
		tags := topic.UnknownTags
		topic.UnknownTags = kmsg.Tags{}
		single := kmsg.CreateTopicsRequest{Version: 7, Topics: []kmsg.CreateTopicsRequestTopic{topic}}
		b := single.AppendTo(nil)
		b = b[1 : len(b)-6-1] // without the count, the timeout, the flag, the tags of the request and the topic's (none)
		body = append(body, b...)
		if infos[i] == nil {
			body = append(body, 0xff)
		} else {
			body = append(append(append(body, 1), infos[i][:]...), 0)
		}
		body = kbin.AppendUvarint(body, uint32(tags.Len()))
		body = tags.AppendEach(body)
	}
	rest := kmsg.CreateTopicsRequest{Version: 7, TimeoutMillis: m.TimeoutMillis, ValidateOnly: m.ValidateOnly, UnknownTags: m.UnknownTags}
	return append(body, rest.AppendTo(nil)[1:]...)
}

func randomCreate(r *rand.Rand, version int16) *kmsg.CreateTopicsRequest {
	m := randomize(r, version, kmsg.NewPtrCreateTopicsRequest())
	for i := range m.Topics {
		switch r.IntN(6) {
		case 0:
			m.Topics[i].Topic = "__mirror_state"
		case 1:
			m.Topics[i].Topic = "__mirror_state2"
		}
		if r.IntN(12) == 0 {
			m.Topics[i].Configs = append(m.Topics[i].Configs, kmsg.CreateTopicsRequestTopicConfig{Name: "mirror.name"})
		}
	}
	return m
}

// answerCreate is a broker that creates everything.
func answerCreate(version int16, topics []kmsg.CreateTopicsRequestTopic, throttle int32) *kmsg.CreateTopicsResponse {
	answer := kmsg.NewPtrCreateTopicsResponse()
	answer.Version, answer.ThrottleMillis = version, throttle
	for _, topic := range topics {
		row := kmsg.NewCreateTopicsResponseTopic()
		row.Topic, row.TopicID, row.NumPartitions = topic.Topic, [16]byte{5}, topic.NumPartitions
		answer.Topics = append(answer.Topics, row)
	}
	return answer
}

func TestCreateTopicsSplit(t *testing.T) {
	outcomes := map[string]int{}
	for version := int16(0); version <= 8; version++ {
		seeds(t, 150, func(r *rand.Rand) {
			m := randomCreate(r, min(version, 7))
			var body []byte
			infos := make([]mirrorInfo, len(m.Topics))
			mirrored := false
			if version < 8 {
				body = m.AppendTo(nil)
			} else {
				for i := range infos {
					switch r.IntN(6) {
					case 0:
						infos[i] = &[16]byte{1, byte(i)}
						mirrored = mirrored || m.Topics[i].Topic != "__mirror_state"
					case 1, 2, 3:
						infos[i] = new([16]byte) // as Kafka's client writes an ordinary topic
					}
				}
				body = createTopicsV8(m, infos)
			}
			known := min(version, 7)
			m.Version = known
			named := slices.ContainsFunc(m.Topics, func(topic kmsg.CreateTopicsRequestTopic) bool {
				return slices.ContainsFunc(topic.Configs, func(c kmsg.CreateTopicsRequestTopicConfig) bool { return c.Name == "mirror.name" })
			})
			isState := func(topic kmsg.CreateTopicsRequestTopic) bool { return topic.Topic == "__mirror_state" }
			states := slices.ContainsFunc(m.Topics, isState)

			s, err := SplitAdmin(KeyCreateTopics, version, body, policy{})
			if err != nil {
				t.Fatal(err)
			}
			if version < 8 && !named && !states {
				outcomes["unchanged"]++
				if !s.Unchanged() || s.Upstream != nil {
					t.Fatalf("%+v", s)
				}
				return
			}
			kept := slices.DeleteFunc(slices.Clone(m.Topics), isState)
			switch {
			case named:
				outcomes["named"]++
				if s.Upstream != nil || s.Local != nil {
					t.Fatal("something goes on")
				}
				answer, err := s.Merge(nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				got := reread(t, known, answer, kmsg.NewPtrCreateTopicsResponse())
				if len(got.Topics) != len(m.Topics) {
					t.Fatalf("%d rows for %d topics", len(got.Topics), len(m.Topics))
				}
				for i, row := range got.Topics {
					wantRefused(t, version, row, m.Topics[i].Topic, 42, MessageMirrorNameConfig)
				}
				return
			case mirrored:
				outcomes["local"]++
				var keptInfos []mirrorInfo
				for i, topic := range m.Topics {
					if !isState(topic) {
						keptInfos = append(keptInfos, infos[i])
					}
				}
				withoutState := *m
				withoutState.Topics = kept
				if s.Upstream != nil || !bytes.Equal(s.Local, createTopicsV8(&withoutState, keptInfos)) {
					t.Fatal("not the request without the state topic")
				}
			case len(kept) == 0 && states:
				outcomes["refused"]++
				if s.Upstream != nil || s.Local != nil {
					t.Fatal("something goes on")
				}
			default:
				outcomes["upstream"]++
				withoutState := *m
				withoutState.Topics = kept
				if s.UpstreamVersion != known || s.Local != nil || !bytes.Equal(s.Upstream, withoutState.AppendTo(nil)) {
					t.Fatalf("v%d goes upstream as v%d\n% x\nwant\n% x", version, s.UpstreamVersion, s.Upstream, withoutState.AppendTo(nil))
				}
			}
			clear(body) // the session's buffer is long in other use when the answer comes
			part := answerCreate(known, kept, 70).AppendTo(nil)
			var answer []byte
			switch {
			case s.Local != nil:
				answer, err = s.Merge(nil, part)
			case s.Upstream != nil:
				answer, err = s.Merge(part, nil)
			default:
				answer, err = s.Merge(nil, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			got := reread(t, known, answer, kmsg.NewPtrCreateTopicsResponse())
			if len(got.Topics) != len(m.Topics) {
				t.Fatalf("%d rows for %d topics", len(got.Topics), len(m.Topics))
			}
			for i, row := range got.Topics {
				if i < len(kept) {
					if row.Topic != kept[i].Topic || row.ErrorCode != 0 {
						t.Fatalf("row %d: %+v", i, row)
					}
					continue
				}
				wantRefused(t, version, row, "__mirror_state", 29, "__mirror_state belongs to kafka-mirror-proxy.")
			}
			if version >= 2 && len(kept) > 0 && got.ThrottleMillis != 70 {
				t.Fatalf("throttled by %d ms", got.ThrottleMillis)
			}
		})
	}
	for _, outcome := range []string{"unchanged", "named", "local", "refused", "upstream"} {
		if outcomes[outcome] < 10 {
			t.Errorf("%s only %d times", outcome, outcomes[outcome])
		}
	}
}

func wantRefused(t *testing.T, version int16, row kmsg.CreateTopicsResponseTopic, topic string, code int16, message string) {
	t.Helper()
	if row.Topic != topic || row.ErrorCode != code {
		t.Fatalf("%s: %d, want %s: %d", row.Topic, row.ErrorCode, topic, code)
	}
	if version >= 1 && (row.ErrorMessage == nil || *row.ErrorMessage != message) {
		t.Fatalf("%s: message %v", topic, row.ErrorMessage)
	}
}

func TestHostileCreateTopics(t *testing.T) {
	for version := int16(0); version <= 8; version++ {
		seeds(t, 40, func(r *rand.Rand) {
			m := randomCreate(r, min(version, 7))
			body := m.AppendTo(nil)
			if version == 8 {
				body = createTopicsV8(m, make([]mirrorInfo, len(m.Topics)))
			}
			if _, err := SplitAdmin(KeyCreateTopics, version, body[:r.IntN(len(body))], policy{}); !errors.Is(err, ErrMalformed) {
				t.Fatalf("cut off: %v", err)
			}
			if _, err := SplitAdmin(KeyCreateTopics, version, append(body, 0), policy{}); !errors.Is(err, ErrMalformed) {
				t.Fatalf("a byte too many: %v", err)
			}
		})
	}
	for _, version := range []int16{-1, 9} {
		if _, err := SplitAdmin(KeyCreateTopics, version, nil, policy{}); !errors.Is(err, ErrUnsupportedVersion) {
			t.Errorf("v%d: %v", version, err)
		}
	}
}
