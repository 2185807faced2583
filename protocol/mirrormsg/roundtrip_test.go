package mirrormsg_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

// messageKind is one of the bodies of the package.
type messageKind struct {
	name     string
	key      int16
	response bool
	draw     func(*rapid.T) mirrormsg.Message
	empty    func() mirrormsg.Message
}

func (k *messageKind) schemaID() string {
	if k.response {
		return fmt.Sprintf("%d response", k.key)
	}
	return fmt.Sprintf("%d request", k.key)
}

// messageKinds lists the request and the response of every API of the seed dialect.
func messageKinds() []messageKind {
	var kinds []messageKind
	for _, row := range mirrormsg.Seed.Keys {
		api := row.API
		kinds = append(kinds,
			messageKind{
				name: api.String() + "/request", key: row.Key,
				draw:  func(rt *rapid.T) mirrormsg.Message { return drawRequest(rt, api) },
				empty: func() mirrormsg.Message { return mirrormsg.NewRequest(api) },
			},
			messageKind{
				name: api.String() + "/response", key: row.Key, response: true,
				draw:  func(rt *rapid.T) mirrormsg.Message { return drawResponse(rt, api) },
				empty: func() mirrormsg.Message { return mirrormsg.NewRequest(api).NewResponse() },
			})
	}
	return kinds
}

func drawRequest(rt *rapid.T, api mirrormsg.API) mirrormsg.Message {
	switch api {
	case mirrormsg.CreateMirror:
		return drawMessage[mirrormsg.CreateMirrorRequest](rt)
	case mirrormsg.LastMirroredOffsets:
		return drawMessage[mirrormsg.LastMirroredOffsetsRequest](rt)
	case mirrormsg.ListMirrors:
		return drawMessage[mirrormsg.ListMirrorsRequest](rt)
	case mirrormsg.DescribeMirrors:
		return drawMessage[mirrormsg.DescribeMirrorsRequest](rt)
	case mirrormsg.ReadMirrorStates:
		return drawMessage[mirrormsg.ReadMirrorStatesRequest](rt)
	case mirrormsg.WriteMirrorStates:
		return drawMessage[mirrormsg.WriteMirrorStatesRequest](rt)
	case mirrormsg.DeleteMirror:
		return drawMessage[mirrormsg.DeleteMirrorRequest](rt)
	default:
		m := drawMessage[mirrormsg.TopicsRequest](rt)
		if m.Op = api; api != mirrormsg.AddTopicsToMirror {
			m.ReplicationFactor = 0
		}
		return m
	}
}

func drawResponse(rt *rapid.T, api mirrormsg.API) mirrormsg.Message {
	switch api {
	case mirrormsg.CreateMirror:
		return drawMessage[mirrormsg.CreateMirrorResponse](rt)
	case mirrormsg.LastMirroredOffsets:
		return drawMessage[mirrormsg.LastMirroredOffsetsResponse](rt)
	case mirrormsg.ListMirrors:
		return drawMessage[mirrormsg.ListMirrorsResponse](rt)
	case mirrormsg.DescribeMirrors:
		return drawMessage[mirrormsg.DescribeMirrorsResponse](rt)
	case mirrormsg.ReadMirrorStates:
		return drawMessage[mirrormsg.ReadMirrorStatesResponse](rt)
	case mirrormsg.WriteMirrorStates:
		return drawMessage[mirrormsg.WriteMirrorStatesResponse](rt)
	case mirrormsg.DeleteMirror:
		return drawMessage[mirrormsg.DeleteMirrorResponse](rt)
	default:
		m := drawMessage[mirrormsg.TopicsResponse](rt)
		m.Op = api
		return m
	}
}

// drawMessage fills a message by its fields' types.
func drawMessage[T any](rt *rapid.T) *T {
	m := rapid.Make[T]().Draw(rt, "message")
	return &m
}

func TestRoundTrip(t *testing.T) {
	for _, kind := range messageKinds() {
		t.Run(kind.name, func(t *testing.T) {
			// One message is read into again and again: nothing may stay from the time before.
			got := kind.empty()
			rapid.Check(t, func(rt *rapid.T) {
				want := kind.draw(rt)
				if err := got.ReadFrom(want.AppendTo(nil)); err != nil {
					rt.Fatal(err)
				}
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
					rt.Errorf("(-want +got)\n%s", diff)
				}
			})
		})
	}
}

func TestRoundTripCreateTopics(t *testing.T) {
	text := rapid.StringN(0, 20, -1)
	drawTags := func(rt *rapid.T) (tags kmsg.Tags) {
		for range rapid.IntRange(0, 2).Draw(rt, "tags") {
			tags.Set(rapid.Uint32().Draw(rt, "tag"), []byte(text.Draw(rt, "tag value")))
		}
		return tags
	}
	drawTopic := func(rt *rapid.T) (topic kmsg.CreateTopicsRequestTopic) {
		topic.Topic, topic.NumPartitions = text.Draw(rt, "name"), rapid.Int32().Draw(rt, "partitions")
		topic.ReplicationFactor = rapid.Int16().Draw(rt, "factor")
		for range rapid.IntRange(0, 2).Draw(rt, "assignments") {
			topic.ReplicaAssignment = append(topic.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{
				Partition: rapid.Int32().Draw(rt, "partition"), Replicas: rapid.SliceOfN(rapid.Int32(), 0, 3).Draw(rt, "replicas"),
				UnknownTags: drawTags(rt),
			})
		}
		for range rapid.IntRange(0, 2).Draw(rt, "configs") {
			topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{
				Name: text.Draw(rt, "config"), Value: rapid.Ptr(text, true).Draw(rt, "value"), UnknownTags: drawTags(rt),
			})
		}
		topic.UnknownTags = drawTags(rt)
		return topic
	}
	rapid.Check(t, func(rt *rapid.T) {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis, req.ValidateOnly = 7, rapid.Int32().Draw(rt, "timeout"), rapid.Bool().Draw(rt, "validate")
		req.UnknownTags = drawTags(rt)
		want := &mirrormsg.CreateTopicsV8Request{Request: req}
		for range rapid.IntRange(0, 3).Draw(rt, "topics") {
			req.Topics = append(req.Topics, drawTopic(rt))
			want.MirrorInfo = append(want.MirrorInfo, rapid.Ptr(rapid.Make[mirrormsg.MirrorInfo](), true).Draw(rt, "info"))
		}
		gotReq, gotInfo, err := mirrormsg.ReadCreateTopicsV8(want.AppendTo(nil))
		if err != nil {
			rt.Fatal(err)
		}
		opts := cmp.Options{cmpopts.EquateEmpty(), cmp.Exporter(isKmsgTags)}
		if diff := cmp.Diff(want, &mirrormsg.CreateTopicsV8Request{Request: gotReq, MirrorInfo: gotInfo}, opts); diff != "" {
			rt.Errorf("(-want +got)\n%s", diff)
		}
		// What goes to the stock cluster is version 7 and says the same.
		stock := kmsg.NewPtrCreateTopicsRequest()
		stock.Version = 7
		if err := stock.ReadFrom(gotReq.AppendTo(nil)); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(req, stock, opts); diff != "" {
			rt.Errorf("version 7 (-want +got)\n%s", diff)
		}
	})
}

func TestSourceTopicID(t *testing.T) {
	id := [16]byte{15: 1}
	for _, tt := range []struct {
		info *mirrormsg.MirrorInfo
		want bool
	}{{nil, false}, {&mirrormsg.MirrorInfo{}, false}, {&mirrormsg.MirrorInfo{TopicID: id}, true}} {
		got, ok := tt.info.SourceTopicID()
		if ok != tt.want || ok && got != id {
			t.Errorf("SourceTopicID of %v is %v, %v", tt.info, got, ok)
		}
	}
}

// Error text may be anything; the answer that carries it must stay readable.
func TestErrorTextIsMadeLegal(t *testing.T) {
	for _, text := range []string{"\xff\xfe", strings.Repeat("x", 32768), strings.Repeat("日", 20000), "ok"} {
		in := &mirrormsg.TopicsResponse{
			Op: mirrormsg.AddTopicsToMirror, Status: mirrormsg.Status{ErrorMessage: &text},
			Topics: []mirrormsg.TopicResult{{Name: "t", ErrorMessage: &text}},
		}
		out := &mirrormsg.TopicsResponse{Op: mirrormsg.AddTopicsToMirror}
		if err := out.ReadFrom(in.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		for _, got := range []string{*out.ErrorMessage, *out.Topics[0].ErrorMessage} {
			legal := utf8.ValidString(text) && len(text) <= 32767
			if legal && got != text {
				t.Errorf("legal text changed to %q", got)
			}
			if utf8.ValidString(text) && !strings.HasPrefix(text, got) {
				t.Errorf("text of %d bytes is not the beginning of what was given", len(got))
			}
			if len(got) > 32767 || len(text) > 32767 && len(got) < 32767-utf8.UTFMax {
				t.Errorf("text of %d bytes cut to %d", len(text), len(got))
			}
		}
	}
}
