// Package produce writes mirror partitions to a stock cluster so that every record keeps its
// source offset (design.md section 6.1).
//
//	Align      where may the next batch go? producer state and log end of the destination, the
//	           source's log, and what both hold just below the end
//	Stream     one partition from an aligned offset on: batches in order, one in flight,
//	           none that starts at or beyond the reservation
//	lane       one connection: takes the head batch of every ready stream, one request at a time
//	Fence      a marker that shuts out whatever an owner before us may still have under way
//
// A batch goes out with sequence = offset under a producer id that belongs to the mirror
// partition alone, so that the broker appends it at the right offset or not at all. Whatever
// is not a plain success ends the stream with a Fault; nothing is sent again before a new
// Align has read what really happened. A Stream is used once.
package produce
