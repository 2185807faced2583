package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// EditShareFetch rewrites the node endpoints of a ShareFetch answer (KIP-932).
func EditShareFetch(version int16, body []byte, a AddressOf) ([]byte, error) {
	r := kmsg.NewPtrShareFetchResponse()
	if err := decode(version, body, r); err != nil {
		return nil, err
	}
	if len(r.NodeEndpoints) == 0 {
		return body, nil
	}
	for i := range r.NodeEndpoints {
		n := &r.NodeEndpoints[i]
		n.Host, n.Port = a.rewrite(n.NodeID, n.Host, n.Port)
	}
	return encode(r, len(body)), nil
}

// EditShareAcknowledge rewrites the node endpoints of a ShareAcknowledge answer (KIP-932).
func EditShareAcknowledge(version int16, body []byte, a AddressOf) ([]byte, error) {
	r := kmsg.NewPtrShareAcknowledgeResponse()
	if err := decode(version, body, r); err != nil {
		return nil, err
	}
	if len(r.NodeEndpoints) == 0 {
		return body, nil
	}
	for i := range r.NodeEndpoints {
		n := &r.NodeEndpoints[i]
		n.Host, n.Port = a.rewrite(n.NodeID, n.Host, n.Port)
	}
	return encode(r, len(body)), nil
}
