package mirrormsg

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kbin"
)

// FindCoordinatorVersion is the FindCoordinator version at which mirrors may be asked for. Its bytes are those of version 6.
const FindCoordinatorVersion int16 = 7

// FindCoordinatorV7Request is FindCoordinator v7: only KeyType CoordinatorTypeMirror is legal there.
type FindCoordinatorV7Request struct {
	KeyType         int8
	CoordinatorKeys []string
}

// AppendTo appends the version 7 body.
func (m *FindCoordinatorV7Request) AppendTo(b []byte) []byte {
	b = kbin.AppendInt8(b, m.KeyType)
	b = appendStrings(b, m.CoordinatorKeys)
	return appendNoTags(b)
}

// ReadFrom decodes a version 7 body; the key type is not judged.
func (m *FindCoordinatorV7Request) ReadFrom(b []byte) error {
	return decode("FindCoordinator request", b, func(r *reader) {
		m.KeyType = r.Int8()
		m.CoordinatorKeys = readStrings(r, "CoordinatorKeys")
		r.skipTags()
	})
}

// CoordinatorKey is the thing a mirror coordinator is asked for: one partition of a mirrored topic.
type CoordinatorKey struct {
	Mirror    string
	TopicID   [16]byte
	Partition int32
}

// topicIDText is the text of topic ids: URL-safe base64 without padding.
var topicIDText = base64.RawURLEncoding

const (
	topicIDTextBytes = 22
	topicIDPadding   = "=="
)

// String returns the key as FindCoordinator carries it: mirror:topicId:partition.
func (k CoordinatorKey) String() string {
	return k.Mirror + ":" + topicIDText.EncodeToString(k.TopicID[:]) + ":" + strconv.Itoa(int(k.Partition))
}

// ParseCoordinatorKey parses mirror:topicId:partition. The topic id may carry its base64 padding; the mirror must be a
// legal topic name (the server's rule here, which does not know suffixes). An error means InvalidRequest (42).
func ParseCoordinatorKey(key string) (CoordinatorKey, error) {
	rest, partitionText, ok := cutLast(key, ":")
	mirror, idText, ok2 := cutLast(rest, ":")
	if !ok || !ok2 {
		return CoordinatorKey{}, errors.New("coordinator key is not mirror:topicId:partition")
	}
	k := CoordinatorKey{Mirror: mirror}
	if err := CheckTopicName(mirror); err != nil {
		return CoordinatorKey{}, fmt.Errorf("coordinator key: mirror %w", err)
	}
	if err := parseTopicID(&k.TopicID, idText); err != nil {
		return CoordinatorKey{}, fmt.Errorf("coordinator key: %w", err)
	}
	partition, err := strconv.ParseUint(partitionText, 10, 31)
	if err != nil {
		return CoordinatorKey{}, errors.New("coordinator key: partition is not a decimal number of 31 bits")
	}
	k.Partition = int32(partition)
	return k, nil
}

func parseTopicID(id *[16]byte, text string) error {
	text = strings.TrimSuffix(text, topicIDPadding)
	// The length first: the decoder skips line breaks, and 22 other characters are 16 bytes exactly.
	if len(text) == topicIDTextBytes && !strings.ContainsAny(text, "\r\n") {
		if _, err := topicIDText.Decode(id[:], []byte(text)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("topic id is not %d characters of URL-safe base64", topicIDTextBytes)
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// CoordinatorPartition returns the partition of __mirror_state, out of n, whose leader coordinates a mirror partition.
// n must be positive.
func CoordinatorPartition(mirror string, topicID [16]byte, partition, n int32) int32 {
	return hashPartition(CoordinatorKey{Mirror: mirror, TopicID: topicID, Partition: partition}.String(), n)
}

func hashPartition(s string, n int32) int32 {
	h := javaStringHash(s)
	if h < 0 {
		h = -h // MinInt32 stays itself and counts as 0
	}
	return max(h, 0) % n
}

// javaStringHash is String.hashCode: over UTF-16 code units, in wrapping int32 arithmetic.
func javaStringHash(s string) (h int32) {
	for _, unit := range utf16.Encode([]rune(s)) {
		h = 31*h + int32(unit)
	}
	return h
}
