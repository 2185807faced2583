package protocol

// FetchNames tells whether a Fetch request (v4+) names a topic for which is returns true. TopicRef.Name is part of the body.
func FetchNames(version int16, body []byte, is func(t TopicRef) bool) (bool, error) {
	return false, ErrMalformed
}

// AppendFetchRefusal appends a whole Fetch response body for a request that will not go upstream: partitions of topics for
// which refused is true get TOPIC_AUTHORIZATION_FAILED, all others no records and no error. No fetch session is granted.
func AppendFetchRefusal(dst []byte, version int16, requestBody []byte, refused func(t TopicRef) bool) ([]byte, error) {
	return nil, ErrMalformed
}
