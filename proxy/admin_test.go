package proxy

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol"
	"kafka-mirror-proxy/state"
)

func deleteTopics(topics ...kmsg.DeleteTopicsRequestTopic) *kmsg.DeleteTopicsRequest {
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.Version, request.Topics = 6, topics
	return request
}

func alterTopic(name, key string) *kmsg.IncrementalAlterConfigsRequest {
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Version = 1
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, name
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = key, kmsg.StringPtr("1")
	resource.Configs = append(resource.Configs, config)
	request.Resources = append(request.Resources, resource)
	return request
}

// What a mirror topic is made of is kept as its records are; a change of another topic holds its token, so that an add that
// begins meanwhile waits for it.
func TestOwnedConfigsOfAMirrorTopic(t *testing.T) {
	refused := newPump(t, newTestSession(t, mirroredStore(t).View), nil, whole)
	refused.requests(requestFrame(2, alterTopic("orders", "retention.ms")))
	if len(refused.passed) > 0 {
		t.Fatal("it went upstream")
	}
	refused.answers(nil)
	response := kmsg.NewPtrIncrementalAlterConfigsResponse()
	response.Version = 1
	if err := response.ReadFrom(refused.given[sizeBytes+correlationBytes+1:]); err != nil {
		t.Fatal(err)
	}
	if row := response.Resources[0]; row.ErrorCode != 44 || *row.ErrorMessage != "Config retention.ms belongs to mirror dr while topic orders is mirrored." {
		t.Errorf("%+v", row)
	}
	if !barrierOpen(refused.session) {
		t.Error("a refused change keeps its token")
	}

	for name, test := range map[string]struct {
		request *kmsg.IncrementalAlterConfigsRequest
		held    bool
	}{
		"owned config of another topic": {alterTopic("other", "retention.ms"), true},
		"config that is not owned":      {alterTopic("orders", "min.insync.replicas"), false},
	} {
		p := newPump(t, newTestSession(t, mirroredStore(t).View), nil, whole)
		frame := requestFrame(2, test.request)
		if p.requests(frame); !bytes.Equal(p.passed, frame) {
			t.Errorf("%s: passed %x", name, p.passed)
		}
		if barrierOpen(p.session) == test.held {
			t.Errorf("%s: holds a token: %v", name, !test.held)
		}
		if p.answers(brokerAnswers(t, p.passed)); !barrierOpen(p.session) {
			t.Errorf("%s: holds its token beyond the answer", name)
		}
	}
}

func TestShareFetchOfTheStateTopic(t *testing.T) {
	stateID, otherID := state.TopicID{7}, state.TopicID{8}
	session := newTestSession(t, mirroredStore(t).View)
	session.stateTopic = func(topic protocol.TopicRef) bool { return topic.ByID && topic.ID == stateID }
	p := newPump(t, session, nil, whole)
	request := func(ids ...state.TopicID) []byte {
		r := kmsg.NewPtrShareFetchRequest()
		r.Version = 1
		for _, id := range ids {
			topic := kmsg.NewShareFetchRequestTopic()
			topic.TopicID = id
			topic.Partitions = append(topic.Partitions, kmsg.NewShareFetchRequestTopicPartition())
			r.Topics = append(r.Topics, topic)
		}
		return requestFrame(3, r)
	}
	other := request(otherID)
	if p.requests(other); !bytes.Equal(p.passed, other) {
		t.Fatalf("passed %x", p.passed)
	}
	p.answers(brokerAnswers(t, other))
	p.given = nil
	if p.requests(request(otherID, stateID)); len(p.passed) > len(other) {
		t.Fatal("it went upstream")
	}
	p.answers(nil)
	response := kmsg.NewPtrShareFetchResponse()
	response.Version = 1
	if err := response.ReadFrom(p.given[sizeBytes+correlationBytes+1:]); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int16{0, 29} {
		if row := response.Topics[i].Partitions[0]; row.ErrorCode != want {
			t.Errorf("row %d: %+v", i, row)
		}
	}
}

// What concerns no mirror whatever the view says does not wait for it.
func TestOtherAdminRequestsDoNotWait(t *testing.T) {
	for name, request := range map[string]kmsg.Request{
		"delete by name": deleteTopics(kmsg.DeleteTopicsRequestTopic{Topic: kmsg.StringPtr("any")}),
		"other config":   alterTopic("any", "min.insync.replicas"),
	} {
		session := newTestSession(t, func() *state.View { return &state.View{} })
		session.hold = func() <-chan struct{} { return make(chan struct{}) }
		p := newPump(t, session, nil, whole)
		frame := requestFrame(2, request)
		if p.requests(frame); !bytes.Equal(p.passed, frame) {
			t.Errorf("%s: passed %x", name, p.passed)
		}
	}
}
