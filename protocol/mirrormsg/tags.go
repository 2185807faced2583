package mirrormsg

// The tagged fields that are ours, per structure. The reference defines none in these messages; ours start at 10,000 so
// that they stay clear of any it may add.
const (
	// tagMarker, top level of every request, empty: the client knows our fields and wants them in the answer.
	tagMarker = 10000

	// Top level of the topic requests.
	tagReplicationFactor = 10001 // int16, AddTopicsToMirror only
	tagPatterns          = 10002 // compact array of compact strings: regular expressions

	// A topic of a topics response.
	tagTopicErrorMessage = 10001 // compact string

	// A mirror of a DescribeMirrors response.
	tagMirrorSourceBootstrap = 10001 // compact string
	tagMirrorSourceClusterID = 10002 // compact string
	tagMirrorEngine          = 10003 // compact string
	tagMirrorLastError       = 10004 // compact string

	// A partition of a DescribeMirrors response.
	tagPartitionErrorMessage = 10001 // compact string
	tagPartitionEngine       = 10002 // compact string
	tagPartitionOwner        = 10003 // compact string
	tagPartitionStateSinceMs = 10004 // int64
	tagPartitionAttempt      = 10005 // int32
	tagPartitionLastError    = 10006 // compact string
	tagPartitionLagMs        = 10007 // int64
	tagPartitionGuard        = 10008
)

// Marker is embedded in every request. When Extended is set, the request carries the marker tag and the answer may carry our
// tagged fields; when not, the answer must have the reference's bytes exactly.
type Marker struct {
	Extended bool
}

// WantsExtensions reports whether the client asked for our tagged fields.
func (k *Marker) WantsExtensions() bool { return k.Extended }

// SetExtended asks for our tagged fields in the answer.
func (k *Marker) SetExtended(on bool) { k.Extended = on }

func (k *Marker) appendTags(b []byte) []byte {
	if !k.Extended {
		return appendNoTags(b)
	}
	return appendTag(append(b, 1), tagMarker, nil)
}

func (k *Marker) readTags(r *reader) {
	k.Extended = false
	r.tags(k.readMarker)
}

// readMarker takes the marker's tag, whatever its value: a later client may put a version there.
func (k *Marker) readMarker(tag uint32, value *reader) bool {
	if tag != tagMarker {
		return false
	}
	k.Extended = true
	value.Src = nil
	return true
}
