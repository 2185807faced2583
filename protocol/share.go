package protocol

// EditShareFetch rewrites the node endpoints of a ShareFetch answer.
func EditShareFetch(version int16, body []byte, a AddressOf) ([]byte, error) {
	return nil, ErrMalformed
}

// EditShareAcknowledge rewrites the node endpoints of a ShareAcknowledge answer.
func EditShareAcknowledge(version int16, body []byte, a AddressOf) ([]byte, error) {
	return nil, ErrMalformed
}
