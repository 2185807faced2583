package mirrormsg_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

// goldenBodies calls do with each body of the golden rows and a fresh message of its kind.
func goldenBodies(t *testing.T, do func(row *goldenRow, fresh func() mirrormsg.Message)) {
	t.Helper()
	n := 0
	for _, row := range readGolden(t) {
		if row.direction == "header" {
			continue
		}
		n++
		do(&row, func() mirrormsg.Message { return emptyMessage(row.key, row.isResponse()) })
	}
	if n == 0 {
		t.Fatal("no golden bodies")
	}
}

// emptyMessage returns the message to decode a body of the key into; nil for the answers of FindCoordinator and CreateTopics,
// which are kmsg's and not ours to test.
func emptyMessage(key int16, response bool) mirrormsg.Message {
	var req kmsg.Request
	switch key {
	case int16(kmsg.FindCoordinator):
		req = new(mirrormsg.FindCoordinatorV7Request)
	case int16(kmsg.CreateTopics):
		req = new(mirrormsg.CreateTopicsV8Request)
	default:
		api, _ := mirrormsg.Seed.API(key)
		if response {
			return mirrormsg.NewRequest(api).NewResponse()
		}
		return mirrormsg.NewRequest(api)
	}
	if response {
		return nil
	}
	return req
}

func TestBodyMustBeWholeAndNothingElse(t *testing.T) {
	goldenBodies(t, func(row *goldenRow, fresh func() mirrormsg.Message) {
		if fresh() == nil {
			return
		}
		for n := range row.bytes {
			if err := fresh().ReadFrom(row.bytes[:n]); !errors.Is(err, mirrormsg.ErrMalformed) {
				t.Fatalf("line %d: the first %d of %d bytes give %v", row.line, n, len(row.bytes), err)
			}
		}
		if err := fresh().ReadFrom(append(row.bytes[:len(row.bytes):len(row.bytes)], 0)); !errors.Is(err, mirrormsg.ErrMalformed) {
			t.Fatalf("line %d: one byte more gives %v", row.line, err)
		}
	})
}

// A count or length of four billion anywhere in a body costs no memory: what is allocated stays in proportion to the bytes
// that are really there.
func TestHostileLengthsAllocateNothing(t *testing.T) {
	const (
		hugeVarint    = "\xff\xff\xff\xff\x0f"
		costOfAByte   = 64
		costOfAFailed = 8 << 10
	)
	goldenBodies(t, func(row *goldenRow, fresh func() mirrormsg.Message) {
		if fresh() == nil || len(row.bytes) > 400 {
			return
		}
		for n := range row.bytes {
			hostile := append([]byte(nil), row.bytes[:n]...)
			hostile = append(append(hostile, hugeVarint...), row.bytes[n+1:]...)
			m := fresh()
			if used := bytesAllocated(func() { _ = m.ReadFrom(hostile) }); used > costOfAFailed+costOfAByte*uint64(len(hostile)) {
				t.Fatalf("line %d: huge varint at byte %d of %d allocates %d bytes", row.line, n, len(row.bytes), used)
			}
		}
	})
}

func bytesAllocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestMalformed(t *testing.T) {
	longString := string(kbin.AppendCompactString(nil, strings.Repeat("x", 32768)))
	tests := []struct {
		name string
		key  int16
		body string
		want string
	}{
		{"null mirror name", 94, "\x00\x01\x00", "MirrorName: null"},
		{"null config array", 94, "\x02m\x00\x00", "Config: null"},
		{"null config name", 94, "\x02m\x02\x00\x00\x00\x00", "Config.Name: null"},
		{"null topics", 95, "\x02m\x00\x00", "Topics: null"},
		{"null topic name", 96, "\x02m\x02" + strings.Repeat("\x00", 18) + "\x00", "TopicName: null"},
		{"null partitions", 100, "\x02m\x02\x02t\x00\x00\x00", "Partitions: null"},
		{"null mirror names", 99, "\x00\x00\x00", "MirrorNames: null"},
		{"null removed topics", 101, "\x02m\x01\x00\x00", "RemovedTopics: null"},
		{"string too long", 104, longString + "\xff\xff\xff\xff\xff\xff\xff\xff\x00", "longer than 32767"},
		{"not UTF-8", 104, "\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", "not UTF-8"},
		{"count beyond the body", 97, "\x02m\x05\x00", "4 elements do not fit"},
		{"varint of more than 32 bits", 98, "\xff\xff\xff\xff\xff\x01", ""},
		{"tags beyond the body", 98, "\x02\x00", "2 tagged fields do not fit"},
		{"tag value beyond the body", 98, "\x01\x07\x05\x00", "tag 7: 5 bytes do not fit"},
		{"tags that descend", 98, "\x02\x07\x00\x06\x00", "tag 6 comes after tag 7"},
		{"tag twice", 98, "\x02\x07\x00\x07\x00", "tag 7 comes after tag 7"},
		{"replication factor too short", 95, "\x02m\x01\x01\x91\x4e\x01\x01", "tag 10001"},
		{"replication factor too long", 95, "\x02m\x01\x01\x91\x4e\x03\x00\x01\x00", "1 bytes left over"},
		{"replication factor 0", 95, "\x02m\x01\x01\x91\x4e\x02\x00\x00", "replication factor is 0"},
		{"null patterns", 102, "\x02m\x01\x01\x92\x4e\x01\x00", "Patterns: null"},
		{"null pattern", 102, "\x02m\x01\x01\x92\x4e\x02\x02\x00", "Patterns: null"},
		{"mirror info marker", 19, "\x02\x02t" + strings.Repeat("\x00", 6) + "\x01\x01\x02\x00" + "\x00\x00\x00\x00\x00\x00", "marker 2"},
		{"null assignments", 19, "\x02\x02t" + strings.Repeat("\x00", 6) + "\x00\x01\xff\x00" + "\x00\x00\x00\x00\x00\x00", "Assignments: null"},
		{"null coordinator keys", 10, "\x03\x00\x00", "CoordinatorKeys: null"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := emptyMessage(tt.key, false).ReadFrom([]byte(tt.body))
			if !errors.Is(err, mirrormsg.ErrMalformed) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A client may know tags that we do not: Kafka ignores them, and so do we, ours beside them included.
func TestUnknownTagsAreSkipped(t *testing.T) {
	req := &mirrormsg.TopicsRequest{Op: mirrormsg.AddTopicsToMirror}
	body := "\x02m\x02" + strings.Repeat("\x00", 16) + "\x02t" + "\x01\x05\x02hi" + // a topic with tag 5
		"\x05" + "\x00\x01x" + "\x90\x4e\x01\x09" + "\x91\x4e\x02\x00\x02" + "\x92\x4e\x04\x02\x03.*" + "\x93\x4e\x00"
	if err := req.ReadFrom([]byte(body)); err != nil {
		t.Fatal(err)
	}
	if !req.WantsExtensions() || req.ReplicationFactor != 2 || len(req.Patterns) != 1 || req.Patterns[0] != ".*" {
		t.Errorf("our tags read as %+v", req)
	}
	if len(req.Topics) != 1 || req.Topics[0].TopicName != "t" {
		t.Errorf("topics read as %+v", req.Topics)
	}
}

// The same keys with the bytes other software gives them must be refused, not misread.
func TestOtherMeaningsOfOurKeysAreRefused(t *testing.T) {
	t.Run("Kafka 4.4 UnregisterController", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			other := kmsg.NewPtrUnregisterControllerRequest()
			if other.Key() != 94 {
				rt.Fatalf("key %d", other.Key())
			}
			// Ids below 2^24 begin with a zero byte, our null name. (An id such as 0x03616201 would pass for the mirror "ab"
			// without configs, which cannot be created either: bootstrap.servers is missing.)
			other.ControllerID = rapid.Int32Range(0, 1<<24-1).Draw(rt, "id")
			refuse(rt, 94, other.AppendTo(nil))
		})
	})
	name := rapid.StringMatching(`[a-z._-]{1,30}`)
	names := rapid.SliceOfN(name, 0, 5)
	const noStateValidation = "\xff\xff\xff\xff\xff\xff\xff\xff"
	t.Run("StartMirrorTopics at 95", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			b := kbin.AppendCompactString(nil, name.Draw(rt, "mirror"))
			topics := names.Draw(rt, "topics")
			b = kbin.AppendCompactArrayLen(b, len(topics))
			for _, topic := range topics {
				b = kbin.AppendCompactString(append(b, make([]byte, 16)...), topic)
				b = append(kbin.AppendInt32(b, rapid.Int32Range(-1, 1000).Draw(rt, "partitions")), 0)
			}
			refuse(rt, 95, append(append(b, noStateValidation...), 0))
		})
	})
	for _, key := range []int16{96, 102, 103} {
		t.Run(fmt.Sprintf("topics without ids at %d", key), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				b := kbin.AppendCompactString(nil, name.Draw(rt, "mirror"))
				topics := names.Draw(rt, "topics")
				b = kbin.AppendCompactArrayLen(b, len(topics))
				for _, topic := range topics {
					b = append(kbin.AppendCompactString(b, topic), 0)
				}
				refuse(rt, key, append(append(b, noStateValidation...), 0))
			})
		})
	}
	t.Run("ListClusterMirrors at 98", func(t *testing.T) {
		refuse(t, 98, []byte{0, 0})
		refuse(t, 98, []byte{1, 0})
	})
}

func refuse(t interface{ Errorf(string, ...any) }, key int16, body []byte) {
	m := emptyMessage(key, false)
	if err := m.ReadFrom(body); !errors.Is(err, mirrormsg.ErrMalformed) {
		t.Errorf("key %d read %s as %+v (%v)", key, hex.EncodeToString(body), m, err)
	}
}

// An answer may carry some of our tags only, from an older or newer proxy: the others read as unknown.
func TestMissingExtensionsReadAsUnknown(t *testing.T) {
	partition := strings.Repeat("\x00", 28) + "\x07FAILED"
	attempt := "\x95\x4e\x04\x00\x00\x00\x03" // tag 10005
	mirrorLastError := "\x94\x4e\x02\x02l"    // tag 10004
	body := strings.Repeat("\x00", 7) + "\x02" + "\x00\x00\x02m" + "\x02\x02t" +
		"\x03" + partition + "\x01" + attempt + partition + "\x00" + "\x00" + "\x01" + mirrorLastError + "\x00"
	var resp mirrormsg.DescribeMirrorsResponse
	if err := resp.ReadFrom([]byte(body)); err != nil {
		t.Fatal(err)
	}
	mirror := resp.Mirrors[0]
	if diff := cmp.Diff(&mirrormsg.MirrorExt{LastError: "l"}, mirror.Ext); diff != "" {
		t.Errorf("mirror (-want +got)\n%s", diff)
	}
	partitions := mirror.Topics[0].Partitions
	if diff := cmp.Diff(&mirrormsg.PartitionExt{StateSinceMs: -1, Attempt: 3, LagMs: -1}, partitions[0].Ext); diff != "" {
		t.Errorf("partition (-want +got)\n%s", diff)
	}
	if partitions[1].Ext != nil {
		t.Errorf("partition without our tags has %+v", partitions[1].Ext)
	}
}
