package enforce

// Action is what the proxy does with a request.
type Action int8

const (
	// Relay passes request and answer as they are. Unknown keys are relayed: the proxy
	// survives the next Kafka release that way.
	Relay Action = iota
	// Peek looks at the topics that the request names and may refuse them.
	Peek
	// Edit passes the request and rewrites the answer.
	Edit
	// Split takes the request apart: what concerns mirrors or our state topic is answered
	// here, the rest goes to the broker, and the answers are put together.
	Split
	// Local answers the request here.
	Local
	// Refuse closes the connection, as a broker does with a request it does not speak.
	Refuse
)

// API keys with another action than Relay.
const (
	produce             = 0
	fetch               = 1
	metadata            = 3
	findCoordinator     = 10
	saslHandshake       = 17
	apiVersions         = 18
	createTopics        = 19
	deleteTopics        = 20
	deleteRecords       = 21
	initProducerID      = 22
	addPartitionsToTxn  = 24
	addOffsetsToTxn     = 25
	endTxn              = 26
	writeTxnMarkers     = 27
	txnOffsetCommit     = 28
	describeConfigs     = 32
	alterConfigs        = 33
	createPartitions    = 37
	incrementalAlter    = 44
	describeQuorum      = 55
	describeCluster     = 60
	shareFetch          = 78
	shareAcknowledge    = 79
	createMirror        = 94
	deleteMirror        = 104
	lowestFramedSasl    = 1
	lowestRecordBatches = 3
)

// ActionFor is the whole policy. The session looks up nothing else to decide what to do with a
// key; how it does it is the session's.
func ActionFor(key, version int16) Action {
	switch key {
	case produce:
		if version < lowestRecordBatches { // message sets of magic 0 and 1; no broker since 4.0 takes them
			return Refuse
		}
		return Peek // read-only topics are refused
	case addPartitionsToTxn, writeTxnMarkers:
		return Peek // even an empty aborted transaction writes a marker and shifts the log
	case initProducerID, addOffsetsToTxn, endTxn, txnOffsetCommit:
		return Peek // the transactional id of the mirrors' owner: with it a client would take the mirrors over
	case fetch, shareFetch:
		return Split // our state topic is not for reading; broker addresses in the answers are edited
	case createTopics, deleteTopics, deleteRecords, createPartitions, alterConfigs, incrementalAlter, describeConfigs:
		return Split // our state topic, mirrors as resources, mirror.name as a config, what read-only topics are made of
	case metadata, describeCluster, describeQuorum, shareAcknowledge:
		return Edit // broker addresses
	case findCoordinator:
		return Split // key type MIRROR is ours; else broker addresses
	case apiVersions:
		return Edit // capped to what is edited here, mirror APIs added
	case saslHandshake:
		if version < lowestFramedSasl { // the tokens after it are not framed: nothing could be told apart
			return Refuse
		}
		return Relay
	}
	if key >= createMirror && key <= deleteMirror {
		return Local
	}
	return Relay
}

// ownedConfig says which topic configs replication owns: with another value a read-only topic would lose records, or could
// not be given the source's as they are.
func ownedConfig(key string) bool {
	switch key {
	case "cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes", "compression.type",
		"message.timestamp.type", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
		"message.timestamp.difference.max.ms", "unclean.leader.election.enable":
		return true
	}
	return false
}
