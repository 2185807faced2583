package enforce

import (
	"kafka-mirror-proxy/protocol"
	"kafka-mirror-proxy/state"
)

// StateTopic is the name of the topic that holds the mirrors' state on the destination.
const StateTopic = "__mirror_state"

// Policy gives verdicts from the newest view. Any number of goroutines may ask it.
type Policy struct {
	views        func() *state.View
	gate         *Gate
	readOnlyCode int16
}

// NewPolicy returns the policy over the views that views returns (nil: none yet). readOnlyCode
// is the Kafka error code of a refused produce, 0 for READ_ONLY_TOPIC (134).
func NewPolicy(views func() *state.View, gate *Gate, readOnlyCode int16) *Policy {
	if readOnlyCode == protocol.CodeNone {
		readOnlyCode = protocol.CodeReadOnlyTopic
	}
	return &Policy{views: views, gate: gate, readOnlyCode: readOnlyCode}
}

// Refusal is why a topic may not be written.
type Refusal struct {
	Code    int16
	Message string
}

var (
	refusedStateTopic = Refusal{Code: protocol.CodeTopicAuthorizationFailed, Message: protocol.MessageStateTopic}
	// refusedNotLoaded is retriable for every producer. The session waits for the view before
	// it asks; this is for a view that is lost in between.
	refusedNotLoaded = Refusal{Code: protocol.CodeNotLeaderOrFollower, Message: "The proxy has not loaded the mirrors' state yet."}
)

// Gate is the gate that the callers of Produce and ProduceID enter before they ask.
func (p *Policy) Gate() *Gate { return p.gate }

// Ready says whether there is a loaded view. Until then no write may be forwarded.
func (p *Policy) Ready() bool {
	v := p.views()
	return v != nil && v.Loaded()
}

// Clear says that there is nothing that a produce could be refused for: the view is loaded, no
// topic is read-only, and the destination has no state topic.
func (p *Policy) Clear() bool {
	v := p.views()
	if v == nil || !v.Loaded() || v.HasReadOnly() {
		return false
	}
	_, hasState := v.StateTopicID()
	return !hasState
}

// Produce judges a write to a topic by its name; true means refused. It allocates only for the
// text of a refusal.
func (p *Policy) Produce(topicName []byte) (Refusal, bool) {
	v := p.views()
	switch {
	case p.StateTopic(topicName):
		return refusedStateTopic, true
	case v == nil || !v.Loaded():
		return refusedNotLoaded, true
	}
	if topic, readOnly := v.ReadOnlyName(topicName); readOnly {
		return p.readOnly(topic), true
	}
	return Refusal{}, false
}

// ProduceID judges a write to a topic by its id.
func (p *Policy) ProduceID(id [16]byte) (Refusal, bool) {
	v := p.views()
	if v == nil || !v.Loaded() {
		return refusedNotLoaded, true
	}
	if stateID, ok := v.StateTopicID(); ok && stateID == state.TopicID(id) {
		return refusedStateTopic, true
	}
	if topic, readOnly := v.ReadOnlyID(id); readOnly {
		return p.readOnly(topic), true
	}
	return Refusal{}, false
}

func (p *Policy) readOnly(t *state.Topic) Refusal {
	return Refusal{Code: p.readOnlyCode, Message: "Topic " + t.Name + " is read-only: it is mirrored by mirror " + t.Mirror + "."}
}

// MirrorName is the value of the config mirror.name of a topic that is or was mirrored.
func (p *Policy) MirrorName(topic string) (string, bool) {
	v := p.views()
	if v == nil {
		return "", false
	}
	t, ok := v.Topic(topic)
	if !ok {
		return "", false
	}
	return t.MirrorNameConfig(), true
}

// ReadOnlyTopic is the mirror of a topic that is read-only. Ask when the policy is ready.
func (p *Policy) ReadOnlyTopic(topic string) (mirror string, readOnly bool) {
	v := p.views()
	if v == nil {
		return "", false
	}
	t, readOnly := v.ReadOnlyName([]byte(topic))
	if !readOnly {
		return "", false
	}
	return t.Mirror, true
}

// OwnedConfig says whether replication owns a topic config while the topic is read-only.
func (p *Policy) OwnedConfig(key string) bool { return ownedConfig(key) }

// StateTopic says whether name is the state topic's.
func (p *Policy) StateTopic(name []byte) bool { return string(name) == StateTopic }

// Fillers is a fingerprint of the topics that may hold filler, as far as is known: 0 when no topic is or ever was in a
// mirror, and another number as soon as one comes or goes. Unlike a verdict it does not depend on the view being up to date.
func (p *Policy) Fillers() uint64 {
	if v := p.views(); v != nil {
		return v.Fillers()
	}
	return 0
}

// MayHoldFiller says whether a topic is known to be or to have been in a mirror. It allocates nothing.
func (p *Policy) MayHoldFiller(t protocol.TopicRef) bool {
	v := p.views()
	switch {
	case v == nil:
		return false
	case t.ByID:
		return v.MayHoldFillerID(t.ID)
	}
	return v.MayHoldFiller(t.Name)
}

// StateTransaction says whether id is the transactional id of whoever owns the mirrors.
func (p *Policy) StateTransaction(id []byte) bool { return string(id) == state.OwnerTransactionalID }

// StateTopicID says whether id is the state topic's.
func (p *Policy) StateTopicID(id [16]byte) bool {
	v := p.views()
	if v == nil {
		return false
	}
	stateID, ok := v.StateTopicID()
	return ok && stateID == state.TopicID(id)
}
