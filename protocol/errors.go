package protocol

import (
	"errors"
	"fmt"
)

// Kafka error codes that the proxy gives or looks at (org.apache.kafka.common.protocol.Errors).
const (
	CodeUnknownServerError                 int16 = -1
	CodeNone                               int16 = 0
	CodeUnknownTopicOrPartition            int16 = 3
	CodeNotLeaderOrFollower                int16 = 6
	CodeCoordinatorLoadInProgress          int16 = 14
	CodeCoordinatorNotAvailable            int16 = 15
	CodeNotCoordinator                     int16 = 16
	CodeTopicAuthorizationFailed           int16 = 29
	CodeClusterAuthorization               int16 = 31
	CodeUnsupportedVersion                 int16 = 35
	CodeInvalidConfig                      int16 = 40
	CodeInvalidRequest                     int16 = 42
	CodePolicyViolation                    int16 = 44
	CodeTransactionalIDAuthorizationFailed int16 = 53
	CodeOperationNotAttempted              int16 = 55
	CodeKafkaStorageError                  int16 = 56
	CodeUnknownTopicID                     int16 = 100
	CodeReadOnlyTopic                      int16 = 134
)

// Texts that go to clients.
const (
	MessageMirrorNameConfig = "The 'mirror.name' configuration can only be modified through dedicated mirror management APIs."
	MessageStateTopic       = "__mirror_state belongs to kafka-mirror-proxy."
)

// ErrMalformed is wrapped by every error about bytes that are not what their key and version say: a length beyond the end,
// a null where Kafka allows none, a number too long.
var ErrMalformed = errors.New("malformed")

// ErrUnsupportedVersion is wrapped when a message has a version that this package does not decode. It means that the peer
// did not keep to the ApiVersions answer (or never asked).
var ErrUnsupportedVersion = errors.New("version not supported")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

func unsupported(key, version int16) error {
	return fmt.Errorf("%s v%d: %w", KeyName(key), version, ErrUnsupportedVersion)
}
