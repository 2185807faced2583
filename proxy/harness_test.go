package proxy

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/enforce"
	"kafka-mirror-proxy/protocol"
	"kafka-mirror-proxy/state"
)

var ordersID = state.TopicID{1, 2, 3}

// mirroredStore has the mirror "dr" with the topic "orders".
func mirroredStore(t testing.TB) *state.Memory {
	t.Helper()
	store := state.NewMemory()
	err := store.Do(context.Background(),
		state.CreateMirror{Name: "dr", Configs: map[string]string{"bootstrap.servers": "source:9092"}},
		state.AddTopic{Mirror: "dr", Name: "orders", ID: ordersID, SourceID: state.TopicID{9}, Partitions: 4, Engine: "produce"})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func newMetrics(t testing.TB) *Metrics {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return metrics
}

func testAddress(nodeID int32, _ string, _ int32) (string, int32) { return "proxy", 19093 + nodeID }

func newTestShared(t testing.TB, views func() *state.View, limits Limits) *shared {
	gate := enforce.NewGate()
	s, err := newShared(enforce.NewPolicy(views, gate, 0), gate, limits.WithDefaults(), newMetrics(t))
	if err != nil {
		t.Fatal(err)
	}
	s.observe, s.address = testAddress, testAddress
	s.hold = func() <-chan struct{} { return nil }
	return s
}

func newTestSession(t testing.TB, views func() *state.View) *Session {
	return newSession(newTestShared(t, views, Limits{}), bootstrapNode, "client:1", "seed")
}

// requestFrame is a whole request with its size.
func requestFrame(correlation int32, request kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("client")).AppendRequest(nil, request, correlation)
}

// rawFrame is a request or an answer from bytes after the size.
func rawFrame(payload ...[]byte) []byte {
	frame := make([]byte, sizeBytes)
	for _, p := range payload {
		frame = append(frame, p...)
	}
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-sizeBytes))
	return frame
}

// requestHeader is the header of a request of a client without an id.
func requestHeader(key, version int16, correlation int32) []byte {
	header := kbin.AppendInt32(kbin.AppendInt16(kbin.AppendInt16(nil, key), version), correlation)
	header = kbin.AppendNullableString(header, nil)
	if protocol.Flexible(key, version) {
		header = append(header, 0)
	}
	return header
}

// answerFrame is a whole answer with its size.
func answerFrame(correlation int32, response kmsg.Response) []byte {
	header := protocol.AppendResponseHeader(nil, response.Key(), response.GetVersion(), correlation)
	return rawFrame(header, response.AppendTo(nil))
}

// opaque is a request of a key that nobody knows, with filling after the header.
func opaque(correlation int32, fillBytes int) []byte {
	header := binary.BigEndian.AppendUint16(nil, 1000)
	header = binary.BigEndian.AppendUint16(header, 7)
	header = binary.BigEndian.AppendUint32(header, uint32(correlation))
	return rawFrame(header, make([]byte, fillBytes))
}

// part is one topic of a produce with one partition.
type part struct {
	topic string
	id    state.TopicID
}

func produceRequest(version, acks int16, fillBytes int, parts ...part) *kmsg.ProduceRequest {
	request := kmsg.NewPtrProduceRequest()
	request.Version, request.Acks, request.TimeoutMillis = version, acks, 1000
	for i, p := range parts {
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic, topic.TopicID = p.topic, p.id
		partition := kmsg.NewProduceRequestTopicPartition()
		partition.Partition, partition.Records = int32(i), make([]byte, fillBytes)
		topic.Partitions = append(topic.Partitions, partition)
		request.Topics = append(request.Topics, topic)
	}
	return request
}

// named is topics by name.
func named(names ...string) []part {
	parts := make([]part, len(names))
	for i, name := range names {
		parts[i].topic = name
	}
	return parts
}

// frames cuts a stream at its sizes.
func frames(t testing.TB, stream []byte) [][]byte {
	t.Helper()
	var all [][]byte
	for len(stream) > 0 {
		if len(stream) < sizeBytes {
			t.Fatalf("%d bytes after the last frame", len(stream))
		}
		total := sizeBytes + int(binary.BigEndian.Uint32(stream))
		if total > len(stream) {
			t.Fatalf("frame of %d bytes, %d are there", total, len(stream))
		}
		all = append(all, stream[:total])
		stream = stream[total:]
	}
	return all
}

func correlationOf(answer []byte) int32 { return int32(binary.BigEndian.Uint32(answer[sizeBytes:])) }

// listHandler answers every local request with its key, so that answers can be told apart.
type listHandler struct{}

func (*listHandler) Handle(_ context.Context, r LocalRequest) ([]byte, error) {
	if r.Key == protocol.KeyDescribeConfigs {
		response := kmsg.NewPtrDescribeConfigsResponse()
		response.Version = r.Version
		resource := kmsg.NewDescribeConfigsResponseResource()
		resource.ResourceType, resource.ResourceName = 64, "dr"
		response.Resources = append(response.Resources, resource)
		return response.AppendTo(nil), nil
	}
	return fmt.Appendf(nil, "local %d", r.Key), nil
}

// pump is an engine without sockets: it shows a session streams, cut as cut says, and collects
// what comes out.
type pump struct {
	t       testing.TB
	session *Session
	handler LocalHandler
	// cut returns how many bytes beyond the needed ones are shown, of most.
	cut func(most int) int
	// passed is what OnRequest forwarded; given what OnResponse did.
	passed, given []byte
	close         Decision
	// partial: streams may end within a frame.
	partial bool
}

func newPump(t testing.TB, session *Session, handler LocalHandler, cut func(int) int) *pump {
	return &pump{t: t, session: session, handler: handler, cut: cut}
}

func whole(most int) int { return most }

// requests shows the client's stream until it is used up, or the session closes or waits. It
// returns what was not used.
func (p *pump) requests(stream []byte) []byte {
	p.t.Helper()
	stream = append([]byte(nil), stream...)
	shown := 0
	for {
		d := p.session.OnRequest(stream[:shown])
		switch d.Verb {
		case NeedMore:
			if d.N > len(stream) {
				return stream
			}
			if d.N <= shown {
				p.t.Fatalf("asked for %d bytes with %d shown", d.N, shown)
			}
			shown = d.N + p.cut(len(stream)-d.N)
			continue
		case Wait:
			return stream
		case Close:
			p.close = d
			return stream
		}
		if d.Call != nil {
			d.Call.request.Body = append([]byte(nil), d.Call.request.Body...)
			d.Call.run(context.Background(), p.handler)
		}
		if d.N > len(stream) {
			if !p.partial {
				p.t.Fatalf("%d bytes of a frame, %d are there", d.N, len(stream))
			}
			return stream // the client would have to send more
		}
		if d.Verb == Forward {
			p.passed = append(p.passed, stream[:d.N]...)
		}
		if d.Verb == Replace && d.N > shown {
			p.t.Fatalf("replace %d bytes with %d shown", d.N, shown)
		}
		p.passed = append(p.passed, d.Data...)
		stream = stream[d.N:]
		shown = max(0, shown-d.N)
	}
}

// answers shows the broker's stream likewise.
func (p *pump) answers(stream []byte) []byte {
	p.t.Helper()
	stream = append([]byte(nil), stream...)
	shown := 0
	for {
		d := p.session.OnResponse(stream[:shown])
		switch d.Verb {
		case NeedMore:
			if p.session.Written() {
				continue
			}
			if d.N > len(stream) {
				return stream
			}
			if d.N <= shown {
				p.t.Fatalf("asked for %d bytes with %d shown", d.N, shown)
			}
			shown = d.N + p.cut(len(stream)-d.N)
			continue
		case Wait:
			return stream
		case Close:
			p.close = d
			return stream
		case Forward, Discard:
			if d.N > len(stream) && p.partial {
				return stream
			}
			if d.Verb == Forward {
				p.given = append(p.given, stream[:d.N]...)
			}
		}
		p.given = append(p.given, d.Data...)
		stream = stream[d.N:]
		shown = max(0, shown-d.N)
	}
}

// brokerAnswers is what a broker answers to the stream, one answer a request, none to acks=0.
func brokerAnswers(t testing.TB, stream []byte) []byte {
	t.Helper()
	var all []byte
	for _, frame := range frames(t, stream) {
		header, need, err := protocol.PeekRequestHeader(frame[sizeBytes:])
		if err != nil || need > 0 {
			t.Fatalf("upstream got a bad header: %v, need %d", err, need)
		}
		if answer := brokerAnswer(t, header, frame[sizeBytes+header.BodyOffset:]); answer != nil {
			all = append(all, answer...)
		}
	}
	return all
}

func brokerAnswer(t testing.TB, h protocol.RequestHeader, body []byte) []byte {
	t.Helper()
	request := kmsg.RequestForKey(h.Key)
	if request == nil {
		return rawFrame(binary.BigEndian.AppendUint32(nil, uint32(h.CorrelationID)), []byte("opaque answer"))
	}
	request.SetVersion(h.Version)
	if err := request.ReadFrom(body); err != nil {
		t.Fatalf("upstream got a bad %s v%d: %v", kmsg.NameForKey(h.Key), h.Version, err)
	}
	response := request.ResponseKind()
	switch response := response.(type) {
	case *kmsg.ProduceResponse:
		if request.(*kmsg.ProduceRequest).Acks == 0 {
			return nil
		}
		for _, topic := range request.(*kmsg.ProduceRequest).Topics {
			answered := kmsg.NewProduceResponseTopic()
			answered.Topic, answered.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition, p.BaseOffset = partition.Partition, 77
				answered.Partitions = append(answered.Partitions, p)
			}
			response.Topics = append(response.Topics, answered)
		}
		if h.Version >= 10 {
			node := kmsg.NewProduceResponseBroker()
			node.NodeID, node.Host, node.Port = 3, "upstream.internal", 9092
			response.Brokers = append(response.Brokers, node)
		}
	case *kmsg.MetadataResponse:
		node := kmsg.NewMetadataResponseBroker()
		node.NodeID, node.Host, node.Port = 3, "upstream.internal", 9092
		response.Brokers = append(response.Brokers, node)
	case *kmsg.FetchResponse:
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = "other", [16]byte{5}
		partition := kmsg.NewFetchResponseTopicPartition()
		partition.RecordBatches = make([]byte, 3000)
		topic.Partitions = append(topic.Partitions, partition)
		response.Topics = append(response.Topics, topic)
		if h.Version >= 16 {
			node := kmsg.NewFetchResponseBroker()
			node.NodeID, node.Host, node.Port = 3, "upstream.internal", 9092
			response.Brokers = append(response.Brokers, node)
		}
	case *kmsg.FindCoordinatorResponse:
		response.NodeID, response.Host, response.Port = 3, "upstream.internal", 9092
		coordinator := kmsg.NewFindCoordinatorResponseCoordinator()
		coordinator.NodeID, coordinator.Host, coordinator.Port = 3, "upstream.internal", 9092
		response.Coordinators = append(response.Coordinators, coordinator)
	case *kmsg.ApiVersionsResponse:
		for _, row := range [][2]int16{{0, 13}, {1, 17}, {3, 13}, {10, 6}, {17, 1}, {18, 4}, {19, 7}, {500, 2}} {
			key := kmsg.NewApiVersionsResponseApiKey()
			key.ApiKey, key.MaxVersion = row[0], row[1]
			response.ApiKeys = append(response.ApiKeys, key)
		}
	case *kmsg.DescribeConfigsResponse:
		for _, resource := range request.(*kmsg.DescribeConfigsRequest).Resources {
			answered := kmsg.NewDescribeConfigsResponseResource()
			answered.ResourceType, answered.ResourceName = resource.ResourceType, resource.ResourceName
			response.Resources = append(response.Resources, answered)
		}
	}
	response.SetVersion(h.Version)
	header := protocol.AppendResponseHeader(nil, h.Key, h.Version, h.CorrelationID)
	return rawFrame(header, response.AppendTo(nil))
}
