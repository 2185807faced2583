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

// From v13 on topics go by id in Produce requests and answers (KIP-516).
func produceByID(version int16) bool { return version >= 13 }

func produceCursor(version int16, body []byte) (cursor, error) {
	if err := decodable(KeyProduce, version); err != nil {
		return cursor{}, err
	}
	return cursor{b: body, flexible: Flexible(KeyProduce, version)}, nil
}

// produceHead reads what comes before the topics.
func (c *cursor) produceHead() (acks int16, transactional bool) {
	transactional = c.nullableString() != nil
	acks = c.int16()
	c.int32() // timeout
	return acks, transactional
}

// PeekProduce reads a Produce request up to its first topic's name or id. need > 0: show at least need bytes of the body.
func PeekProduce(version int16, body []byte) (p ProducePeek, need int, err error) {
	c, err := produceCursor(version, body)
	if err != nil {
		return p, 0, err
	}
	p.Acks, p.Transactional = c.produceHead()
	// The count is not compared with the bytes that are left, because this is only a window; nothing is sized by it.
	if p.Topics = c.length(true); c.ok() && p.Topics < 0 {
		c.bad = true
	}
	if p.Topics > 0 {
		p.First = c.topic(produceByID(version))
	}
	need, err = c.partial("Produce request")
	return p, need, err
}
