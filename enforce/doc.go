// Package enforce holds the proxy's verdicts: what happens to a request by its API key
// (table.go, the whole policy on one screen), whether a topic may be written (policy.go), and
// the barrier that tells when every produce judged by an older view is done with (gate.go).
// It does no I/O and reads no clock.
package enforce
