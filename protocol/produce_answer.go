package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// EditProduceResponse rewrites the node endpoints of a Produce answer (KIP-951: v10+; other versions hold none). The usual
// answer has no endpoints: it is walked to its end without an allocation and body itself is returned.
func EditProduceResponse(version int16, body []byte, a AddressOf) ([]byte, error) {
	if !HasNodeEndpoints(KeyProduce, version) {
		return body, nil
	}
	tagged, err := produceAnswerTagged(version, body)
	if err != nil {
		return nil, err
	}
	if !tagged {
		return body, nil
	}
	r := kmsg.NewPtrProduceResponse()
	if err := decode(version, body, r); err != nil {
		return nil, err
	}
	for i := range r.Brokers {
		b := &r.Brokers[i]
		b.Host, b.Port = a.rewrite(b.NodeID, b.Host, b.Port)
	}
	return encode(r, len(body)), nil
}

// produceAnswerTagged walks a Produce answer of v10 or later and tells whether anything follows in its own tagged fields,
// where the node endpoints are.
func produceAnswerTagged(version int16, body []byte) (bool, error) {
	c, err := produceCursor(version, body)
	if err != nil {
		return false, err
	}
	for topics := c.array(2); topics > 0 && c.ok(); topics-- {
		c.topic(produceByID(version))
		for partitions := c.array(33); partitions > 0 && c.ok(); partitions-- {
			c.take(4 + 2 + 8 + 8 + 8) // partition, error, base offset, append time, log start
			for records := c.array(6); records > 0 && c.ok(); records-- {
				c.take(4)
				c.nullableString()
				c.tags()
			}
			c.nullableString() // error message
			c.tags()
		}
		c.tags()
	}
	c.take(4) // throttle
	tagged := c.pos < len(body) && body[c.pos] != 0
	c.tags()
	return tagged, c.whole("Produce answer")
}
