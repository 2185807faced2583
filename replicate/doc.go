// Package replicate copies mirror partitions from their sources to the destination.
//
//	Replicator   while this process owns the mirrors: one runner per mirror partition of the view
//	partition    the life of one: plan (pure) says what comes next, the runner does it
//	session      one try at mirroring: align, fill, then fetch -> check -> stream until something ends it
//	source       one source cluster of a mirror; its fetchers, one or more per broker, serve many partitions
//	watch        a look at a mirror's topics on both clusters now and then: what copying does not notice
//	trimming     deletes on the destination what the source has deleted
//	Budget       bytes fetched and not yet written, for the whole process
//	produce      the engine that writes to the destination
//
// Everything is level-triggered: a runner looks at the view, does one step and looks again, so
// that a change it was not told about heals itself. A session ends with the first thing that is
// not as expected, and the next one begins by reading what really is; nothing is repaired in
// place. What cannot be mirrored ends in FAILED with a sentence; what passes is tried again.
package replicate
