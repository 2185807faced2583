package protocol

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
	KeyAddPartitionsToTxn      int16 = 24
	KeyWriteTxnMarkers         int16 = 27
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

// KeyName returns Kafka's name of a key that is looked into, "key N" for others.
func KeyName(key int16) string { return "" }

// Versions returns the versions of a key's messages that this package decodes; known is false for opaque keys.
func Versions(key int16) (min, max int16, known bool) { return 0, 0, false }

// Flexible tells whether a message of a decoded key uses the flexible encoding (KIP-482) at a version.
func Flexible(key, version int16) bool { return false }

// HasNodeEndpoints tells whether answers of a key and version can hold addresses of brokers beside their real content
// (KIP-951, KIP-932), and must be edited or walked.
func HasNodeEndpoints(key, version int16) bool { return false }
