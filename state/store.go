package state

import (
	"context"
	"errors"
)

// Store keeps the state. Its methods may be called from several goroutines.
type Store interface {
	// View is the newest snapshot; never nil.
	View() *View
	// Subscribe returns a channel (capacity 1) that holds a token after each new view, and the function that ends the
	// subscription. A token says only that View is worth reading again: several changes may share one.
	Subscribe() (changed <-chan struct{}, cancel func())
	// Do decides the commands in order and stores what they change: all or nothing. It returns when that is durable and
	// View shows it. A command that is refused answers with *Error, as does a store that is not owner (CodeNotOwner) or
	// not loaded (CodeNotLoaded). ErrOutcomeUnknown, and a context that ends meanwhile, mean that the commands may or may
	// not have been carried out; View tells in the end.
	Do(ctx context.Context, commands ...Command) error
	// Lease says that this process owns the mirrors at this moment, by the monotonic clock. Check it right before each
	// write to a mirror topic.
	Lease() bool
	// Generation of this process's ownership, which grows with each take-over; 0 when it is not the owner.
	Generation() int64
}

// ErrOutcomeUnknown: the store lost its ownership while it wrote the commands.
var ErrOutcomeUnknown = errors.New("the ownership of the mirrors was lost while the change was written; it may or may not have been made")
