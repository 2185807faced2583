package mirrorapi

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

func (e *env) createTopicsV8(req *kmsg.CreateTopicsRequest, infos ...*mirrormsg.MirrorInfo) []kmsg.CreateTopicsResponseTopic {
	e.t.Helper()
	req.Version = 7
	body := (&mirrormsg.CreateTopicsV8Request{Request: req, MirrorInfo: infos}).AppendTo(nil)
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Version = 7
	if err := resp.ReadFrom(e.raw(int16(kmsg.CreateTopics), 8, body, bootstrapNode)); err != nil {
		e.t.Fatal(err)
	}
	return resp.Topics
}

func createRequest(names ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range names {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 2, 1
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func mirrorOf(id byte) *mirrormsg.MirrorInfo {
	return &mirrormsg.MirrorInfo{TopicID: [16]byte{id}}
}

func TestCreateTopicsKeepsSourceIDs(t *testing.T) {
	e := newEnv(t)
	topics := e.createTopicsV8(createRequest("a", "b", "c"), mirrorOf(1), nil, mirrorOf(0))
	for i, name := range []string{"a", "b", "c"} {
		if topics[i].Topic != name || topics[i].ErrorCode != 0 || topics[i].NumPartitions != 2 {
			t.Errorf("topic %s: %+v", name, topics[i])
		}
		if info := e.destination.TopicInfo(name); info == nil || topics[i].TopicID != info.TopicID {
			t.Errorf("topic %s does not exist with the id that was answered", name)
		}
	}
	view := e.store.View()
	if id, ok := view.SourceIDOf("a"); !ok || id != (state.TopicID{1}) {
		t.Errorf("the source id of a is %s", id)
	}
	for _, name := range []string{"b", "c"} {
		if id, ok := view.SourceIDOf(name); ok {
			t.Errorf("ordinary topic %s has the source id %s", name, id)
		}
	}
}

func TestCreateTopicsOnlyValidates(t *testing.T) {
	e := newEnv(t)
	req := createRequest("a")
	req.ValidateOnly = true
	if topics := e.createTopicsV8(req, mirrorOf(1)); topics[0].ErrorCode != 0 {
		t.Errorf("%+v", topics[0])
	}
	if _, ok := e.store.View().SourceIDOf("a"); ok || e.destination.TopicInfo("a") != nil {
		t.Error("a validation created something")
	}
}

func TestCreateTopicsRefusals(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	mapped := e.mustAdd("m1", "orders")[0]
	check := func(topic kmsg.CreateTopicsResponseTopic, code mirrormsg.ErrorCode, message string) {
		t.Helper()
		wantRefusal(t, &mirrormsg.Status{ErrorCode: mirrormsg.ErrorCode(topic.ErrorCode), ErrorMessage: topic.ErrorMessage}, code, message)
	}

	// One topic's fault is not the others'.
	topics := e.createTopicsV8(createRequest("x", "y", "orders"), &mirrormsg.MirrorInfo{TopicID: mapped.SourceID}, mirrorOf(2), mirrorOf(3))
	check(topics[0], mirrormsg.InvalidRequest, "is that of topic orders already")
	check(topics[1], 0, "")
	check(topics[2], mirrormsg.TopicAlreadyExists, "")
	if _, ok := e.store.View().SourceIDOf("orders"); ok {
		t.Error("a source id was kept for a topic that was there before")
	}

	req := createRequest("p", "q")
	req.Topics[0].Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "mirror.name", Value: kmsg.StringPtr("m1")}}
	for _, topic := range e.createTopicsV8(req, mirrorOf(4), mirrorOf(5)) {
		check(topic, mirrormsg.InvalidRequest, "The 'mirror.name' configuration can only be modified through dedicated mirror management APIs.")
	}
	for _, topic := range e.createTopicsV8(createRequest("p", "q"), mirrorOf(4), mirrorOf(4)) {
		check(topic, mirrormsg.InvalidRequest, "name the same source topic id")
	}
	check(e.createTopicsV8(createRequest(stateTopic), mirrorOf(4))[0], mirrormsg.TopicAuthorizationFailed, "belongs to the proxy")
	for _, name := range []string{"p", "q"} {
		if e.destination.TopicInfo(name) != nil {
			t.Errorf("%s was created", name)
		}
	}
}

func TestCreateTopicsKnowsSourceIDsOfTopicsNotYetAdded(t *testing.T) {
	e := newEnv(t)
	refused := func(req *kmsg.CreateTopicsRequest, message string) {
		t.Helper()
		topic := e.createTopicsV8(req, mirrorOf(1))[0]
		wantRefusal(t, &mirrormsg.Status{ErrorCode: mirrormsg.ErrorCode(topic.ErrorCode), ErrorMessage: topic.ErrorMessage},
			mirrormsg.InvalidRequest, message)
	}
	e.h.claim(state.TopicID{1})
	refused(createRequest("a"), "another request is creating a topic for source topic id "+state.TopicID{1}.String())
	e.h.release(state.TopicID{1})
	if topic := e.createTopicsV8(createRequest("a"), mirrorOf(1))[0]; topic.ErrorCode != 0 {
		t.Fatalf("%d %q", topic.ErrorCode, text(topic.ErrorMessage))
	}
	refused(createRequest("b"), "is that of topic a already")

	if err := e.destination.DeleteTopic("a"); err != nil {
		t.Fatal(err)
	}
	if topic := e.createTopicsV8(createRequest("c"), mirrorOf(1))[0]; topic.ErrorCode != 0 {
		t.Errorf("the other topic is gone: %d %q", topic.ErrorCode, text(topic.ErrorMessage))
	}
}

func TestCreateTopicsWantsActiveReplicas(t *testing.T) {
	e := newEnv(t, brokers(2))
	e.destination.ControlKey(int16(kmsg.DescribeCluster), func(req kmsg.Request) (kmsg.Response, error, bool) {
		e.destination.KeepControl()
		if !req.(*kmsg.DescribeClusterRequest).IncludeFencedBrokers {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
		resp.Brokers = []kmsg.DescribeClusterResponseBroker{{NodeID: 0}, {NodeID: 1, IsFenced: true}}
		return resp, nil, true
	})
	manual := createRequest("a")
	manual.Topics[0].NumPartitions, manual.Topics[0].ReplicationFactor = -1, -1
	manual.Topics[0].ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{
		{Partition: 0, Replicas: []int32{0}}, {Partition: 1, Replicas: []int32{0, 1}},
	}
	if topic := e.createTopicsV8(manual, mirrorOf(1))[0]; topic.ErrorCode != 39 || text(topic.ErrorMessage) !=
		"Some brokers specified in the manual partition assignment for partition 1 are fenced or in controlled shutdown. "+
			"For mirror topic creation, all brokers specified in the manual partition assignment must be active." {
		t.Errorf("%d %q", topic.ErrorCode, text(topic.ErrorMessage))
	}
	automatic := createRequest("a")
	automatic.Topics[0].ReplicationFactor = 2
	if topic := e.createTopicsV8(automatic, mirrorOf(1))[0]; topic.ErrorCode != 38 || text(topic.ErrorMessage) !=
		"Unable to replicate the partition 2 time(s): Some brokers are currently fenced or in controlled shutdown. "+
			"For mirror topic creation, all replicas being assigned must be active." {
		t.Errorf("%d %q", topic.ErrorCode, text(topic.ErrorMessage))
	}
	automatic.Topics[0].ReplicationFactor = 1
	if topic := e.createTopicsV8(automatic, mirrorOf(1))[0]; topic.ErrorCode != 0 {
		t.Errorf("%d %q", topic.ErrorCode, text(topic.ErrorMessage))
	}
}

func TestAddChecksTheIDThatATopicWasCreatedWith(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 2}))
	e.mirror("m1")
	alterSucceeds(e)
	e.createTopicsV8(createRequest("orders"), mirrorOf(9))
	wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.InconsistentTopicID,
		state.TopicID{9}.String(), state.TopicID(e.source.TopicInfo("orders").TopicID).String())
}
