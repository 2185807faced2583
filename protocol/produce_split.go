package protocol

// RefusedPartition is one partition that was taken out of a request, and why. It shares no memory with the request.
type RefusedPartition struct {
	Topic     TopicRef
	Partition int32
	Code      int16
	Message   string
}

// SplitProduce takes the topics that refuse refuses out of a Produce request. remainder is nil when nothing is left, and
// body itself when nothing was refused. refuse is asked once per topic entry; its TopicRef is valid for that call only.
func SplitProduce(version int16, body []byte, refuse func(t TopicRef) (code int16, message string, refused bool)) (remainder []byte, refused []RefusedPartition, err error) {
	return nil, nil, ErrMalformed
}

// AppendProduceRefusal appends a whole Produce response body that answers only the refused partitions.
func AppendProduceRefusal(dst []byte, version int16, refused []RefusedPartition) []byte { return dst }

// MergeProduce adds the refused partitions to the broker's answer to the remainder.
func MergeProduce(version int16, upstreamBody []byte, refused []RefusedPartition) ([]byte, error) {
	return nil, ErrMalformed
}

// EditProduceResponse rewrites the node endpoints of a Produce answer (v10+; other versions hold none).
func EditProduceResponse(version int16, body []byte, a AddressOf) ([]byte, error) {
	return nil, ErrMalformed
}
