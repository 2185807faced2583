package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// RefuseAddPartitions judges an AddPartitionsToTxn request, the client's form (v0-v3) and the brokers' batched one (v4+).
// When one topic, or a transaction that is ours, is refused nothing may go upstream: answer is the whole response body, in
// which the refused partitions have their code and all others OPERATION_NOT_ATTEMPTED, as a broker answers when it checks
// the partitions first.
func RefuseAddPartitions(version int16, body []byte, refuse RefuseTopic, ours func(transactionalID []byte) bool) (answer []byte, refused bool, err error) {
	request := kmsg.NewPtrAddPartitionsToTxnRequest()
	if err := decode(version, body, request); err != nil {
		return nil, false, err
	}
	verdict := txnVerdict{refuse: refuse, own: ours([]byte(request.TransactionalID))}
	r := kmsg.NewPtrAddPartitionsToTxnResponse()
	r.Version = version
	for _, t := range request.Topics {
		code := verdict.of(t.Topic)
		r.Topics = append(r.Topics, kmsg.AddPartitionsToTxnResponseTopic{
			Topic: t.Topic,
			Partitions: rows(t.Partitions, func(p int32) kmsg.AddPartitionsToTxnResponseTopicPartition {
				return kmsg.AddPartitionsToTxnResponseTopicPartition{Partition: p, ErrorCode: code}
			}),
		})
	}
	for _, txn := range request.Transactions {
		verdict.own = ours([]byte(txn.TransactionalID))
		answerTxn := kmsg.AddPartitionsToTxnResponseTransaction{TransactionalID: txn.TransactionalID}
		for _, t := range txn.Topics {
			code := verdict.of(t.Topic)
			answerTxn.Topics = append(answerTxn.Topics, kmsg.AddPartitionsToTxnResponseTransactionTopic{
				Topic: t.Topic,
				Partitions: rows(t.Partitions, func(p int32) kmsg.AddPartitionsToTxnResponseTransactionTopicPartition {
					return kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{Partition: p, ErrorCode: code}
				}),
			})
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
		answerMarker := kmsg.WriteTxnMarkersResponseMarker{ProducerID: marker.ProducerID}
		for _, t := range marker.Topics {
			code := verdict.of(t.Topic)
			answerMarker.Topics = append(answerMarker.Topics, kmsg.WriteTxnMarkersResponseMarkerTopic{
				Topic: t.Topic,
				Partitions: rows(t.Partitions, func(p int32) kmsg.WriteTxnMarkersResponseMarkerTopicPartition {
					return kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: p, ErrorCode: code}
				}),
			})
		}
		r.Markers = append(r.Markers, answerMarker)
	}
	if !verdict.refused {
		return nil, false, nil
	}
	return encode(r, len(body)), true, nil
}

// rows makes the row of each partition.
func rows[R any](partitions []int32, row func(partition int32) R) []R {
	all := make([]R, len(partitions))
	for i, p := range partitions {
		all[i] = row(p)
	}
	return all
}

// txnVerdict gives each topic its code in an answer that exists only if one topic is refused.
type txnVerdict struct {
	refuse  RefuseTopic
	own     bool // the transaction whose topics are asked for is ours
	refused bool
}

func (v *txnVerdict) of(topic string) int16 {
	if v.own {
		v.refused = true
		return CodeTransactionalIDAuthorizationFailed
	}
	if code, _, no := v.refuse(TopicRef{Name: []byte(topic)}); no {
		v.refused = true
		return code
	}
	return CodeOperationNotAttempted
}
