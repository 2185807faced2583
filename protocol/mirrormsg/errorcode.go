package mirrormsg

import "strconv"

// ErrorCode is a Kafka error code as the seed dialect numbers them. Codes from 134 up mean other things to Kafka 4.4.
type ErrorCode int16

// The codes of the mirror APIs.
const (
	ReadOnlyTopic            ErrorCode = 134
	InvalidMirrorName        ErrorCode = 135
	UnknownMirror            ErrorCode = 136
	TopicAlreadyInMirror     ErrorCode = 137
	TopicNotInMirror         ErrorCode = 138
	MirrorTopicAlreadyPaused ErrorCode = 139
	MirrorTopicNotPaused     ErrorCode = 140
	MirrorTopicBeingRemoved  ErrorCode = 141
)

// Kafka's own codes that the mirror APIs answer with.
const (
	UnknownServerError         ErrorCode = -1
	NoError                    ErrorCode = 0
	UnknownTopicOrPartition    ErrorCode = 3
	RequestTimedOut            ErrorCode = 7
	CoordinatorLoadInProgress  ErrorCode = 14
	CoordinatorNotAvailable    ErrorCode = 15
	NotCoordinator             ErrorCode = 16
	InvalidTopicException      ErrorCode = 17
	TopicAuthorizationFailed   ErrorCode = 29
	ClusterAuthorizationFailed ErrorCode = 31
	UnsupportedVersion         ErrorCode = 35
	TopicAlreadyExists         ErrorCode = 36
	InvalidPartitions          ErrorCode = 37
	InvalidReplicationFactor   ErrorCode = 38
	InvalidReplicaAssignment   ErrorCode = 39
	InvalidConfig              ErrorCode = 40
	NotController              ErrorCode = 41
	InvalidRequest             ErrorCode = 42
	SecurityDisabled           ErrorCode = 54
	InconsistentTopicID        ErrorCode = 103
)

var stockErrorNames = map[ErrorCode]string{
	UnknownServerError:         "UNKNOWN_SERVER_ERROR",
	NoError:                    "NONE",
	UnknownTopicOrPartition:    "UNKNOWN_TOPIC_OR_PARTITION",
	RequestTimedOut:            "REQUEST_TIMED_OUT",
	CoordinatorLoadInProgress:  "COORDINATOR_LOAD_IN_PROGRESS",
	CoordinatorNotAvailable:    "COORDINATOR_NOT_AVAILABLE",
	NotCoordinator:             "NOT_COORDINATOR",
	InvalidTopicException:      "INVALID_TOPIC_EXCEPTION",
	TopicAuthorizationFailed:   "TOPIC_AUTHORIZATION_FAILED",
	ClusterAuthorizationFailed: "CLUSTER_AUTHORIZATION_FAILED",
	UnsupportedVersion:         "UNSUPPORTED_VERSION",
	TopicAlreadyExists:         "TOPIC_ALREADY_EXISTS",
	InvalidPartitions:          "INVALID_PARTITIONS",
	InvalidReplicationFactor:   "INVALID_REPLICATION_FACTOR",
	InvalidReplicaAssignment:   "INVALID_REPLICA_ASSIGNMENT",
	InvalidConfig:              "INVALID_CONFIG",
	NotController:              "NOT_CONTROLLER",
	InvalidRequest:             "INVALID_REQUEST",
	SecurityDisabled:           "SECURITY_DISABLED",
	InconsistentTopicID:        "INCONSISTENT_TOPIC_ID",
}

// String returns the code's name in the seed dialect or in Kafka, the number for a code that is neither a mirror code nor
// one that the mirror APIs answer with.
func (c ErrorCode) String() string {
	if row, ok := Seed.Error(c); ok {
		return row.Name
	}
	if name, ok := stockErrorNames[c]; ok {
		return name
	}
	return strconv.Itoa(int(c))
}

// Message returns the default message of a mirror code in the seed dialect, the empty string for any other code.
func (c ErrorCode) Message() string {
	row, _ := Seed.Error(c)
	return row.Message
}
