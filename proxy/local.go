package proxy

import "context"

// LocalRequest is one request that the proxy answers itself.
type LocalRequest struct {
	Key           int16
	Version       int16
	CorrelationID int32
	// Body is what follows the request header. It is valid until Handle returns.
	Body []byte
	// NodeID is the broker whose listener the client connected to, -1 for the bootstrap listener.
	NodeID int32
	// Client is the client's address, host:port.
	Client string
	// Dialect names the meaning of the mirror API keys on the listener.
	Dialect string
}

// LocalHandler answers the requests that never reach a broker: the mirror APIs (keys 94 to
// 104), FindCoordinator of key type 3, CreateTopics v8 with a MirrorInfo, and the part of
// Describe- and IncrementalAlterConfigs requests that names mirrors (resource type 64).
type LocalHandler interface {
	// Handle returns the response body that follows the response header. An error closes the
	// client's connection. ctx ends with the connection, or after Limits.LocalCall.
	Handle(ctx context.Context, request LocalRequest) (body []byte, err error)
}

// DialectNone is the dialect of a listener without mirror APIs.
const DialectNone = "none"
