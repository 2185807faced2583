// Package mirrormsg holds the messages of the Cluster Mirroring APIs (KIP-1279) as plain structs, and their bytes.
//
// The bytes are those of the reference's message classes: version 0 only, flexible (request header v2, response header v1,
// compact strings and arrays, a tagged-field section at the end of every structure). What the proxy has to say beyond them
// travels in tagged fields from tag 10,000 up, which a client that does not know them skips; without them every message
// has exactly the reference's bytes.
//
// Decoding is strict. The numbers of these APIs were given to other APIs later (Kafka 4.4 uses key 94 for
// UnregisterController), so a body that is not wholly and exactly one of ours is an error, never a guess: no null where
// null is not allowed, no bytes left over, no count that the bytes left could not hold (checked before any allocation).
//
// The package is pure: no network, no clock, no state.
package mirrormsg
