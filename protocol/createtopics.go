package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// newTopic is one topic of a CreateTopics request, as offsets in the body.
type newTopic struct {
	name       []byte
	start, end int
	// The MirrorInfo field of v8; both 0 in older versions.
	mirrorStart, mirrorEnd int
	mirrorNamed            bool // sets the config mirror.name
	mirrored               bool // has a MirrorInfo with an id other than zero
}

// newTopics is a walked CreateTopics request: the count, the topics, body[tailAt:].
type newTopics struct {
	version int16
	body    []byte
	tailAt  int
	topics  []newTopic
}

// walkCreateTopics reads v0 to v8. It works on bytes because kmsg does not know v8, and so that whatever is not looked at
// goes on as it came.
func walkCreateTopics(version int16, body []byte) (newTopics, error) {
	w := newTopics{version: version, body: body}
	if version < 0 || version > maxCreateTopics {
		return w, unsupported(KeyCreateTopics, version)
	}
	c := cursor{b: body, flexible: Flexible(KeyCreateTopics, version)}
	for n := c.array(4); n > 0 && c.ok(); n-- {
		w.topics = append(w.topics, c.newTopic(version))
	}
	w.tailAt = c.pos
	c.take(4) // timeout
	if version >= 1 {
		c.take(1) // validate only
	}
	c.tags()
	return w, c.whole("CreateTopics request")
}

func (c *cursor) newTopic(version int16) (t newTopic) {
	t.start = c.pos
	t.name = c.string()
	c.take(4 + 2) // partitions, replication factor
	for n := c.array(5); n > 0 && c.ok(); n-- {
		c.take(4)              // partition
		c.take(4 * c.array(4)) // replicas
		c.tags()
	}
	for n := c.array(2); n > 0 && c.ok(); n-- {
		if string(c.string()) == mirrorNameConfig {
			t.mirrorNamed = true
		}
		c.nullableString() // value
		c.tags()
	}
	if version >= maxCreateTopics {
		t.mirrorStart = c.pos
		// A nullable struct: a negative marker is null. Kafka's own client always writes one, with a zero id for an
		// ordinary topic.
		if c.int8() >= 0 {
			t.mirrored = c.uuid() != [16]byte{}
			c.tags()
		}
		t.mirrorEnd = c.pos
	}
	c.tags()
	t.end = c.pos
	return t
}

// keep makes a request of the topics for which keep is true; nil when there are none. plain leaves MirrorInfo out: the form
// of v7.
func (w newTopics) keep(keep func(newTopic) bool, plain bool) []byte {
	var kept []newTopic
	for _, t := range w.topics {
		if keep(t) {
			kept = append(kept, t)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	dst := make([]byte, 0, len(w.body)+5)
	dst = appendArrayLen(dst, len(kept), Flexible(KeyCreateTopics, w.version))
	for _, t := range kept {
		if plain {
			dst = append(dst, w.body[t.start:t.mirrorStart]...)
			dst = append(dst, w.body[t.mirrorEnd:t.end]...)
		} else {
			dst = append(dst, w.body[t.start:t.end]...)
		}
	}
	return append(dst, w.body[w.tailAt:]...)
}

// splitCreateTopics refuses the whole request when a topic sets mirror.name, as a broker of the reference does, takes
// __mirror_state out, and sends the rest upstream, or to the LocalHandler when a topic of it comes with a MirrorInfo.
func splitCreateTopics(version int16, body []byte, p AdminPolicy) (AdminSplit, error) {
	w, err := walkCreateTopics(version, body)
	if err != nil {
		return AdminSplit{}, err
	}
	mirrorNamed, states, mirrored := false, 0, false
	for _, t := range w.topics {
		mirrorNamed = mirrorNamed || t.mirrorNamed
		if p.StateTopic(t.name) {
			states++
		} else {
			mirrored = mirrored || t.mirrored
		}
	}
	refuse := func(newTopic) bool { return false }
	code, message := CodeTopicAuthorizationFailed, MessageStateTopic
	switch {
	case mirrorNamed:
		refuse = func(newTopic) bool { return true }
		code, message = CodeInvalidRequest, MessageMirrorNameConfig
	case states > 0:
		refuse = func(t newTopic) bool { return p.StateTopic(t.name) }
	case version < maxCreateTopics:
		return AdminSplit{}, nil
	}
	keep := func(t newTopic) bool { return !refuse(t) }
	s := AdminSplit{UpstreamVersion: min(version, createTopicsUpstream)}
	switch {
	case mirrored:
		s.Local = w.keep(keep, false)
	case len(w.topics) == 0: // nothing to refuse: the broker answers an empty request, in the form that it knows
		s.Upstream = body
	default:
		s.Upstream = w.keep(keep, version >= maxCreateTopics)
	}
	var refused []string
	for _, t := range w.topics {
		if refuse(t) {
			refused = append(refused, string(t.name))
		}
	}
	s.Merge = func(upstreamBody, localBody []byte) ([]byte, error) {
		// An answer has the same form at v7 and v8, wherever it comes from.
		part := upstreamBody
		if part == nil {
			part = localBody
		}
		if part != nil && len(refused) == 0 {
			return part, nil
		}
		r := kmsg.NewPtrCreateTopicsResponse()
		if err := decodeAnswer(s.UpstreamVersion, part, r); err != nil {
			return nil, err
		}
		for _, name := range refused {
			row := kmsg.NewCreateTopicsResponseTopic()
			row.Topic, row.ErrorCode, row.ErrorMessage = name, code, text(message)
			row.NumPartitions, row.ReplicationFactor = -1, -1
			r.Topics = append(r.Topics, row)
		}
		return encode(r, len(part)), nil
	}
	return s, nil
}
