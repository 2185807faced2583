package acceptance

// Isolation levels and starts of a readOrder, as the readers take them on their command lines.
const (
	readUncommitted = "read_uncommitted"
	readCommitted   = "read_committed"

	startBeginning = "beginning" // assigned, from the log's start
	startGroup     = "group"     // subscribed, as a new group that begins at the log's start
	startOffset    = "offset"    // assigned, from readOrder.offset
)

// readOrder is what a reader is to do with partition 0 of a topic.
type readOrder struct {
	bootstrap, topic string
	isolation, start string
	offset           int64
	group            string // of startGroup, and whom startBeginning and startOffset commit for
}

// toldByReader is a record that a reader was given by its client.
type toldByReader struct {
	Offset int64  `json:"offset"`
	Value  string `json:"value"`
}
