package produce

import (
	"errors"
	"fmt"
)

// Verdict says what a Fault asks for.
type Verdict int8

const (
	// Retry: a passing condition, such as a leader that moved. Align and go on.
	Retry Verdict = iota
	// Ambiguous: a batch was sent and nobody knows whether it was appended, or still will be.
	Ambiguous
	// Refused: something an operator has to change (a limit, a right); trying again may help then.
	Refused
	// Quarantined: the destination holds what the mirror did not write, or the source what the
	// mirror must not copy. Trying again does not help.
	Quarantined
	// Stale: what Align found is too old to act on. Align and go on at once.
	Stale
	// Unguarded: the next batch would let the broker forget the producer while something that was sent before may still
	// be under way. Wait for that, align and go on.
	Unguarded
	// Missing: what is needed is not there, which is believed after a few looks only.
	Missing
	// LostLease: this process does not own the mirrors any more.
	LostLease
)

func (v Verdict) String() string {
	return [...]string{"retry", "ambiguous", "refused", "quarantined", "stale", "unguarded", "missing", "lost lease"}[v]
}

// Fault ends work on a partition. Text is a sentence for the operator that names what is needed
// to act on it.
type Fault struct {
	Verdict Verdict
	Text    string
	Err     error // may be nil
	// BeginOffset is, with Ambiguous, where the batch of unknown fate begins.
	BeginOffset int64
	// TooLargeBytes is the size of a batch that is larger than the topic's max.message.bytes; 0 with any other trouble.
	TooLargeBytes int
}

func (f *Fault) Error() string {
	if f.Err == nil {
		return f.Text
	}
	return f.Text + ": " + f.Err.Error()
}

func (f *Fault) Unwrap() error { return f.Err }

// Faultf makes a Fault without a cause.
func Faultf(verdict Verdict, format string, args ...any) *Fault {
	return &Fault{Verdict: verdict, Text: fmt.Sprintf(format, args...)}
}

// Because makes a Fault with a cause. A cause that is a Fault decides the verdict.
func Because(verdict Verdict, err error, format string, args ...any) *Fault {
	var inner *Fault
	if errors.As(err, &inner) {
		verdict = inner.Verdict
	}
	return &Fault{Verdict: verdict, Text: fmt.Sprintf(format, args...), Err: err}
}
