// Package protocol reads and edits Kafka frames as bytes: what the proxy must peek at, decode or rewrite, and nothing else.
// It is pure: no network, no clock, no log. An API key that is not named in keys.go is opaque and must stay so, which is
// what lets the proxy survive the next Kafka release.
//
// Reading order: frame.go (headers), keys.go (what is decoded, up to which version), walk.go (the bounded cursor below
// everything), then one file per API.
//
//	Produce                peeked, walked, split, merged        produce.go, produce_split.go, produce_answer.go
//	Fetch                  request peeked, answer walked,       fetch_request.go, fetch_walk.go, fetch_endpoints.go,
//	                       record sets exchanged                fetch_records.go
//	Metadata               broker addresses                     metadata.go
//	FindCoordinator        coordinator addresses, key type 3    coordinator.go
//	DescribeCluster        broker and controller addresses      cluster.go
//	DescribeQuorum         listeners of the voters' nodes       quorum.go
//	ShareFetch/Acknowledge node endpoints, record sets          share.go
//	ApiVersions            what clients may send                apiversions.go
//	AddPartitionsToTxn, WriteTxnMarkers                         txn.go
//	topics, configs        split, merged                        admin.go, admin_*.go, createtopics.go
//
// Frequent messages are walked as bytes without allocating; rare ones go through kmsg (decode.go). DescribeTopicPartitions
// holds no address and is relayed.
//
// All bodies are without the request or response header. Integers are big endian. Slices returned by an edit may share
// memory with the body that they were made from, unless a function says otherwise.
package protocol
