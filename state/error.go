package state

import "fmt"

// Code is why a command was refused.
type Code int

const (
	CodeUnknownMirror    Code = iota + 1 // the mirror does not exist, or the topic is in none
	CodeMirrorExists                     // with other configs
	CodeTopicInMirror                    // the topic is in a mirror already
	CodeTopicNotInMirror                 // the topic is in another mirror, or unknown by its id
	CodeAlreadyPaused
	CodeNotPaused
	CodeBeingRemoved
	CodeMirrorNotEmpty
	CodeBadTransition
	CodeNotOwner
	CodeNotLoaded
	CodeInvalid // the command itself makes no sense: a negative number, a record that would be too large, a limit
)

// Error is a refusal, with a sentence for the operator.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return e.Message }

func refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
