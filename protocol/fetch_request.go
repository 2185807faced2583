package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// FetchNames tells whether a Fetch request (v4+) names a topic for which is returns true, by name or, from v13 on, by id.
// TopicRef.Name is part of the body.
func FetchNames(version int16, body []byte, is func(t TopicRef) bool) (bool, error) {
	if err := decodable(KeyFetch, version); err != nil {
		return false, err
	}
	c := cursor{b: body, flexible: Flexible(KeyFetch, version)}
	if version <= 14 {
		c.take(4) // replica id
	}
	c.take(4 + 4 + 4 + 1) // max wait, min bytes, max bytes, isolation level
	if version >= 7 {
		c.take(4 + 4) // session id and epoch
	}
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
