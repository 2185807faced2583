package protocol

import (
	"math"
	"strconv"
)

// API keys that the proxy looks into. Every other key is opaque.
const (
	KeyProduce                 int16 = 0
	KeyFetch                   int16 = 1
	KeyMetadata                int16 = 3
	KeyFindCoordinator         int16 = 10
	KeySaslHandshake           int16 = 17
	KeyApiVersions             int16 = 18
	KeyCreateTopics            int16 = 19
	KeyDeleteTopics            int16 = 20
	KeyDeleteRecords           int16 = 21
	KeyInitProducerID          int16 = 22
	KeyAddPartitionsToTxn      int16 = 24
	KeyAddOffsetsToTxn         int16 = 25
	KeyEndTxn                  int16 = 26
	KeyWriteTxnMarkers         int16 = 27
	KeyTxnOffsetCommit         int16 = 28
	KeyDescribeConfigs         int16 = 32
	KeyAlterConfigs            int16 = 33
	KeySaslAuthenticate        int16 = 36
	KeyCreatePartitions        int16 = 37
	KeyIncrementalAlterConfigs int16 = 44
	KeyDescribeQuorum          int16 = 55
	KeyDescribeCluster         int16 = 60
	KeyShareFetch              int16 = 78
	KeyShareAcknowledge        int16 = 79

	// The mirror APIs of the seed dialect: CreateMirror 94 to DeleteMirror 104, all v0 and flexible.
	KeyMirrorFirst int16 = 94
	KeyMirrorLast  int16 = 104
)

// Versions that only clients see: the requests go upstream in an older form, or to the LocalHandler.
const (
	maxFindCoordinator int16 = 7 // key type 3 only at v7 (KIP-1279)
	maxCreateTopics    int16 = 8 // MirrorInfo from v8 on (KIP-1279)
)

const never = math.MaxInt16

// api is what must be known of a key to look into its messages. Min is the lowest version offered to clients.
type api struct {
	name               string
	min, max, flexible int16
}

// lookup holds the versions that kmsg decodes as of its v1.15.1 (Kafka 4.3); a test compares it with kmsg's own tables.
func lookup(key int16) (api, bool) {
	switch key {
	case KeyProduce: // v0-v2 carry message sets, which no producer sends since Kafka 0.11
		return api{"Produce", 3, 13, 9}, true
	case KeyFetch:
		return api{"Fetch", 4, 18, 12}, true
	case KeyMetadata:
		return api{"Metadata", 0, 13, 9}, true
	case KeyFindCoordinator:
		return api{"FindCoordinator", 0, 6, 3}, true
	case KeySaslHandshake: // v0 is followed by raw tokens without a header, which cannot be told from requests
		return api{"SaslHandshake", 1, 1, never}, true
	case KeyApiVersions:
		return api{"ApiVersions", 0, 5, 3}, true
	case KeyCreateTopics:
		return api{"CreateTopics", 0, 7, 5}, true
	case KeyDeleteTopics:
		return api{"DeleteTopics", 0, 6, 4}, true
	case KeyDeleteRecords:
		return api{"DeleteRecords", 0, 2, 2}, true
	case KeyInitProducerID:
		return api{"InitProducerId", 0, 5, 2}, true
	case KeyAddOffsetsToTxn:
		return api{"AddOffsetsToTxn", 0, 4, 3}, true
	case KeyEndTxn:
		return api{"EndTxn", 0, 5, 3}, true
	case KeyTxnOffsetCommit:
		return api{"TxnOffsetCommit", 0, 6, 3}, true
	case KeyAddPartitionsToTxn:
		return api{"AddPartitionsToTxn", 0, 5, 3}, true
	case KeyWriteTxnMarkers:
		return api{"WriteTxnMarkers", 0, 2, 1}, true
	case KeyDescribeConfigs:
		return api{"DescribeConfigs", 0, 4, 4}, true
	case KeyAlterConfigs:
		return api{"AlterConfigs", 0, 2, 2}, true
	case KeySaslAuthenticate:
		return api{"SaslAuthenticate", 0, 2, 2}, true
	case KeyCreatePartitions:
		return api{"CreatePartitions", 0, 3, 2}, true
	case KeyIncrementalAlterConfigs:
		return api{"IncrementalAlterConfigs", 0, 1, 1}, true
	case KeyDescribeQuorum:
		return api{"DescribeQuorum", 0, 2, 0}, true
	case KeyDescribeCluster:
		return api{"DescribeCluster", 0, 2, 0}, true
	case KeyShareFetch:
		return api{"ShareFetch", 0, 2, 0}, true
	case KeyShareAcknowledge:
		return api{"ShareAcknowledge", 0, 2, 0}, true
	}
	return api{}, false
}

func isMirrorKey(key int16) bool { return key >= KeyMirrorFirst && key <= KeyMirrorLast }

// KeyName returns Kafka's name of a key that is looked into, "key N" for others.
func KeyName(key int16) string {
	if a, ok := lookup(key); ok {
		return a.name
	}
	return "key " + strconv.Itoa(int(key))
}

// Versions returns the versions of a key's messages that are offered to clients and decoded here, without what is added for
// mirrors; known is false for opaque keys.
func Versions(key int16) (minVersion, maxVersion int16, known bool) {
	a, ok := lookup(key)
	return a.min, a.max, ok
}

// Flexible tells whether a message of a decoded key, or of a mirror API, uses the flexible encoding (KIP-482) at a version.
func Flexible(key, version int16) bool {
	if isMirrorKey(key) {
		return true
	}
	a, ok := lookup(key)
	return ok && version >= a.flexible
}

// HasNodeEndpoints tells whether answers of a key and version can hold addresses of brokers beside their real content
// (KIP-951, KIP-932), and must be edited or walked.
func HasNodeEndpoints(key, version int16) bool {
	switch key {
	case KeyProduce:
		return version >= 10
	case KeyFetch:
		return version >= 16
	case KeyShareFetch, KeyShareAcknowledge:
		return true
	}
	return false
}

// decodable returns an error unless the version is one that this package decodes, from v0 or the key's lowest on.
func decodable(key, version int16) error {
	if a, ok := lookup(key); !ok || version < a.min || version > a.max {
		return unsupported(key, version)
	}
	return nil
}
