package protocol

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const stateMessage = "__mirror_state belongs to kafka-mirror-proxy."

// serve plays session and broker: it splits, lets upstream and local answer, and merges. It clears the request first, because
// the session's buffer is long in other use when the answers come.
func serve(t *testing.T, key, version int16, body []byte, upstream, local func(body []byte) []byte) []byte {
	t.Helper()
	original := bytes.Clone(body)
	s, err := SplitAdmin(key, version, body, policy{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Unchanged() {
		if s.Upstream != nil || s.Local != nil {
			t.Fatalf("unchanged, with %+v", s)
		}
		return upstream(original)
	}
	if s.UpstreamVersion != version {
		t.Fatalf("v%d goes upstream as v%d", version, s.UpstreamVersion)
	}
	var upstreamAnswer, localAnswer []byte
	if s.Upstream != nil {
		upstreamAnswer = upstream(bytes.Clone(s.Upstream))
	}
	if s.Local != nil {
		localAnswer = local(bytes.Clone(s.Local))
	}
	clear(body)
	answer, err := s.Merge(upstreamAnswer, localAnswer)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func noLocal(t *testing.T) func([]byte) []byte {
	return func([]byte) []byte { t.Fatal("a local part"); return nil }
}

func stateSometimes(r *rand.Rand, name *string) {
	if r.IntN(3) == 0 {
		*name = "__mirror_state"
	}
}

// changed gives a topic, sometimes, the name of the state topic or of a mirrored one; wantChange is what is answered to a
// change of its records or partitions.
func changed(r *rand.Rand, name *string) {
	if stateSometimes(r, name); r.IntN(3) == 0 {
		*name = "mirrored"
	}
}

func wantChange(topic, what string) (int16, string) {
	switch topic {
	case "__mirror_state":
		return 29, stateMessage
	case "mirrored":
		return 44, "The " + what + " of topic mirrored follow its source while it is mirrored by mirror dr."
	}
	return 0, ""
}

func TestDeleteTopicsOfTheStateTopic(t *testing.T) {
	everyVersion(t, KeyDeleteTopics, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrDeleteTopicsRequest())
		for i := range m.TopicNames {
			stateSometimes(r, &m.TopicNames[i])
		}
		for i := range m.Topics {
			topic := &m.Topics[i]
			switch r.IntN(4) {
			case 0:
				topic.Topic, topic.TopicID = nil, [16]byte{9}
			case 1:
				topic.Topic, topic.TopicID = text("__mirror_state"), [16]byte{}
			}
		}
		body := m.AppendTo(nil)
		m = reread(t, version, body, kmsg.NewPtrDeleteTopicsRequest())
		broker := func(body []byte) []byte {
			request := reread(t, version, body, kmsg.NewPtrDeleteTopicsRequest())
			if request.TimeoutMillis != m.TimeoutMillis {
				t.Fatal("timeout changed")
			}
			answer := kmsg.NewPtrDeleteTopicsResponse()
			answer.Version, answer.ThrottleMillis = version, 3
			for i := range request.TopicNames {
				answer.Topics = append(answer.Topics, kmsg.DeleteTopicsResponseTopic{Topic: &request.TopicNames[i]})
			}
			for _, topic := range request.Topics {
				answer.Topics = append(answer.Topics, kmsg.DeleteTopicsResponseTopic{Topic: topic.Topic, TopicID: topic.TopicID})
			}
			for _, row := range answer.Topics {
				if row.Topic != nil && *row.Topic == "__mirror_state" || row.TopicID == [16]byte{9} {
					t.Fatal("the broker is asked to delete the state topic")
				}
			}
			return answer.AppendTo(nil)
		}
		got := reread(t, version, serve(t, KeyDeleteTopics, version, body, broker, noLocal(t)), kmsg.NewPtrDeleteTopicsResponse())
		if len(got.Topics) != len(m.TopicNames)+len(m.Topics) {
			t.Fatalf("%d rows for %d topics", len(got.Topics), len(m.TopicNames)+len(m.Topics))
		}
		// Every asked topic has its row, refused or not.
		asked := slices.Clone(m.Topics)
		for i := range m.TopicNames {
			asked = append(asked, kmsg.DeleteTopicsRequestTopic{Topic: &m.TopicNames[i]})
		}
		for _, row := range got.Topics {
			at := slices.IndexFunc(asked, func(a kmsg.DeleteTopicsRequestTopic) bool {
				return a.TopicID == row.TopicID && (a.Topic == nil) == (row.Topic == nil) && (a.Topic == nil || *a.Topic == *row.Topic)
			})
			if at < 0 {
				t.Fatalf("a row nobody asked for: %+v", row)
			}
			asked = slices.Delete(asked, at, at+1)
			refused := row.Topic != nil && *row.Topic == "__mirror_state" || row.TopicID == [16]byte{9}
			if refused != (row.ErrorCode == 29) || !refused && row.ErrorCode != 0 {
				t.Fatalf("%+v", row)
			}
			if refused && version >= 5 && (row.ErrorMessage == nil || *row.ErrorMessage != stateMessage) {
				t.Fatalf("message %v", row.ErrorMessage)
			}
		}
	})
}

func TestDeleteRecordsIsRefused(t *testing.T) {
	everyVersion(t, KeyDeleteRecords, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrDeleteRecordsRequest())
		partitions := 0
		for i := range m.Topics {
			changed(r, &m.Topics[i].Topic)
			partitions += len(m.Topics[i].Partitions)
		}
		body := m.AppendTo(nil)
		broker := func(body []byte) []byte {
			answer := kmsg.NewPtrDeleteRecordsResponse()
			answer.Version = version
			for _, topic := range reread(t, version, body, kmsg.NewPtrDeleteRecordsRequest()).Topics {
				if code, _ := wantChange(topic.Topic, "records"); code != 0 {
					t.Fatalf("the broker is asked to delete records of %s", topic.Topic)
				}
				rows := kmsg.DeleteRecordsResponseTopic{Topic: topic.Topic}
				for _, p := range topic.Partitions {
					rows.Partitions = append(rows.Partitions, kmsg.DeleteRecordsResponseTopicPartition{Partition: p.Partition, LowWatermark: p.Offset})
				}
				answer.Topics = append(answer.Topics, rows)
			}
			return answer.AppendTo(nil)
		}
		got := reread(t, version, serve(t, KeyDeleteRecords, version, body, broker, noLocal(t)), kmsg.NewPtrDeleteRecordsResponse())
		if len(got.Topics) != len(m.Topics) {
			t.Fatalf("%d rows for %d topics", len(got.Topics), len(m.Topics))
		}
		for _, topic := range got.Topics {
			for _, p := range topic.Partitions {
				partitions--
				if code, _ := wantChange(topic.Topic, "records"); p.ErrorCode != code || (code != 0) != (p.LowWatermark == -1 && p.ErrorCode != 0) {
					t.Fatalf("%s: %+v", topic.Topic, p)
				}
			}
		}
		if partitions != 0 {
			t.Fatalf("%d partitions have no answer", partitions)
		}
	})
}

func TestCreatePartitionsIsRefused(t *testing.T) {
	everyVersion(t, KeyCreatePartitions, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrCreatePartitionsRequest())
		for i := range m.Topics {
			changed(r, &m.Topics[i].Topic)
		}
		body := m.AppendTo(nil)
		broker := func(body []byte) []byte {
			request := reread(t, version, body, kmsg.NewPtrCreatePartitionsRequest())
			if request.ValidateOnly != m.ValidateOnly {
				t.Fatal("validate-only changed")
			}
			answer := kmsg.NewPtrCreatePartitionsResponse()
			answer.Version = version
			for _, topic := range request.Topics {
				if code, _ := wantChange(topic.Topic, "partitions"); code != 0 {
					t.Fatalf("the broker is asked to grow %s", topic.Topic)
				}
				answer.Topics = append(answer.Topics, kmsg.CreatePartitionsResponseTopic{Topic: topic.Topic})
			}
			return answer.AppendTo(nil)
		}
		got := reread(t, version, serve(t, KeyCreatePartitions, version, body, broker, noLocal(t)), kmsg.NewPtrCreatePartitionsResponse())
		if len(got.Topics) != len(m.Topics) {
			t.Fatalf("%d rows for %d topics", len(got.Topics), len(m.Topics))
		}
		for _, row := range got.Topics {
			code, message := wantChange(row.Topic, "partitions")
			if row.ErrorCode != code || code != 0 && *row.ErrorMessage != message {
				t.Fatalf("%+v", row)
			}
		}
	})
}

func TestSplitAdminOfOtherKeys(t *testing.T) {
	for _, key := range []int16{KeyProduce, KeyMetadata, 22, 94, -1} {
		if s, err := SplitAdmin(key, 0, nil, policy{}); err != nil || !s.Unchanged() {
			t.Errorf("%s: %+v, %v", KeyName(key), s, err)
		}
	}
}

var adminRequests = map[int16]func() message{
	KeyDeleteTopics:            func() message { return kmsg.NewPtrDeleteTopicsRequest() },
	KeyDeleteRecords:           func() message { return kmsg.NewPtrDeleteRecordsRequest() },
	KeyCreatePartitions:        func() message { return kmsg.NewPtrCreatePartitionsRequest() },
	KeyAlterConfigs:            func() message { return kmsg.NewPtrAlterConfigsRequest() },
	KeyIncrementalAlterConfigs: func() message { return kmsg.NewPtrIncrementalAlterConfigsRequest() },
	KeyDescribeConfigs:         func() message { return kmsg.NewPtrDescribeConfigsRequest() },
}

func TestHostileAdminRequests(t *testing.T) {
	for key, request := range adminRequests {
		everyVersion(t, key, func(t *testing.T, version int16, r *rand.Rand) {
			body := randomize(r, version, request()).AppendTo(nil)
			if s, err := SplitAdmin(key, version, body[:r.IntN(len(body))], policy{}); !errors.Is(err, ErrMalformed) || !s.Unchanged() {
				t.Fatalf("cut off: %v", err)
			}
			if s, err := SplitAdmin(key, version, []byte{0x7f, 0xff, 0xff, 0xff, 0x07}, policy{}); !errors.Is(err, ErrMalformed) || !s.Unchanged() {
				t.Fatalf("2^31 entries: %v", err)
			}
		})
		_, maxVersion, _ := Versions(key)
		if _, err := SplitAdmin(key, maxVersion+1, nil, policy{}); !errors.Is(err, ErrUnsupportedVersion) {
			t.Errorf("%s v%d: %v", KeyName(key), maxVersion+1, err)
		}
	}
}
