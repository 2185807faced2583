package mirrorapi

import (
	"encoding/hex"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// Requests as the reference's MirrorCommand sent them (wire-golden.tsv, "observed from MirrorCommand"): request header v2
// and body.
const (
	javaCreate       = "005e000000000003000d61646d696e636c69656e742d3100036d31031273656375726974792e70726f746f636f6c0a504c41494e544558540012626f6f7473747261702e73657276657273097372633a393039320000"
	javaCreatePaused = "005e000000000003000d61646d696e636c69656e742d31000a6d312e706175736564031273656375726974792e70726f746f636f6c0a504c41494e544558540012626f6f7473747261702e73657276657273097372633a393039320000"
	javaCreateTopics = "0013000800000004000d61646d696e636c69656e742d31000308746f7069632d6200000002000101010101020304050607080000000000000002000008746f7069632d61000000020001010101010203040506070800000000000000010000000075300000"
	javaAdd          = "005f000000000005000d61646d696e636c69656e742d3100036d31030000000000000000000000000000000008746f7069632d61000000000000000000000000000000000008746f7069632d620000"
	javaList         = "0062000000000003000d61646d696e636c69656e742d310000"
	javaDescribeAll  = "0063000000000004000d61646d696e636c69656e742d3100010000"
	javaDescribeNope = "0063000000000004000d61646d696e636c69656e742d310002056e6f70650000"
	javaPause        = "0066000000000004000d61646d696e636c69656e742d3100036d31020000000000000000000000000000000008746f7069632d610000"
	javaResume       = "0067000000000004000d61646d696e636c69656e742d3100036d31020000000000000000000000000000000008746f7069632d610000"
	javaRemove       = "0060000000000004000d61646d696e636c69656e742d3100036d31030000000000000000000000000000000008746f7069632d61000000000000000000000000000000000008746f7069632d620000"
)

// java sends a request of the tool and decodes the answer.
func java[R mirrormsg.Message](e *env, frame string, resp R) R {
	e.t.Helper()
	raw, err := hex.DecodeString(frame)
	if err != nil {
		e.t.Fatal(err)
	}
	key, version := int16(raw[0])<<8|int16(raw[1]), int16(raw[2])<<8|int16(raw[3])
	clientIDBytes := int(raw[8])<<8 | int(raw[9])
	body := raw[10+clientIDBytes+1:] // and the header's tagged fields, of which there are none
	if err := resp.ReadFrom(e.raw(key, version, body, 0)); err != nil {
		e.t.Fatal(err)
	}
	return resp
}

// sourceWithIDs makes the source answer Metadata with topics topic-a and topic-b that have the ids the tool's requests hold.
func sourceWithIDs(e *env) {
	host, port := hostPort(e.t, e.source.Bootstrap()[0])
	e.source.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		e.source.KeepControl()
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		resp.ClusterID = kmsg.StringPtr(sourceID)
		resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 0, Host: host, Port: port}}
		for i, name := range []string{"topic-a", "topic-b"} {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic = kmsg.StringPtr(name)
			topic.TopicID = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 15: byte(i + 1)}
			for partition := range int32(2) {
				p := kmsg.NewMetadataResponseTopicPartition()
				p.Partition, p.Leader = partition, 0
				topic.Partitions = append(topic.Partitions, p)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
}

// The reference's tool runs --create, --add, --list, --describe, --pause, --resume and --remove against us unchanged. Its
// --add reads the mirror's configs, asks the source itself, creates the topics here with the source's ids, then adds them.
func TestJavaTool(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"topic-a": 2, "topic-b": 2}))
	sourceWithIDs(e)
	alterSucceeds(e)

	wantStatus(t, &java(e, javaCreate, &mirrormsg.CreateMirrorResponse{}).Status, 0, "")
	wantStatus(t, &java(e, javaCreatePaused, &mirrormsg.CreateMirrorResponse{}).Status, mirrormsg.InvalidMirrorName,
		"Mirror name must not end with '.removed' or '.paused'")

	configs := e.describe("m1")
	if got := entries(configs); !slices.Contains(got, "bootstrap.servers=src:9092") || !slices.Contains(got, "security.protocol=PLAINTEXT") {
		t.Fatalf("the tool cannot reach the source with %v", got)
	}
	for _, c := range configs.Configs {
		if c.Value == nil { // java.util.Properties takes no null
			t.Errorf("config %s has no value", c.Name)
		}
	}

	created := java(e, javaCreateTopics, &stockMessage{Response: kmsg.NewPtrCreateTopicsResponse(), version: 7}).Response.(*kmsg.CreateTopicsResponse)
	for _, topic := range created.Topics {
		if topic.ErrorCode != 0 {
			t.Fatalf("create topic %s: %d %s", topic.Topic, topic.ErrorCode, text(topic.ErrorMessage))
		}
	}
	added := java(e, javaAdd, &mirrormsg.TopicsResponse{Op: mirrormsg.AddTopicsToMirror})
	wantStatus(t, &added.Status, 0, "")
	for i, name := range []string{"topic-a", "topic-b"} {
		wantTopic(t, added, name, 0)
		if topic := e.topic(name); topic.SourceID != (state.TopicID{1, 2, 3, 4, 5, 6, 7, 8, 15: byte(i + 1)}) ||
			topic.Desired != state.DesiredMirroring || topic.Partitions != 2 {
			t.Errorf("the store has %+v", topic)
		}
	}

	// Running --add again: the topics exist, which the tool ignores, and are in the mirror, which it is told at the top.
	again := java(e, javaCreateTopics, &stockMessage{Response: kmsg.NewPtrCreateTopicsResponse(), version: 7}).Response.(*kmsg.CreateTopicsResponse)
	for _, topic := range again.Topics {
		if topic.ErrorCode != int16(mirrormsg.TopicAlreadyExists) {
			t.Errorf("create topic %s again: %d %s", topic.Topic, topic.ErrorCode, text(topic.ErrorMessage))
		}
	}
	wantRefusal(t, &java(e, javaAdd, &mirrormsg.TopicsResponse{Op: mirrormsg.AddTopicsToMirror}).Status,
		mirrormsg.TopicAlreadyInMirror, "topic-a", "topic-b")

	if list := java(e, javaList, &mirrormsg.ListMirrorsResponse{}); len(list.Mirrors) != 1 || list.Mirrors[0].TopicCount != 2 ||
		list.Mirrors[0].SourceClusterID != sourceID || list.Mirrors[0].SourceBootstrap != "src:9092" {
		t.Errorf("list: %+v", list)
	}
	if all := java(e, javaDescribeAll, &mirrormsg.DescribeMirrorsResponse{}); len(rows(all)) != 4 {
		t.Errorf("describe: %v", rows(all))
	}
	if nope := java(e, javaDescribeNope, &mirrormsg.DescribeMirrorsResponse{}); len(nope.Mirrors) != 0 {
		t.Errorf("describe nope: %+v", nope)
	}
	wantStatus(t, &java(e, javaPause, &mirrormsg.TopicsResponse{Op: mirrormsg.PauseMirrorTopics}).Status, 0, "")
	wantStatus(t, &java(e, javaResume, &mirrormsg.TopicsResponse{Op: mirrormsg.ResumeMirrorTopics}).Status, 0, "")
	removed := java(e, javaRemove, &mirrormsg.TopicsResponse{Op: mirrormsg.RemoveTopicsFromMirror})
	wantStatus(t, &removed.Status, 0, "")
	if e.topic("topic-b").Desired != state.DesiredStopped {
		t.Error("topic-b is not removed")
	}
}

// stockMessage reads a kmsg response of a fixed version as a mirrormsg.Message.
type stockMessage struct {
	kmsg.Response
	version int16
}

func (m *stockMessage) ReadFrom(b []byte) error {
	m.SetVersion(m.version)
	return m.Response.ReadFrom(b)
}
