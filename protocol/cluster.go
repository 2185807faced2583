package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// EditDescribeCluster rewrites the addresses in a DescribeCluster answer: brokers, fenced ones too (v2+), or controllers
// where the client asked for those (v1+). Both come in the same array; a controller's node id gets an address as a broker's
// does, and whether anything listens there is the proxy's business.
func EditDescribeCluster(version int16, body []byte, a AddressOf) ([]byte, error) {
	r := kmsg.NewPtrDescribeClusterResponse()
	if err := decode(version, body, r); err != nil {
		return nil, err
	}
	for i := range r.Brokers {
		b := &r.Brokers[i]
		b.Host, b.Port = a.rewrite(b.NodeID, b.Host, b.Port)
	}
	return encode(r, len(body)), nil
}
