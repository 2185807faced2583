package protocol

import "github.com/twmb/franz-go/pkg/kbin"

// EditMetadata rewrites the address of every broker in a Metadata answer. The brokers come first and nothing behind them
// holds an address, so only they are decoded: an answer can list 100,000 partitions, and every client asks for it again and
// again. Everything else is copied as it is.
func EditMetadata(version int16, body []byte, a AddressOf) ([]byte, error) {
	if err := decodable(KeyMetadata, version); err != nil {
		return nil, err
	}
	c := cursor{b: body, flexible: Flexible(KeyMetadata, version)}
	if version >= 3 {
		c.take(4) // throttle
	}
	brokers := c.array(10)
	dst := append(make([]byte, 0, len(body)+len(body)/8+64), body[:c.pos]...)
	for ; brokers > 0 && c.ok(); brokers-- {
		id, upstreamHost, upstreamPort := c.int32(), c.string(), c.int32()
		restFrom := c.pos
		if version >= 1 {
			c.nullableString() // rack
		}
		c.tags()
		if !c.ok() {
			break
		}
		host, port := a.rewrite(id, string(upstreamHost), upstreamPort)
		dst = kbin.AppendInt32(dst, id)
		dst = appendString(dst, host, c.flexible)
		dst = kbin.AppendInt32(dst, port)
		dst = append(dst, body[restFrom:c.pos]...)
	}
	end := c.pos
	skipMetadataRest(&c, version)
	if err := c.whole("Metadata answer"); err != nil {
		return nil, err
	}
	return append(dst, body[end:]...), nil
}

// skipMetadataRest walks what follows the brokers. It is walked only to be sure that the answer is what its version says:
// one that is not might hold an address where we do not look.
func skipMetadataRest(c *cursor, version int16) {
	if version >= 2 {
		c.nullableString() // cluster id
	}
	if version >= 1 {
		c.take(4) // controller id
	}
	for topics := c.array(7); topics > 0 && c.ok(); topics-- {
		c.take(2)          // error
		c.nullableString() // name; null where a request by id found nothing (v12+)
		if version >= 10 {
			c.take(16) // id
		}
		if version >= 1 {
			c.take(1) // internal
		}
		for partitions := c.array(12); partitions > 0 && c.ok(); partitions-- {
			c.take(2 + 4 + 4) // error, partition, leader
			if version >= 7 {
				c.take(4) // leader epoch
			}
			c.take(4 * c.array(4)) // replicas
			c.take(4 * c.array(4)) // in-sync replicas
			if version >= 5 {
				c.take(4 * c.array(4)) // offline replicas
			}
			c.tags()
		}
		if version >= 8 {
			c.take(4) // authorized operations
		}
		c.tags()
	}
	if version >= 8 && version <= 10 {
		c.take(4) // cluster authorized operations
	}
	if version >= 13 {
		c.take(2) // error
	}
	c.tags()
}

func appendString(dst []byte, s string, flexible bool) []byte {
	if flexible {
		return kbin.AppendCompactString(dst, s)
	}
	return kbin.AppendString(dst, s)
}
