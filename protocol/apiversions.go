package protocol

// UpstreamVersions are the highest versions that the broker itself offered, -1 when it did not offer the key, for the keys
// where clients may be told more than the broker knows.
type UpstreamVersions struct {
	FindCoordinator int16
	CreateTopics    int16
}

// EditApiVersions edits a broker's ApiVersions answer: APIs that are looked into are capped to the versions that this
// package decodes (never raised), SaslHandshake begins at v1, Produce at v3, Fetch at v4; with mirrors the mirror APIs of the
// seed dialect replace whatever the broker has at their keys, FindCoordinator goes up to 7 and CreateTopics up to 8 where
// the broker can take the requests in their older form. Other keys and the features stay. An answer with error 35 comes
// in the encoding of v0 whatever was asked; it keeps that encoding, only its rows are capped.
func EditApiVersions(version int16, body []byte, mirrors bool) (edited []byte, upstream UpstreamVersions, err error) {
	return nil, upstream, ErrMalformed
}

// AppendApiVersionsRefusal appends the body that answers an ApiVersions request of a version above ours, as a broker does
// (KIP-511): error 35 in the encoding of v0, with the versions of ApiVersions that can be used. Such a request must not go
// upstream: a newer broker would answer it in an encoding that cannot be edited.
func AppendApiVersionsRefusal(dst []byte) []byte { return dst }
