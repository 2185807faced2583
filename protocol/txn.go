package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// RefuseAddPartitions judges an AddPartitionsToTxn request, the client's form (v0-v3) and the brokers' batched one (v4+).
// When one topic is refused nothing may go upstream: answer is the whole response body, in which the refused partitions have
// their code and all others OPERATION_NOT_ATTEMPTED, as a broker answers when it checks the partitions first.
func RefuseAddPartitions(version int16, body []byte, refuse RefuseTopic) (answer []byte, refused bool, err error) {
	request := kmsg.NewPtrAddPartitionsToTxnRequest()
	if err := decode(version, body, request); err != nil {
		return nil, false, err
	}
	verdict := txnVerdict{refuse: refuse}
	r := kmsg.NewPtrAddPartitionsToTxnResponse()
	r.Version = version
	for _, t := range request.Topics {
		code := verdict.of(t.Topic)
		rows := kmsg.NewAddPartitionsToTxnResponseTopic()
		rows.Topic = t.Topic
		for _, p := range t.Partitions {
			row := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			row.Partition, row.ErrorCode = p, code
			rows.Partitions = append(rows.Partitions, row)
		}
		r.Topics = append(r.Topics, rows)
	}
	for _, txn := range request.Transactions {
		answerTxn := kmsg.NewAddPartitionsToTxnResponseTransaction()
		answerTxn.TransactionalID = txn.TransactionalID
		for _, t := range txn.Topics {
			code := verdict.of(t.Topic)
			rows := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
			rows.Topic = t.Topic
			for _, p := range t.Partitions {
				row := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
				row.Partition, row.ErrorCode = p, code
				rows.Partitions = append(rows.Partitions, row)
			}
			answerTxn.Topics = append(answerTxn.Topics, rows)
		}
		r.Transactions = append(r.Transactions, answerTxn)
	}
	if !verdict.refused {
		return nil, false, nil
	}
	return encode(r, len(body)), true, nil
}

// RefuseTxnMarkers judges a WriteTxnMarkers request in the same way: a marker in a mirrored log shifts every offset behind it.
func RefuseTxnMarkers(version int16, body []byte, refuse RefuseTopic) (answer []byte, refused bool, err error) {
	request := kmsg.NewPtrWriteTxnMarkersRequest()
	if err := decode(version, body, request); err != nil {
		return nil, false, err
	}
	verdict := txnVerdict{refuse: refuse}
	r := kmsg.NewPtrWriteTxnMarkersResponse()
	r.Version = version
	for _, marker := range request.Markers {
		answerMarker := kmsg.NewWriteTxnMarkersResponseMarker()
		answerMarker.ProducerID = marker.ProducerID
		for _, t := range marker.Topics {
			code := verdict.of(t.Topic)
			rows := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			rows.Topic = t.Topic
			for _, p := range t.Partitions {
				row := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				row.Partition, row.ErrorCode = p, code
				rows.Partitions = append(rows.Partitions, row)
			}
			answerMarker.Topics = append(answerMarker.Topics, rows)
		}
		r.Markers = append(r.Markers, answerMarker)
	}
	if !verdict.refused {
		return nil, false, nil
	}
	return encode(r, len(body)), true, nil
}

// txnVerdict gives each topic its code in an answer that exists only if one topic is refused.
type txnVerdict struct {
	refuse  RefuseTopic
	refused bool
}

func (v *txnVerdict) of(topic string) int16 {
	if code, _, no := v.refuse(TopicRef{Name: []byte(topic)}); no {
		v.refused = true
		return code
	}
	return CodeOperationNotAttempted
}
