package mirrorapi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// networkException is Kafka's code for a cluster that could not be reached; clients may try again.
const networkException mirrormsg.ErrorCode = 13

// failure is an error that a client is told: a code, and a sentence.
type failure struct {
	code    mirrormsg.ErrorCode
	message string
}

func (f *failure) Error() string { return f.message }

func failf(code mirrormsg.ErrorCode, format string, args ...any) *failure {
	return &failure{code: code, message: fmt.Sprintf(format, args...)}
}

// codeOf returns the code and message that a client gets for err: those of a failure, of a refusal by the store, of an
// answer by a broker, or of a cluster that did not answer.
func codeOf(err error) (code mirrormsg.ErrorCode, message string) {
	var f *failure
	var s *state.Error
	var k *kerr.Error
	switch {
	case errors.As(err, &f):
		return f.code, err.Error()
	case errors.As(err, &s):
		return storeCode(s.Code), s.Message // a sentence of its own, which names what it is about
	case errors.As(err, &k):
		return mirrormsg.ErrorCode(k.Code), err.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, state.ErrOutcomeUnknown):
		return mirrormsg.RequestTimedOut, err.Error()
	default:
		return networkException, err.Error()
	}
}

// storeCode gives the codes of wire.md section 3 to the store's refusals.
func storeCode(code state.Code) mirrormsg.ErrorCode {
	switch code {
	case state.CodeUnknownMirror:
		return mirrormsg.UnknownMirror
	case state.CodeTopicInMirror:
		return mirrormsg.TopicAlreadyInMirror
	case state.CodeTopicNotInMirror:
		return mirrormsg.TopicNotInMirror
	case state.CodeAlreadyPaused:
		return mirrormsg.MirrorTopicAlreadyPaused
	case state.CodeNotPaused:
		return mirrormsg.MirrorTopicNotPaused
	case state.CodeBeingRemoved:
		return mirrormsg.MirrorTopicBeingRemoved
	case state.CodeNotOwner:
		return mirrormsg.CoordinatorNotAvailable
	case state.CodeNotLoaded:
		return mirrormsg.CoordinatorLoadInProgress
	default: // CodeMirrorExists, CodeMirrorNotEmpty, CodeBadTransition, CodeInvalid: the dialect has no code of their own
		return mirrormsg.InvalidRequest
	}
}

func setFailure(status *mirrormsg.Status, err error) {
	code, message := codeOf(err)
	status.ErrorCode, status.ErrorMessage = code, &message
}

const maxReasonsTold = 5

// setTopFailure raises the failures of single topics to the top level when nothing succeeded. failed holds the failures in
// order, of total topics.
func setTopFailure(status *mirrormsg.Status, failed []error, total int) {
	if len(failed) == 0 || len(failed) < total {
		return
	}
	code, _ := codeOf(failed[0])
	var reasons []string
	for i, err := range failed {
		if i == maxReasonsTold {
			reasons = append(reasons, fmt.Sprintf("and %d more", len(failed)-i))
			break
		}
		reasons = append(reasons, err.Error())
	}
	message := strings.Join(reasons, "; ")
	status.ErrorCode, status.ErrorMessage = code, &message
}

// brokerError turns a code in a broker's answer, and its message where it has one, into an error; nil for code 0.
func brokerError(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err == nil {
		return nil
	}
	if message != nil && *message != "" {
		return fmt.Errorf("%w (%s)", err, *message)
	}
	return err
}
