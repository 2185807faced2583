package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// RefuseShareFetch answers a ShareFetch request that names a topic for which refused is true: its partitions get
// TOPIC_AUTHORIZATION_FAILED, the others no records, and what they acknowledge OPERATION_NOT_ATTEMPTED. No share session is
// granted, so the client's next request names all of its partitions again. answer is nil when no topic is refused.
func RefuseShareFetch(version int16, body []byte, refused func(t TopicRef) bool) (answer []byte, err error) {
	request := kmsg.NewPtrShareFetchRequest()
	if err := decode(version, body, request); err != nil {
		return nil, err
	}
	any := false
	r := kmsg.NewPtrShareFetchResponse()
	r.Version = version
	for i := range request.Topics {
		t := &request.Topics[i]
		no := refused(TopicRef{ID: t.TopicID, ByID: true})
		any = any || no
		rows := kmsg.NewShareFetchResponseTopic()
		rows.TopicID = t.TopicID
		for _, p := range t.Partitions {
			row := kmsg.NewShareFetchResponseTopicPartition()
			row.Partition, row.Records = p.Partition, []byte{}
			if no {
				row.ErrorCode, row.ErrorMessage = CodeTopicAuthorizationFailed, text(MessageStateTopic)
			}
			if len(p.AcknowledgementBatches) > 0 {
				row.AcknowledgeErrorCode = CodeOperationNotAttempted
			}
			rows.Partitions = append(rows.Partitions, row)
		}
		r.Topics = append(r.Topics, rows)
	}
	if !any {
		return nil, nil
	}
	return r.AppendTo(nil), nil
}

// EditShareFetch rewrites the node endpoints of a ShareFetch answer (KIP-932), and the record sets of topics for which look
// is true as hide wants them. Acquired offsets that are filler stay acquired: clients acknowledge those without a record as
// gaps.
func EditShareFetch(version int16, body []byte, a AddressOf, look func(TopicRef) bool, hide HideRecords) ([]byte, error) {
	r := kmsg.NewPtrShareFetchResponse()
	if err := decode(version, body, r); err != nil {
		return nil, err
	}
	edited := len(r.NodeEndpoints) > 0
	for i := range r.Topics {
		t := TopicRef{ID: r.Topics[i].TopicID, ByID: true}
		if !look(t) {
			continue
		}
		for j := range r.Topics[i].Partitions {
			p := &r.Topics[i].Partitions[j]
			if visible, hidden := hide([]byte{}, t, p.Partition, p.Records); hidden {
				p.Records, edited = visible, true
			}
		}
	}
	if !edited {
		return body, nil
	}
	for i := range r.NodeEndpoints {
		n := &r.NodeEndpoints[i]
		n.Host, n.Port = a.rewrite(n.NodeID, n.Host, n.Port)
	}
	return encode(r, len(body)), nil
}

// EditShareAcknowledge rewrites the node endpoints of a ShareAcknowledge answer (KIP-932).
func EditShareAcknowledge(version int16, body []byte, a AddressOf) ([]byte, error) {
	r := kmsg.NewPtrShareAcknowledgeResponse()
	if err := decode(version, body, r); err != nil {
		return nil, err
	}
	if len(r.NodeEndpoints) == 0 {
		return body, nil
	}
	for i := range r.NodeEndpoints {
		n := &r.NodeEndpoints[i]
		n.Host, n.Port = a.rewrite(n.NodeID, n.Host, n.Port)
	}
	return encode(r, len(body)), nil
}
