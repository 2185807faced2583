package protocol

// TopicRef names a topic as a request does: by name or, ByID, by its 16 byte id.
type TopicRef struct {
	Name []byte
	ID   [16]byte
	ByID bool
}

// ProducePeek is what the first bytes of a Produce request tell.
type ProducePeek struct {
	Acks          int16
	Transactional bool
	Topics        int
	First         TopicRef // valid when Topics > 0; Name is part of the body
}

// PeekProduce reads a Produce request up to its first topic's name or id. need > 0: show at least need bytes of the body.
func PeekProduce(version int16, body []byte) (p ProducePeek, need int, err error) {
	return p, 0, ErrMalformed
}

// WalkProduce visits each partition of a Produce request in order. records may be nil (null on the wire). Name and records
// are parts of the body. An error of visit ends the walk and is returned.
func WalkProduce(version int16, body []byte, visit func(t TopicRef, partition int32, records []byte) error) error {
	return ErrMalformed
}
