package proxy

import (
	"context"
	"net"
)

// Verb is what an engine does next with the bytes of one direction.
type Verb uint8

const (
	// NeedMore: show at least N bytes, counted from the first byte of the window shown.
	NeedMore Verb = iota
	// Forward: pass the next N bytes on, then send Data. N may exceed the window.
	Forward
	// Replace: swallow the next N bytes (all of them in the window) and send Data.
	Replace
	// Discard: swallow the next N bytes. N may exceed the window.
	Discard
	// Wait: ask again when Until is closed; until then take nothing from the peer.
	Wait
	// Close: requests: take no more, answer what is due, close. Responses: close now.
	Close
)

// Decision is a verb with its arguments. Data may share memory with the window shown.
type Decision struct {
	Verb  Verb
	N     int
	Data  []byte
	Until <-chan struct{}
	// Call is to be started, before the N bytes are swallowed: its body may be part of them.
	Call *call
	// Cause and Err tell why, for Close.
	Cause Cause
	Err   error
}

// Engine carries out the decisions of sessions on real connections. Serve runs one client
// connection until both its sides are closed; dial is called when the first request that needs
// it has come. ctx ends the connection at once.
type Engine interface {
	Serve(ctx context.Context, client net.Conn, dial func(context.Context) (net.Conn, error), session *Session) (Cause, error)
}
