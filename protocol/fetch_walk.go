package protocol

// FetchStep is what FetchWalker.Next asks of its caller.
type FetchStep int8

const (
	// FetchNeed: show at least n bytes in the window and call again. n never exceeds what is left of the body.
	FetchNeed FetchStep = iota
	// FetchPass: forward the next n bytes, those in the window as they are now (Next may have edited them in place). n may
	// exceed the window: the rest are records, which need not be looked at and may be spliced.
	FetchPass
	// FetchEnd: the body is over.
	FetchEnd
)

// MaxEndpointsBytes is the most that FetchWalker asks to see at once. A node endpoints field longer than this is blanked.
const MaxEndpointsBytes = 16 << 10

// FetchWalker is a resumable walk over the body of a Fetch answer of v16 or later; earlier ones hold no address and can be
// relayed unread. It rewrites the node endpoints (KIP-951) in place with the same length, so the frame's size stays true
// although it was sent long before. Where our addresses do not fit, the field is turned into an unknown tagged field of
// zeros: a hint is lost (the client asks for metadata instead), never an upstream host shown. The zero value is not ready; call Reset.
type FetchWalker struct{}

// Reset begins a new body of bodyBytes bytes.
func (w *FetchWalker) Reset(version int16, bodyBytes int, a AddressOf) error { return ErrMalformed }

// Next looks at window, whose first byte is the first body byte that was not passed yet, and tells the caller what to do.
func (w *FetchWalker) Next(window []byte) (step FetchStep, n int, err error) {
	return 0, 0, ErrMalformed
}
