package protocol

// AddressOf tells which address clients must use for a node of the destination. upstreamHost and upstreamPort are what the
// broker said. It is never asked for a negative node id.
type AddressOf func(nodeID int32, upstreamHost string, upstreamPort int32) (host string, port int32)

// rewrite is the one rule for every address in every answer: a node id of 0 or more gets our address; "no node" (-1) keeps
// Kafka's form of it, so that an upstream host cannot pass even next to a node id that nobody can dial.
func (a AddressOf) rewrite(nodeID int32, host string, port int32) (string, int32) {
	if nodeID < 0 {
		return "", -1
	}
	return a(nodeID, host, port)
}
