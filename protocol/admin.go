package protocol

// AdminPolicy is what the admin split must know of the mirrors.
type AdminPolicy interface {
	StateTopic(name []byte) bool
	StateTopicID(id [16]byte) bool
	// MirrorName returns the value of the config mirror.name of a mirrored topic.
	MirrorName(topic string) (string, bool)
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
	// was not sent.
	Merge func(upstreamBody, localBody []byte) ([]byte, error)
}

// Unchanged tells that the request does not concern the proxy.
func (s AdminSplit) Unchanged() bool { return s.Merge == nil }

// SplitAdmin splits CreateTopics, DeleteTopics, DeleteRecords, CreatePartitions, AlterConfigs, IncrementalAlterConfigs and
// DescribeConfigs requests; for any other key it returns the zero AdminSplit.
func SplitAdmin(key, version int16, body []byte, p AdminPolicy) (AdminSplit, error) {
	return AdminSplit{}, ErrMalformed
}
