package protocol

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// AdminPolicy is what the admin split must know of the mirrors.
type AdminPolicy interface {
	StateTopic(name []byte) bool
	StateTopicID(id [16]byte) bool
	// MirrorName returns the value of the config mirror.name of a mirrored topic.
	MirrorName(topic string) (string, bool)
	// ReadOnlyTopic returns the mirror that a topic belongs to while clients must not write to it.
	ReadOnlyTopic(topic string) (mirror string, readOnly bool)
	// OwnedConfig says that a topic config belongs to the mirror as long as the topic is read-only.
	OwnedConfig(key string) bool
}

// AdminSplit says how to serve an admin request of which a part is not the broker's business. The zero value means that the
// request is to be relayed unchanged and its answer too.
type AdminSplit struct {
	// Upstream is the request body to forward, nil when nothing is left for the broker; UpstreamVersion its version.
	Upstream        []byte
	UpstreamVersion int16
	// Local is a request body of the client's key and version for the LocalHandler, nil for none: the resources of type 64,
	// or the whole rest of a CreateTopics v8 in which a topic has a MirrorInfo.
	Local []byte
	// Merge makes the answer's body at the client's version out of the answers to Upstream and Local; nil for a part that
	// was not sent. It uses no memory of the request's body.
	Merge func(upstreamBody, localBody []byte) ([]byte, error)
}

// Unchanged tells that the request does not concern the proxy.
func (s AdminSplit) Unchanged() bool { return s.Merge == nil }

// Config resource types, and the topic config that says which mirror a topic belongs to (KIP-1279).
const (
	resourceTopic  kmsg.ConfigResourceType = 2
	resourceMirror kmsg.ConfigResourceType = 64

	mirrorNameConfig = "mirror.name"
)

// SplitAdmin splits CreateTopics, DeleteTopics, DeleteRecords, CreatePartitions, AlterConfigs, IncrementalAlterConfigs and
// DescribeConfigs requests; for any other key it returns the zero AdminSplit. Upstream may be body itself.
func SplitAdmin(key, version int16, body []byte, p AdminPolicy) (AdminSplit, error) {
	switch key {
	case KeyCreateTopics:
		return splitCreateTopics(version, body, p)
	case KeyDeleteTopics:
		return splitDeleteTopics(version, body, p)
	case KeyDeleteRecords:
		return splitDeleteRecords(version, body, p)
	case KeyCreatePartitions:
		return splitCreatePartitions(version, body, p)
	case KeyAlterConfigs:
		return splitAlterConfigs(version, body, p)
	case KeyIncrementalAlterConfigs:
		return splitIncrementalAlterConfigs(version, body, p)
	case KeyDescribeConfigs:
		return splitDescribeConfigs(version, body, p)
	}
	return AdminSplit{}, nil
}

// decodeAnswer decodes a part of a merge into r; a part that was not sent (nil) leaves r empty.
func decodeAnswer(version int16, body []byte, r message) error {
	if body == nil {
		r.SetVersion(version)
		return nil
	}
	if err := decode(version, body, r); err != nil {
		return fmt.Errorf("answer to a part of the request: %w", err)
	}
	return nil
}

func text(s string) *string { return &s }
