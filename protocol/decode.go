package protocol

import "fmt"

// message is what kmsg's requests and responses have in common.
type message interface {
	Key() int16
	SetVersion(int16)
	ReadFrom([]byte) error
	UnsafeReadFrom([]byte) error
	AppendTo([]byte) []byte
}

// decode reads a whole body with kmsg. The message's strings and bytes are parts of body, which must not change while the
// message is in use. Unknown tagged fields are kept and written again by AppendTo.
func decode(version int16, body []byte, m message) error {
	if err := decodable(m.Key(), version); err != nil {
		return err
	}
	m.SetVersion(version)
	if err := m.UnsafeReadFrom(body); err != nil {
		return fmt.Errorf("%w %s v%d: %w", ErrMalformed, KeyName(m.Key()), version, err)
	}
	return nil
}

// decodeCopy is decode with strings of the message's own: for what outlives the body.
func decodeCopy(version int16, body []byte, m message) error {
	if err := decodable(m.Key(), version); err != nil {
		return err
	}
	m.SetVersion(version)
	if err := m.ReadFrom(body); err != nil {
		return fmt.Errorf("%w %s v%d: %w", ErrMalformed, KeyName(m.Key()), version, err)
	}
	return nil
}

// encode writes a message that was decoded from about sizeBytes bytes.
func encode(m message, sizeBytes int) []byte {
	return m.AppendTo(make([]byte, 0, sizeBytes+sizeBytes/8+64))
}
