package mirrormsg_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

// scriptedBroker answers ApiVersions with the mirror APIs and any other key with the body it was given.
type scriptedBroker struct {
	answers map[int16][]byte

	mu   sync.Mutex
	seen [][]byte // frames without their size, ApiVersions left out
	fail error
}

// newClient returns a kgo client whose every connection is served by b, over an in-memory pipe.
func (b *scriptedBroker) newClient(t *testing.T) *kgo.Client {
	t.Helper()
	var serving sync.WaitGroup
	cl, err := kgo.NewClient(
		kgo.SeedBrokers("scripted:9092"), kgo.ClientID("golden"), kgo.MaxVersions(mirrormsg.VersionsWithMirrors()),
		kgo.Dialer(func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			serving.Go(func() {
				defer server.Close()
				if err := b.serve(server); err != nil {
					b.mu.Lock()
					b.fail = err
					b.mu.Unlock()
				}
			})
			return client, nil
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cl.Close()
		serving.Wait()
		if b.fail != nil {
			t.Errorf("broker: %v", b.fail)
		}
	})
	return cl
}

func (b *scriptedBroker) serve(conn net.Conn) error {
	for {
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return nil // the client hung up
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(conn, frame); err != nil {
			return err
		}
		key, version := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
		answer := bytes.Clone(frame[4:8]) // the correlation id
		if key == int16(kmsg.ApiVersions) {
			answer = advertised(version).AppendTo(answer)
		} else {
			b.mu.Lock()
			b.seen = append(b.seen, frame)
			b.mu.Unlock()
			answer = append(append(answer, 0), b.answers[key]...)
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...)); err != nil {
			return err
		}
	}
}

func advertised(version int16) *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = version
	add := func(key, last int16) {
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: last})
	}
	add(0, 11)
	add(int16(kmsg.Metadata), 12)
	add(int16(kmsg.FindCoordinator), mirrormsg.FindCoordinatorVersion)
	add(int16(kmsg.ApiVersions), 4)
	add(int16(kmsg.CreateTopics), mirrormsg.CreateTopicsVersion)
	for _, row := range mirrormsg.Seed.Keys {
		add(row.Key, mirrormsg.Version)
	}
	return resp
}

// bodyOf takes the header off the only frame seen since the last call and checks the version in it.
func (b *scriptedBroker) bodyOf(t *testing.T, key, version int16) []byte {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.seen) != 1 {
		t.Fatalf("%d requests seen", len(b.seen))
	}
	frame := b.seen[0]
	b.seen = nil
	if got := int16(binary.BigEndian.Uint16(frame)); got != key {
		t.Fatalf("key %d, want %d", got, key)
	}
	if got := int16(binary.BigEndian.Uint16(frame[2:])); got != version {
		t.Fatalf("version %d, want %d", got, version)
	}
	body, ok := bytes.CutPrefix(frame[8:], []byte("\x00\x06golden\x00"))
	if !ok {
		t.Fatalf("header %x", frame)
	}
	return body
}

const clientPatience = 20 * time.Second

// A kgo client sends every mirror API, 94 included which kmsg takes for another request, with our bytes, and reads the
// answers with our codecs.
func TestKgoSpeaksMirrorAPIs(t *testing.T) {
	b := &scriptedBroker{answers: map[int16][]byte{}}
	cl := b.newClient(t)
	ctx, cancel := context.WithTimeout(context.Background(), clientPatience)
	defer cancel()
	checked := map[int16]bool{}
	for _, row := range readGolden(t) {
		if row.direction != "request" || row.meta.Case != "typical" && row.key != 98 || checked[row.key] || row.key < 94 {
			continue
		}
		checked[row.key] = true
		exchangeGolden(ctx, t, cl, b, &row)
	}
	if len(checked) != 10 {
		t.Errorf("%d APIs exchanged", len(checked))
	}
}

func exchangeGolden(ctx context.Context, t *testing.T, cl *kgo.Client, b *scriptedBroker, row *goldenRow) {
	t.Helper()
	want, _ := goldenMessage(t, row, row.values(t))
	for _, answer := range readGolden(t) {
		if answer.key != row.key || answer.direction != "response" {
			continue
		}
		v := answer.values(t)
		if ms, ok := v.fields["throttleTimeMs"]; ok && toInteger(t, ms, 32) > 0 {
			continue // kgo would honour it
		}
		b.answers[row.key] = answer.bytes
		wantAnswer, _ := goldenMessage(t, &answer, v)
		got, err := mirrormsg.Do[mirrormsg.Response](ctx, cl, &mirrormsg.Seed, want.(mirrormsg.Request))
		if err != nil {
			t.Fatalf("line %d: %v", answer.line, err)
		}
		if diff := cmp.Diff(wantAnswer, mirrormsg.Message(got), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("line %d (-want +got)\n%s", answer.line, diff)
		}
		if body := b.bodyOf(t, row.key, mirrormsg.Version); !bytes.Equal(body, row.bytes) {
			t.Errorf("%s sent as %x, want %x", row.api, body, row.bytes)
		}
	}
}

func TestKgoDeletesMirrors(t *testing.T) {
	text := "not empty"
	want := &mirrormsg.DeleteMirrorResponse{Status: mirrormsg.Status{ErrorCode: mirrormsg.InvalidRequest, ErrorMessage: &text}}
	b := &scriptedBroker{answers: map[int16][]byte{104: want.AppendTo(nil)}}
	cl := b.newClient(t)
	ctx, cancel := context.WithTimeout(context.Background(), clientPatience)
	defer cancel()
	req := &mirrormsg.DeleteMirrorRequest{MirrorName: "m", StateValidationOffset: mirrormsg.NoStateValidation}
	got, err := mirrormsg.Do[*mirrormsg.DeleteMirrorResponse](ctx, cl, &mirrormsg.Seed, req)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if body := b.bodyOf(t, 104, 0); string(body) != "\x02m\xff\xff\xff\xff\xff\xff\xff\xff\x00" {
		t.Errorf("sent %x", body)
	}
	if _, err := mirrormsg.Do[*mirrormsg.ListMirrorsResponse](ctx, cl, &mirrormsg.Seed, req); err == nil {
		t.Error("an answer of another API passed")
	}
}

func TestKgoSpeaksChangedVersions(t *testing.T) {
	answer := kmsg.NewPtrCreateTopicsResponse()
	answer.Version = 7
	answer.Topics = []kmsg.CreateTopicsResponseTopic{{Topic: "t", TopicID: goldenTopicID(), NumPartitions: 2}}
	found := kmsg.NewPtrFindCoordinatorResponse()
	found.Version = 6
	found.Coordinators = []kmsg.FindCoordinatorResponseCoordinator{{Key: "k", NodeID: 2, Host: "h", Port: 9092}}
	b := &scriptedBroker{answers: map[int16][]byte{19: answer.AppendTo(nil), 10: found.AppendTo(nil)}}
	cl := b.newClient(t)
	ctx, cancel := context.WithTimeout(context.Background(), clientPatience)
	defer cancel()

	create := &mirrormsg.CreateTopicsV8Request{
		Request:    &kmsg.CreateTopicsRequest{Topics: []kmsg.CreateTopicsRequestTopic{{Topic: "t"}}},
		MirrorInfo: []*mirrormsg.MirrorInfo{{TopicID: goldenTopicID()}},
	}
	got, err := cl.Request(ctx, create)
	if err != nil {
		t.Fatal(err)
	}
	if topics := got.(*kmsg.CreateTopicsResponse).Topics; len(topics) != 1 || topics[0].TopicID != goldenTopicID() {
		t.Errorf("answer %+v", topics)
	}
	if body := b.bodyOf(t, 19, 8); !bytes.Equal(body, create.AppendTo(nil)) {
		t.Errorf("sent %x", body)
	}

	find := &mirrormsg.FindCoordinatorV7Request{KeyType: mirrormsg.CoordinatorTypeMirror, CoordinatorKeys: []string{"k"}}
	got, err = cl.Request(ctx, find)
	if err != nil {
		t.Fatal(err)
	}
	if cs := got.(*kmsg.FindCoordinatorResponse).Coordinators; len(cs) != 1 || cs[0].Host != "h" {
		t.Errorf("answer %+v", cs)
	}
	if body := b.bodyOf(t, 10, 7); string(body) != "\x03\x02\x02k\x00" {
		t.Errorf("sent %x", body)
	}
}

// Every call makes its own Versions: a caller may pin keys in the one it got.
func TestVersionsWithMirrors(t *testing.T) {
	versions := mirrormsg.VersionsWithMirrors()
	for key := int16(94); key <= 104; key++ {
		if last, ok := versions.LookupMaxKeyVersion(key); !ok || last != 0 {
			t.Errorf("key %d: %d, %v", key, last, ok)
		}
	}
	if again := mirrormsg.VersionsWithMirrors(); !again.Equal(versions) {
		t.Error("not the same twice")
	}
	versions.SetMaxKeyVersion(94, 9)
	if last, _ := mirrormsg.VersionsWithMirrors().LookupMaxKeyVersion(94); last != 0 {
		t.Error("a change to one result reached the next")
	}
}
