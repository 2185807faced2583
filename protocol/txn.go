package protocol

// RefuseTopic is a verdict about one topic of a request. t is valid for the call only.
type RefuseTopic func(t TopicRef) (code int16, message string, refused bool)

// RefuseAddPartitions judges an AddPartitionsToTxn request. When one topic is refused nothing may go upstream: answer is the
// whole response body, in which the refused partitions have their code and all others OPERATION_NOT_ATTEMPTED.
func RefuseAddPartitions(version int16, body []byte, refuse RefuseTopic) (answer []byte, refused bool, err error) {
	return nil, false, ErrMalformed
}

// RefuseTxnMarkers does the same for WriteTxnMarkers.
func RefuseTxnMarkers(version int16, body []byte, refuse RefuseTopic) (answer []byte, refused bool, err error) {
	return nil, false, ErrMalformed
}
