package proxy

// Cause says why a connection ended: the "cause" of its log line and of the metric, nothing else.
type Cause uint8

const (
	// CauseNone: the connection lives.
	CauseNone Cause = iota
	// CauseClientClosed: the client closed after its last answer.
	CauseClientClosed
	// CauseClientLost: the client's socket failed, or it closed within a frame.
	CauseClientLost
	// CauseBrokerClosed: the broker closed.
	CauseBrokerClosed
	// CauseBrokerLost: the broker's socket failed, or it closed within a frame.
	CauseBrokerLost
	// CauseDial: no broker could be reached.
	CauseDial
	// CauseHeaderTimeout: no whole request within Limits.FirstHeader.
	CauseHeaderTimeout
	// CauseHeldTimeout: a frame that is held whole did not arrive or leave in time.
	CauseHeldTimeout
	// CauseFrameLength: a request of length 0, less, or more than the limit.
	CauseFrameLength
	// CauseTLS: as CauseFrameLength, and the bytes look like TLS.
	CauseTLS
	// CauseMalformed: a request whose bytes are not what its key and version say.
	CauseMalformed
	// CauseUnsupported: a key and version that the ApiVersions answer did not offer.
	CauseUnsupported
	// CauseRefusedAcks0: a produce without answer to a read-only topic; a broker closes too.
	CauseRefusedAcks0
	// CauseNotReady: the mirrors' state is not loaded and the request has no retriable answer.
	CauseNotReady
	// CauseLocal: the local handler failed.
	CauseLocal
	// CauseBrokerFrame: an answer that is malformed, too large, out of order or unasked for.
	CauseBrokerFrame
	// CauseConnectionLimit: more connections than Limits.Connections.
	CauseConnectionLimit
	// CauseHoldsUp: a topic is being added, and the client kept a produce unfinished or its answers unread.
	CauseHoldsUp
	// CauseStalled: the client or the broker took or gave nothing within a frame for Limits.Stalled.
	CauseStalled
	// CauseDrain: the server stops.
	CauseDrain

	causes
)

var causeNames = [causes]string{
	"none", "client_closed", "client_lost", "broker_closed", "broker_lost", "dial_failed", "header_timeout",
	"held_timeout", "bad_frame_length", "tls_on_plain_port", "malformed_request", "unsupported_version",
	"refused_acks0", "state_not_loaded", "local_handler", "bad_broker_frame", "connection_limit", "holds_up_add",
	"stalled", "drain",
}

func (c Cause) String() string { return causeNames[c] }

// routine causes are everyday life and logged at debug level.
func (c Cause) routine() bool {
	return c == CauseClientClosed || c == CauseBrokerClosed || c == CauseClientLost || c == CauseDrain
}
