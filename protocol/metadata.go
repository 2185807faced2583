package protocol

// EditMetadata rewrites the address of every broker in a Metadata answer.
func EditMetadata(version int16, body []byte, a AddressOf) ([]byte, error) { return nil, ErrMalformed }
