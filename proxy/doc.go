// Package proxy is the data plane: one client connection is one broker connection, and
// everything that needs no look passes through it unread.
//
// The life of a frame:
//
//	client ──► window ──► Session.OnRequest ──► verb ──► broker
//	                        │ push entry (before the bytes go upstream)
//	                        ▼
//	                  queue: relay | edit | walk | hide | merge | local | probe
//	                        │ pop entry (after the answer is written)
//	                        ▲
//	client ◄── verb ◄── Session.OnResponse ◄── window ◄── broker
//
// The Session (session.go, request.go, write.go, admin.go, fetch.go, response.go) decides; it does no I/O and reads no
// clock. An Engine (engine.go; engine_net.go is the one there is) owns sockets, buffers and
// deadlines and carries the decisions out. Kafka answers in request order on a connection, so
// the queue (inflight.go) is a plain FIFO, correlation ids are never rewritten, and an answer
// made here waits for its turn.
//
// Produces hold a token of the enforce.Gate from before their verdict until the broker has
// answered. acks=0 has no answer, so a probe (an ApiVersions v0 request of our own) is slipped
// in behind it: a broker takes the requests of a connection one at a time, so its answer to the
// probe says that the produce is done with.
//
// Filler (records that a mirror writes where its source has none) is hidden from consumers: see fetch.go. A Fetch answer
// that may hold some is held whole and looked into; all others pass unread.
//
// While a barrier waits, a client may not keep a produce unfinished: see patrol.go.
//
// What a dead connection leaves behind: when the client goes, answers that are still due are
// read and dropped until no produce is unanswered, at most Limits.UnansweredGrace. Then, or
// when the broker went first, the broker's socket is reset, which drops what our kernel had not
// delivered. Bytes already in the broker's kernel, or a request in its queue, can still be
// executed after that and no client can see it; the tokens stay taken for UnansweredGrace more.
// That bound is a bet against a frozen broker, not a proof. What is left is found by what comes
// after the barrier: the emptiness check at add and the base offset of every mirrored append.
package proxy
