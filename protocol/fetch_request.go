package protocol

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FetchNames tells whether a Fetch request (v4+) names a topic for which is returns true, by name or, from v13 on, by id.
// TopicRef.Name is part of the body.
func FetchNames(version int16, body []byte, is func(t TopicRef) bool) (bool, error) {
	if err := decodable(KeyFetch, version); err != nil {
		return false, err
	}
	c := cursor{b: body, flexible: Flexible(KeyFetch, version)}
	c.take(fetchFields(version).topics)
	partitionBytes := 4 + 8 + 4 // partition, fetch offset, max bytes
	if version >= 5 {
		partitionBytes += 8 // log start offset
	}
	if version >= 9 {
		partitionBytes += 4 // current leader epoch
	}
	if version >= 12 {
		partitionBytes += 4 // last fetched epoch
	}
	for topics := c.array(2); topics > 0 && c.ok(); topics-- {
		t := c.topic(fetchByID(version))
		if c.ok() && is(t) {
			return true, nil
		}
		partitions := c.array(partitionBytes)
		if !c.flexible {
			c.take(partitions * partitionBytes)
			continue
		}
		for ; partitions > 0 && c.ok(); partitions-- {
			c.take(partitionBytes)
			c.tags()
		}
		c.tags()
	}
	if !c.ok() { // what follows the topics (forgotten topics, rack) names nothing that will be fetched
		return false, c.whole("Fetch request")
	}
	return false, nil
}

// fetchFixed is where fields of a Fetch request (v4+) are that come before its topics.
type fetchFixed struct{ maxBytes, sessionEpoch, topics int }

func fetchFields(version int16) (f fetchFixed) {
	if version <= 14 {
		f.maxBytes = 4 // behind the replica id
	}
	f.maxBytes += 4 + 4           // max wait, min bytes
	f.topics = f.maxBytes + 4 + 1 // isolation level
	if version >= firstFetchSession {
		f.sessionEpoch = f.topics + 4 // behind the session id
		f.topics += 4 + 4
	}
	return f
}

const firstFetchSession = 7

// FetchSession is what a Fetch request has to do with a fetch session (KIP-227).
type FetchSession int8

const (
	// FetchAlone names everything that it fetches and asks for no session.
	FetchAlone FetchSession = iota
	// FetchFirst names everything and asks for a session.
	FetchFirst
	// FetchNext names only what is to change in its session.
	FetchNext
)

// Epochs with a meaning of their own (FetchMetadata).
const (
	initialSessionEpoch = 0
	finalSessionEpoch   = -1
)

// FetchSessionOf tells it of a request that FetchNames has read.
func FetchSessionOf(version int16, body []byte) FetchSession {
	if version < firstFetchSession {
		return FetchAlone
	}
	switch int32(binary.BigEndian.Uint32(body[fetchFields(version).sessionEpoch:])) {
	case finalSessionEpoch:
		return FetchAlone
	case initialSessionEpoch:
		return FetchFirst
	}
	return FetchNext
}

// DenyFetchSession turns a FetchFirst into a FetchAlone, in place: the client's next request is a FetchFirst again.
func DenyFetchSession(version int16, body []byte) {
	epoch := int32(finalSessionEpoch)
	binary.BigEndian.PutUint32(body[fetchFields(version).sessionEpoch:], uint32(epoch))
}

// LimitFetch makes a Fetch request ask for no more than maxBytes of records, in place. The answer may be larger: by the one
// batch that a broker sends whatever its size, and by what goes with the records.
func LimitFetch(version int16, body []byte, maxBytes int32) {
	at := body[fetchFields(version).maxBytes:]
	if asked := int32(binary.BigEndian.Uint32(at)); asked > maxBytes {
		binary.BigEndian.PutUint32(at, uint32(maxBytes))
	}
}

func fetchByID(version int16) bool { return version >= 13 }

// AppendFetchRefusal appends a whole Fetch response body for a request that will not go upstream: partitions of topics for
// which refused is true get TOPIC_AUTHORIZATION_FAILED, all others no records and no error. No fetch session is granted, so
// the client's next request names all of its partitions again.
func AppendFetchRefusal(dst []byte, version int16, requestBody []byte, refused func(t TopicRef) bool) ([]byte, error) {
	request := kmsg.NewPtrFetchRequest()
	if err := decode(version, requestBody, request); err != nil {
		return nil, err
	}
	answer := kmsg.NewPtrFetchResponse()
	answer.Version = version
	for _, t := range request.Topics {
		ref := TopicRef{Name: []byte(t.Topic), ID: t.TopicID, ByID: fetchByID(version)}
		code := CodeNone
		if refused(ref) {
			code = CodeTopicAuthorizationFailed
		}
		rows := kmsg.NewFetchResponseTopic()
		rows.Topic, rows.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			row := kmsg.NewFetchResponseTopicPartition()
			row.Partition, row.ErrorCode = p.Partition, code
			row.HighWatermark = -1
			row.RecordBatches = []byte{} // null is allowed by the schema, but a broker never sends it
			rows.Partitions = append(rows.Partitions, row)
		}
		answer.Topics = append(answer.Topics, rows)
	}
	return answer.AppendTo(dst), nil
}
