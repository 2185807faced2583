package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// PeekTransactionalID reads the transactional id of an InitProducerId, AddOffsetsToTxn, EndTxn or TxnOffsetCommit request,
// which begin with it; nil is none. need > 0: show at least need bytes of the body. id is a part of the body.
func PeekTransactionalID(key, version int16, body []byte) (id []byte, need int, err error) {
	if err := decodable(key, version); err != nil {
		return nil, 0, err
	}
	c := cursor{b: body, flexible: Flexible(key, version)}
	id = c.nullableString()
	need, err = c.partial("transactional id")
	return id, need, err
}

// RefuseTransaction answers such a request with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as a broker does for an id that is
// not the client's.
func RefuseTransaction(key, version int16, body []byte) (answer []byte, err error) {
	const code = CodeTransactionalIDAuthorizationFailed
	var m message
	switch key {
	case KeyInitProducerID:
		r := kmsg.NewPtrInitProducerIDResponse()
		r.ErrorCode, r.ProducerID, r.ProducerEpoch = code, -1, -1
		m = r
	case KeyAddOffsetsToTxn:
		r := kmsg.NewPtrAddOffsetsToTxnResponse()
		r.ErrorCode = code
		m = r
	case KeyEndTxn:
		r := kmsg.NewPtrEndTxnResponse()
		r.ErrorCode, r.ProducerID, r.ProducerEpoch = code, -1, -1
		m = r
	case KeyTxnOffsetCommit:
		request := kmsg.NewPtrTxnOffsetCommitRequest()
		if err := decode(version, body, request); err != nil {
			return nil, err
		}
		r := kmsg.NewPtrTxnOffsetCommitResponse()
		for i := range request.Topics {
			t := &request.Topics[i]
			rows := kmsg.NewTxnOffsetCommitResponseTopic()
			rows.Topic, rows.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				row := kmsg.NewTxnOffsetCommitResponseTopicPartition()
				row.Partition, row.ErrorCode = p.Partition, code
				rows.Partitions = append(rows.Partitions, row)
			}
			r.Topics = append(r.Topics, rows)
		}
		m = r
	default:
		return nil, unsupported(key, version)
	}
	m.SetVersion(version)
	return encode(m, len(body)), nil
}
