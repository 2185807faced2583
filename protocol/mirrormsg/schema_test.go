package mirrormsg_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"pgregory.net/rapid"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

// schema is an independent description of a body: the reference's fields in order, from wire-schemas.tsv.
type schema struct {
	fields []schemaField
}

type schemaField struct {
	name, kind string
	nullable   bool
	nested     schema // of an array of structures
}

// readSchemas returns the schemas of wire-schemas.tsv by "key direction", and of key 104, which it lacks.
func readSchemas(t testing.TB) map[string]*schema {
	t.Helper()
	text, err := os.ReadFile("testdata/schemas.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	lines = append(lines, // wire.md section 9
		"DeleteMirror\t104\t0\trequest\tMirrorName\tstring\t-",
		"DeleteMirror\t104\t0\trequest\tStateValidationOffset\tint64\t-",
		"DeleteMirror\t104\t0\tresponse\tThrottleTimeMs\tint32\t-",
		"DeleteMirror\t104\t0\tresponse\tErrorCode\tint16\t-",
		"DeleteMirror\t104\t0\tresponse\tErrorMessage\tstring\t0+")
	schemas := map[string]*schema{}
	for _, line := range lines {
		cells := strings.Split(line, "\t")
		id := cells[1] + " " + cells[3]
		if schemas[id] == nil {
			schemas[id] = &schema{}
		}
		if cells[4] != "(empty)" {
			schemas[id].add(strings.Split(cells[4], "[]."), cells[5], cells[6] != "-")
		}
	}
	return schemas
}

func (s *schema) add(path []string, kind string, nullable bool) {
	if len(path) > 1 {
		s.fields[len(s.fields)-1].nested.add(path[1:], kind, nullable)
		return
	}
	s.fields = append(s.fields, schemaField{name: path[0], kind: kind, nullable: nullable})
}

// withoutTags walks a body by the schema and returns it with every tagged field taken out; it is as strict as the schema.
func (s *schema) withoutTags(t testing.TB, body []byte) []byte {
	t.Helper()
	r := kbin.Reader{Src: body}
	out := s.copyTo(t, nil, &r)
	if err := r.Complete(); err != nil || len(r.Src) > 0 {
		t.Fatalf("body does not follow the schema: %v, %d bytes left of %x", err, len(r.Src), body)
	}
	return out
}

func (s *schema) copyTo(t testing.TB, out []byte, r *kbin.Reader) []byte {
	t.Helper()
	for i := range s.fields {
		f := &s.fields[i]
		switch f.kind {
		case "bool", "int8":
			out = append(out, r.Span(1)...)
		case "int16":
			out = append(out, r.Span(2)...)
		case "int32":
			out = append(out, r.Span(4)...)
		case "int64":
			out = append(out, r.Span(8)...)
		case "uuid":
			out = append(out, r.Span(16)...)
		case "string":
			out = copyString(t, out, r, f)
		default:
			n := r.CompactArrayLen()
			if n < 0 {
				t.Fatalf("%s is null", f.name)
			}
			out = kbin.AppendCompactArrayLen(out, int(n))
			for ; n > 0 && r.Ok(); n-- {
				if f.kind == "[]string" {
					out = copyString(t, out, r, f)
				} else {
					out = f.nested.copyTo(t, out, r)
				}
			}
		}
	}
	for n := r.Uvarint(); n > 0 && r.Ok(); n-- {
		if tag := r.Uvarint(); tag < 10000 {
			t.Fatalf("tag %d is below ours", tag)
		}
		r.Span(int(r.Uvarint()))
	}
	return append(out, 0)
}

func copyString(t testing.TB, out []byte, r *kbin.Reader, f *schemaField) []byte {
	t.Helper()
	s := r.CompactNullableString()
	if s == nil && !f.nullable {
		t.Fatalf("%s is null", f.name)
	}
	return kbin.AppendCompactNullableString(out, s)
}

// Whatever a message holds: it has the schema's layout, our fields are in tags only, and without them it is byte for byte
// the message that never had them.
func TestExtensionsLiveInTagsOnly(t *testing.T) {
	schemas := readSchemas(t)
	for _, kind := range messageKinds() {
		t.Run(kind.name, func(t *testing.T) {
			s := schemas[kind.schemaID()]
			if s == nil {
				t.Fatalf("no schema for %s", kind.schemaID())
			}
			rapid.Check(t, func(rt *rapid.T) {
				m := kind.draw(rt)
				stripped := s.withoutTags(t, m.AppendTo(nil))
				stripExtensions(m)
				if plain := m.AppendTo(nil); !bytes.Equal(plain, stripped) {
					rt.Errorf("without extensions\n%x, with their tags taken out\n%x", plain, stripped)
				}
			})
		})
	}
}

func stripExtensions(m mirrormsg.Message) {
	if req, ok := m.(interface{ SetExtended(bool) }); ok {
		req.SetExtended(false)
	}
	switch m := m.(type) {
	case *mirrormsg.TopicsRequest:
		m.ReplicationFactor, m.Patterns = 0, nil
	case *mirrormsg.TopicsResponse:
		for i := range m.Topics {
			m.Topics[i].ErrorMessage = nil
		}
	case *mirrormsg.DescribeMirrorsResponse:
		for i := range m.Mirrors {
			m.Mirrors[i].Ext = nil
			for j := range m.Mirrors[i].Topics {
				for k := range m.Mirrors[i].Topics[j].Partitions {
					m.Mirrors[i].Topics[j].Partitions[k].Ext = nil
				}
			}
		}
	}
}

// Golden bytes of our own tags: they are a contract with clients already built.
func TestExtensionBytes(t *testing.T) {
	message := "why"
	tag := func(tag uint32, value string) string {
		b := binary.AppendUvarint(nil, uint64(tag))
		return string(b) + string(rune(len(value))) + value
	}
	tests := []struct {
		name string
		m    mirrormsg.Message
		want string
	}{
		{"marker", &mirrormsg.ListMirrorsRequest{Marker: mirrormsg.Marker{Extended: true}}, "\x01" + tag(10000, "")},
		{
			"add",
			&mirrormsg.TopicsRequest{
				Op: mirrormsg.AddTopicsToMirror, MirrorName: "m", Marker: mirrormsg.Marker{Extended: true},
				ReplicationFactor: 3, Patterns: []string{"a.*", "b"},
			},
			"\x02m\x01\x03" + tag(10000, "") + tag(10001, "\x00\x03") + tag(10002, "\x03\x04a.*\x02b"),
		},
		{
			"remove takes no replication factor",
			&mirrormsg.TopicsRequest{
				Op: mirrormsg.RemoveTopicsFromMirror, MirrorName: "m", ReplicationFactor: 3, Patterns: []string{"b"},
			},
			"\x02m\x01\x01" + tag(10002, "\x02\x02b"),
		},
		{
			"topic error",
			&mirrormsg.TopicsResponse{
				Op: mirrormsg.PauseMirrorTopics, Topics: []mirrormsg.TopicResult{{Name: "t", ErrorCode: 139, ErrorMessage: &message}},
			},
			"\x00\x00\x00\x00" + "\x00\x00" + "\x00" + "\x01" + "\x02\x02t\x00\x8b\x01" + tag(10001, "\x04why") + "\x00",
		},
		{
			"describe",
			&mirrormsg.DescribeMirrorsResponse{Mirrors: []mirrormsg.DescribedMirror{{
				MirrorName: "m",
				Topics: []mirrormsg.DescribedTopic{{TopicName: "t", Partitions: []mirrormsg.DescribedPartition{{
					State: "FAILED",
					Ext: &mirrormsg.PartitionExt{
						ErrorMessage: "e", Engine: "g", Owner: "o", StateSinceMs: 258, Attempt: 3, LastError: "l", LagMs: -1, OffsetGuard: "d",
					},
				}}}},
				Ext: &mirrormsg.MirrorExt{SourceBootstrap: "b", SourceClusterID: "c", Engine: "g", LastError: "l"},
			}}},
			"\x00\x00\x00\x00\x00\x00\x00" + "\x02" + "\x00\x00\x02m" + "\x02\x02t" + "\x02" + strings.Repeat("\x00", 28) +
				"\x07FAILED\x08" + tag(10001, "\x02e") + tag(10002, "\x02g") + tag(10003, "\x02o") +
				tag(10004, "\x00\x00\x00\x00\x00\x00\x01\x02") + tag(10005, "\x00\x00\x00\x03") + tag(10006, "\x02l") +
				tag(10007, "\xff\xff\xff\xff\xff\xff\xff\xff") + tag(10008, "\x02d") + "\x00" +
				"\x04" + tag(10001, "\x02b") + tag(10002, "\x02c") + tag(10003, "\x02g") + tag(10004, "\x02l") + "\x00",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.m.AppendTo(nil); string(got) != tt.want {
				t.Errorf("got\n%x, want\n%x", got, tt.want)
			}
		})
	}
}
