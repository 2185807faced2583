package mirrorapi

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// A topic that was created for a mirror and not added is an ordinary topic: it must not keep its records for ever.
func TestRefusedAddHandsACreatedTopicBack(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	setTopicConfig(t, e.sourceClient, "orders", map[string]string{"retention.ms": "1000"})
	e.mirror("m1")
	configs := fakeTopicConfigs(e, maps.Clone(owned))
	configs.onAlter = func() {
		if _, ok := e.store.View().Topic("orders"); ok {
			t.Error("the configs are handed back while the topic is in the mirror")
		}
	}
	e.gate.hook = func() error {
		e.produce(e.destination, "orders", 0, 1)
		return nil
	}
	wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.InvalidRequest, "already holds 1 records")
	want := []string{
		"DELETE cleanup.policy ", "DELETE compression.type ", "DELETE max.message.bytes ", "DELETE message.timestamp.after.max.ms ",
		"DELETE message.timestamp.before.max.ms ", "DELETE message.timestamp.type ", "DELETE retention.bytes ",
		"DELETE unclean.leader.election.enable ", "SET retention.ms 1000",
	}
	if slices.Sort(configs.changes); !slices.Equal(configs.changes, want) {
		t.Errorf("changes: %q", configs.changes)
	}
}

// A topic that was there before gets its own configs back, not the source's.
func TestRefusedAddGivesAnAlteredTopicItsConfigsBack(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	setTopicConfig(t, e.sourceClient, "orders", map[string]string{"retention.ms": "1000"})
	e.mirror("m1")
	if err := e.destination.CreateTopic("orders", 1, nil); err != nil {
		t.Fatal(err)
	}
	before := map[string]string{"retention.ms": "5", "segment.ms": "100", "retention.bytes": "-1"}
	configs := fakeTopicConfigs(e, maps.Clone(before))
	configs.onAlter = func() { // somebody changes their mind
		configs.onAlter = func() {}
		e.do(state.RemoveTopic{Mirror: "m1", Name: "orders"})
	}
	if resp := e.add("m1", "orders"); resp.ErrorCode == mirrormsg.NoError {
		t.Fatal("a topic that was removed meanwhile was added")
	}
	if !maps.Equal(configs.overrides, before) {
		t.Errorf("the topic has %v", configs.overrides)
	}
}

// A topic that is in a mirror whatever the request believes keeps its configs: by retention, records of the source would go.
func TestRefusedAddLeavesAMirroredTopicAlone(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	configs := fakeTopicConfigs(e, maps.Clone(owned))
	e.gate.hook = func() error {
		e.do(state.ConfirmTopic{ID: e.topic("orders").ID})
		return errors.New("produces are stuck")
	}
	wantRefusal(t, &e.add("m1", "orders").Status, networkException, "produces are stuck")
	if len(configs.changes) > 0 {
		t.Errorf("changes: %v", configs.changes)
	}
}

func TestAddRefusesATopicThatIsBeingAdded(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	e.gate.hook = func() error {
		wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.TopicAlreadyInMirror, "topic orders is being added to mirror m1")
		e.do(state.RollbackTopic{ID: e.topic("orders").ID}) // even then: the first request is still at work on its configs
		wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.TopicAlreadyInMirror, "topic orders is being added by another request")
		return nil
	}
	if resp := e.add("m1", "orders"); resp.ErrorCode == mirrormsg.NoError {
		t.Error("a topic that was rolled back meanwhile was added")
	}
	e.gate.hook = nil
	alterSucceeds(e)
	e.mustAdd("m1", "orders")
}

func TestRollbackLeftovers(t *testing.T) {
	e := newEnv(t)
	e.mirror("m1")
	retention := "1000"
	handBack := map[string]*string{"retention.ms": &retention, "compression.type": nil}
	left := func(name string, id byte) {
		e.do(state.AddTopic{Mirror: "m1", Name: name, ID: state.TopicID{id}, Partitions: 1, Engine: "produce", HandBack: handBack})
	}
	left("orders", 1)
	configs := fakeTopicConfigs(e, maps.Clone(owned))
	if err := e.h.RollbackLeftovers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := e.store.View().Topic("orders"); ok {
		t.Error("the topic is still there")
	}
	if _, ok := configs.overrides["compression.type"]; ok || configs.overrides["retention.ms"] != retention {
		t.Errorf("the topic has %v", configs.overrides)
	}

	// This one was there before, and its addition had not come as far as its configs.
	left("clicks", 2)
	delete(configs.overrides, "unclean.leader.election.enable")
	configs.overrides["retention.ms"], configs.changes = "7", nil
	if err := e.h.RollbackLeftovers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(configs.changes) > 0 {
		t.Errorf("changes of an unaltered topic: %v", configs.changes)
	}
}

func TestRollbackLeftoversLeavesAdditionsUnderWay(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	e.gate.hook = func() error { return e.h.RollbackLeftovers(t.Context()) }
	fakeTopicConfigs(e, map[string]string{})
	topic := e.mustAdd("m1", "orders")[0]
	e.do(state.RemoveTopic{Mirror: "m1", Name: "orders"})
	e.move(topic, 0, stopping...)
	e.do(state.AddTopic{Mirror: "m1", Name: "orders", ID: topic.ID, Partitions: 1, Engine: "produce"})
	if err := e.h.RollbackLeftovers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := e.topic("orders"); now.Desired != state.DesiredStopped {
		t.Errorf("a later leftover is %s", now.Desired)
	}
}
