package proxy

import "time"

// Limits is the one table of everything that a peer can make grow or wait for. A zero field
// takes its default.
type Limits struct {
	// Connections open at once over all listeners; more are closed at once.
	Connections int
	// RequestBytes bounds a request frame. Default: socket.request.max.bytes of a broker
	// (100 MiB) and 1 MiB, so that the broker's own limit is the one that is met.
	RequestBytes int
	// ResponseBytes bounds a response frame that is relayed.
	ResponseBytes int
	// EditBytes bounds a response that is held whole to be edited.
	EditBytes int
	// LocalBytes bounds the body of a request answered by the LocalHandler or taken apart.
	LocalBytes int
	// AdminBytes bounds a request that is taken apart: admin requests and transactions.
	AdminBytes int
	// HeldBytes is the budget of all connections together for frames held whole beyond a
	// window, one budget for requests and one for answers: with a single one, a request held
	// until the broker reads could wait for an answer that waits for the budget. A frame that
	// does not fit waits, and its peer with it.
	HeldBytes int64
	// FetchBytes is what a consumer gets in one answer that is held to have filler hidden in it, if it asks for more.
	FetchBytes int32
	// CachedBytes bounds what is remembered of batches that were looked into for filler.
	CachedBytes int64
	// InFlight is how many requests of one connection may be unanswered before its client is
	// not read any more.
	InFlight int
	// LocalCalls run at once over all connections.
	LocalCalls int
	// HeldRequests wait at once for the view to be loaded; more are answered at once.
	HeldRequests int
	// WindowBytes is the size of a read buffer, one a direction.
	WindowBytes int
	// FirstHeader is the time to the first whole request header.
	FirstHeader time.Duration
	// Held is the time that a frame held whole has to arrive, and again to leave: nobody may
	// sit on the budget of all.
	Held time.Duration
	// Dial bounds the connect to a broker.
	Dial time.Duration
	// Load is how long a request is held for the view to be loaded.
	Load time.Duration
	// LocalCall is how long one call of the LocalHandler may take.
	LocalCall time.Duration
	// Barrier is how long a client may hold up the adding of topics to mirrors: with a produce that
	// it has begun to send, to whatever topic, or with answers that it does not read before that of
	// a produce. Then it is closed. While no topic is added nobody minds.
	Barrier time.Duration
	// Stalled is how long a piece of a frame may take once the frame has begun to pass. Default: as
	// long as a broker keeps a connection that is idle (connections.max.idle.ms); it also closes
	// those on which nothing is asked, and a consumer reads nothing while it works on its records.
	Stalled time.Duration
	// Drain is how long unanswered requests have when the server stops.
	Drain time.Duration
	// UnansweredGrace is how long the gate tokens of produces stay taken after the connection
	// died unanswered: their bytes may still be in the broker's buffers.
	UnansweredGrace time.Duration
}

// WithDefaults fills the zero fields.
func (l Limits) WithDefaults() Limits {
	def(&l.Connections, 20_000)
	def(&l.RequestBytes, 101<<20)
	def(&l.ResponseBytes, 1<<31-1)
	def(&l.EditBytes, 64<<20)
	def(&l.LocalBytes, 1<<20)
	def(&l.AdminBytes, 16<<20)
	def(&l.HeldBytes, 256<<20)
	def(&l.FetchBytes, 64<<20)
	def(&l.CachedBytes, 64<<20)
	def(&l.InFlight, 1000)
	def(&l.LocalCalls, 256)
	def(&l.HeldRequests, 1000)
	def(&l.WindowBytes, 64<<10)
	def(&l.FirstHeader, 30*time.Second)
	def(&l.Held, time.Minute)
	def(&l.Dial, 10*time.Second)
	def(&l.Load, 10*time.Second)
	def(&l.LocalCall, 2*time.Minute)
	def(&l.Barrier, 5*time.Second)
	def(&l.Stalled, 10*time.Minute)
	def(&l.Drain, 10*time.Second)
	def(&l.UnansweredGrace, 5*time.Second)
	return l
}

func def[T int | int32 | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}
