package protocol

// EditDescribeCluster rewrites the addresses in a DescribeCluster answer: brokers (fenced ones too) and controllers.
func EditDescribeCluster(version int16, body []byte, a AddressOf) ([]byte, error) {
	return nil, ErrMalformed
}
