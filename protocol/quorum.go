package protocol

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// EditDescribeQuorum rewrites the listeners of the voters' nodes in a DescribeQuorum answer (v2+, KIP-853; others hold none).
func EditDescribeQuorum(version int16, body []byte, a AddressOf) ([]byte, error) {
	r := kmsg.NewPtrDescribeQuorumResponse()
	if err := decode(version, body, r); err != nil {
		return nil, err
	}
	for i := range r.Nodes {
		node := &r.Nodes[i]
		for j := range node.Listeners {
			l := &node.Listeners[j]
			host, port := a.rewrite(node.NodeID, l.Host, int32(l.Port))
			if node.NodeID < 0 {
				port = 0 // this field is unsigned: there is no -1
			}
			if port < 0 || port > math.MaxUint16 {
				return nil, fmt.Errorf("DescribeQuorum answer: node %d has port %d", node.NodeID, port)
			}
			l.Host, l.Port = host, uint16(port)
		}
	}
	return encode(r, len(body)), nil
}
