// Package state holds what the mirrors are: mirrors, their topics, and for each partition what the operator wants
// (Desired), what is (Status) and how far the replicator has come (Progress).
//
// A command is decided by a pure reducer on a model and becomes records; records applied to a model, in any order that
// keeps the order per key, give the same View. The View is immutable and read through an atomic pointer by the proxy,
// the mirror APIs and the replicator. Store is the seam between them and where the records are kept: Memory, or Kafka
// (the compacted topic __mirror_state on the destination).
//
// Files: model.go, status.go (the nouns), command.go and command_*.go (the reducer), draft.go (applying records),
// view.go (reading), record*.go (bytes), store*.go (keeping), live.go (figures that are not stored).
package state
