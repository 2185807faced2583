package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"kafka-mirror-proxy/protocol"
	"kafka-mirror-proxy/state"
)

// barrierOpen says whether a barrier would return at once.
func barrierOpen(s *Session) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return s.gate.Barrier(ctx) == nil
}

// drawRequest draws one request of any kind; answered says whether its client expects an answer.
func drawRequest(t *rapid.T, correlation int32) (frame []byte, answered bool) {
	fill := rapid.SampledFrom([]int{0, 1, 100, 5000, 70_000}).Draw(t, "fillBytes")
	switch rapid.IntRange(0, 11).Draw(t, "kind") {
	case 0:
		return opaque(correlation, fill), true
	case 1:
		request := kmsg.NewPtrMetadataRequest()
		request.Version = rapid.Int16Range(1, 12).Draw(t, "metadata version")
		return requestFrame(correlation, request), true
	case 2:
		request := kmsg.NewPtrFetchRequest()
		request.Version = rapid.Int16Range(11, 17).Draw(t, "fetch version")
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic, topic.TopicID = "other", [16]byte{5}
		topic.Partitions = append(topic.Partitions, kmsg.NewFetchRequestTopicPartition())
		request.Topics = append(request.Topics, topic)
		return requestFrame(correlation, request), true
	case 3:
		request := kmsg.NewPtrFetchRequest()
		request.Version = 12
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic = "__mirror_state"
		topic.Partitions = append(topic.Partitions, kmsg.NewFetchRequestTopicPartition())
		request.Topics = append(request.Topics, topic)
		return requestFrame(correlation, request), true
	case 4:
		request := kmsg.NewPtrFindCoordinatorRequest()
		request.Version = rapid.Int16Range(0, 6).Draw(t, "coordinator version")
		request.CoordinatorKey, request.CoordinatorKeys = "group", []string{"group"}
		frame := requestFrame(correlation, request)
		if rapid.Bool().Draw(t, "v7") && request.Version == 6 {
			protocol.SetRequestVersion(frame[sizeBytes:], 7)
		}
		return frame, true
	case 5:
		header := requestHeader(rapid.Int16Range(94, 104).Draw(t, "mirror key"), 0, correlation)
		return rawFrame(header, []byte{0}), true
	case 6:
		request := kmsg.NewPtrDescribeConfigsRequest()
		request.Version = rapid.Int16Range(1, 4).Draw(t, "configs version")
		for _, kind := range rapid.SliceOfN(rapid.SampledFrom([]kmsg.ConfigResourceType{2, 64}), 1, 3).Draw(t, "resources") {
			resource := kmsg.NewDescribeConfigsRequestResource()
			resource.ResourceType, resource.ResourceName = kind, "dr"
			request.Resources = append(request.Resources, resource)
		}
		return requestFrame(correlation, request), true
	case 7:
		request := kmsg.NewPtrApiVersionsRequest()
		request.Version = rapid.SampledFrom([]int16{0, 2, 3, 4}).Draw(t, "api versions")
		request.ClientSoftwareName, request.ClientSoftwareVersion = "test", "1"
		return requestFrame(correlation, request), true
	case 8:
		return requestFrame(correlation, produceRequest(9, 0, fill, named("other")...)), false
	}
	version := rapid.Int16Range(3, 13).Draw(t, "produce version")
	var parts []part
	for range rapid.IntRange(0, 3).Draw(t, "topics") {
		switch rapid.IntRange(0, 3).Draw(t, "topic") {
		case 0:
			parts = append(parts, part{"orders", ordersID})
		case 1:
			parts = append(parts, part{"other", state.TopicID{5}})
		default:
			parts = append(parts, part{"third", state.TopicID{6}})
		}
	}
	return requestFrame(correlation, produceRequest(version, -1, fill, parts...)), true
}

// What goes in, cut anywhere, gives the same; and the answers come in the order of the requests
// whoever makes them.
func TestCutAnywhere(t *testing.T) {
	store := mirroredStore(t)
	rapid.Check(t, func(rt *rapid.T) {
		var stream []byte
		var want []int32
		for i := range int32(rapid.IntRange(1, 12).Draw(rt, "requests")) {
			frame, answered := drawRequest(rt, 100+i)
			stream = append(stream, frame...)
			if answered {
				want = append(want, 100+i)
			}
		}
		plain := newPump(t, newTestSession(t, store.View), &listHandler{}, whole)
		if rest := plain.requests(stream); len(rest) > 0 || plain.close.Verb == Close {
			t.Fatalf("%d bytes of requests left, %v %v", len(rest), plain.close.Cause, plain.close.Err)
		}
		broker := brokerAnswers(t, plain.passed)
		if rest := plain.answers(broker); len(rest) > 0 || plain.close.Verb == Close {
			t.Fatalf("%d bytes of answers left, %v %v", len(rest), plain.close.Cause, plain.close.Err)
		}
		var got []int32
		for _, answer := range frames(t, plain.given) {
			got = append(got, correlationOf(answer))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("answers out of order (-want +got):\n%s", diff)
		}
		if bytes.Contains(plain.given, []byte("upstream.internal")) {
			t.Fatal("an upstream host reached the client")
		}
		if !barrierOpen(plain.session) {
			t.Fatal("a token is held although all is answered")
		}

		cut := newPump(t, newTestSession(t, store.View), &listHandler{}, func(most int) int {
			return min(most, rapid.SampledFrom([]int{0, 0, 1, 2, 7, 100, 100_000}).Draw(rt, "extra"))
		})
		cut.requests(stream)
		if !bytes.Equal(cut.passed, plain.passed) {
			t.Fatal("cut requests give other upstream bytes")
		}
		cut.answers(broker)
		if !bytes.Equal(cut.given, plain.given) {
			t.Fatal("cut answers give other client bytes")
		}
	})
}

// mirrors must never reach the broker, whatever stands beside them.
func TestNoProduceToAMirrorTopicPasses(t *testing.T) {
	store := mirroredStore(t)
	for version := int16(3); version <= 13; version++ {
		for _, parts := range [][]part{
			{{"orders", ordersID}},
			{{"other", state.TopicID{5}}, {"orders", ordersID}, {"third", state.TopicID{6}}},
			{{"orders", ordersID}, {"other", state.TopicID{5}}},
		} {
			p := newPump(t, newTestSession(t, store.View), nil, whole)
			p.requests(requestFrame(7, produceRequest(version, -1, 50, parts...)))
			if version < 13 && bytes.Contains(p.passed, []byte("orders")) || bytes.Contains(p.passed, ordersID[:]) {
				t.Errorf("v%d: the mirror topic went upstream", version)
			}
			if len(parts) == 1 && len(p.passed) > 0 {
				t.Errorf("v%d: %d bytes went upstream", version, len(p.passed))
			}
			p.answers(brokerAnswers(t, p.passed))
			answers := frames(t, p.given)
			if len(answers) != 1 {
				t.Fatalf("v%d: %d answers", version, len(answers))
			}
			response := kmsg.NewPtrProduceResponse()
			response.Version = version
			offset, _, err := protocol.PeekResponseBody(0, version, answers[0][sizeBytes:])
			if err != nil {
				t.Fatal(err)
			}
			if err := response.ReadFrom(answers[0][sizeBytes+offset:]); err != nil {
				t.Fatalf("v%d: %v", version, err)
			}
			codes := map[int32]int16{}
			for _, topic := range response.Topics {
				for _, partition := range topic.Partitions {
					codes[partition.Partition] = partition.ErrorCode
					if message := partition.ErrorMessage; version >= 8 && partition.ErrorCode != 0 &&
						(message == nil || *message != "Topic orders is read-only: it is mirrored by mirror dr.") {
						t.Errorf("v%d: message %v", version, message)
					}
				}
			}
			want := map[int32]int16{}
			for i, part := range parts {
				want[int32(i)] = 0
				if part.topic == "orders" {
					want[int32(i)] = protocol.CodeReadOnlyTopic
				}
			}
			if diff := cmp.Diff(want, codes); diff != "" {
				t.Errorf("v%d: codes (-want +got):\n%s", version, diff)
			}
			if !barrierOpen(p.session) {
				t.Errorf("v%d: a token is held", version)
			}
		}
	}
}

func TestRefusedAcks0ClosesWithoutAByte(t *testing.T) {
	store := mirroredStore(t)
	for _, parts := range [][]part{named("orders"), named("other", "orders")} {
		p := newPump(t, newTestSession(t, store.View), nil, whole)
		p.requests(append(opaque(1, 10), requestFrame(2, produceRequest(9, 0, 50, parts...))...))
		if p.close.Cause != CauseRefusedAcks0 {
			t.Fatalf("cause %v, %v", p.close.Cause, p.close.Err)
		}
		p.session.EndRequests()
		p.answers(brokerAnswers(t, p.passed))
		if got := frames(t, p.given); len(got) != 1 || correlationOf(got[0]) != 1 {
			t.Errorf("answers %x", got)
		}
		if p.close.Cause != CauseClientClosed { // of the response half: all is answered
			t.Errorf("response half: %v %v", p.close.Cause, p.close.Err)
		}
		if !barrierOpen(p.session) {
			t.Error("a token is held")
		}
	}
}

// The broker answers an acks=0 produce with nothing, so the token stays until it has answered
// the probe behind it; the client sees none of that, and the ids of its other requests in order.
func TestAcks0HoldsItsTokenUntilTheProbeIsAnswered(t *testing.T) {
	p := newPump(t, newTestSession(t, mirroredStore(t).View), nil, whole)
	stream := opaque(1, 10)
	stream = append(stream, requestFrame(2, produceRequest(9, 0, 50, named("other")...))...)
	stream = append(stream, opaque(3, 10)...)
	p.requests(stream)
	upstream := frames(t, p.passed)
	if len(upstream) != 4 {
		t.Fatalf("%d frames went upstream", len(upstream))
	}
	header, _, err := protocol.PeekRequestHeader(upstream[2][sizeBytes:])
	if err != nil || header.Key != protocol.KeyApiVersions || header.CorrelationID != probeCorrelation {
		t.Fatalf("behind the produce: %+v, %v", header, err)
	}
	answers := frames(t, brokerAnswers(t, p.passed))
	if len(answers) != 3 {
		t.Fatalf("the broker gave %d answers", len(answers))
	}
	p.answers(answers[0])
	if barrierOpen(p.session) {
		t.Error("no token is held for the unanswered produce")
	}
	p.answers(answers[1])
	if !barrierOpen(p.session) {
		t.Error("the token is held although the probe is answered")
	}
	p.answers(answers[2])
	var got []int32
	for _, answer := range frames(t, p.given) {
		got = append(got, correlationOf(answer))
	}
	if diff := cmp.Diff([]int32{1, 3}, got); diff != "" {
		t.Errorf("correlation ids (-want +got):\n%s", diff)
	}
}

func TestTokenIsHeldUntilTheAnswerIsWritten(t *testing.T) {
	for _, request := range []kmsg.Request{
		produceRequest(9, -1, 50, named("other")...), produceRequest(9, -1, 50, named("other", "orders")...),
		produceRequest(10, 1, 50, named("other")...), addPartitions("other"),
	} {
		p := newPump(t, newTestSession(t, mirroredStore(t).View), nil, whole)
		p.requests(requestFrame(2, request))
		if barrierOpen(p.session) {
			t.Errorf("%T: no token", request)
		}
		p.answers(brokerAnswers(t, p.passed))
		if !barrierOpen(p.session) {
			t.Errorf("%T: token after the answer", request)
		}
	}
	// and a death leaves it in the caller's hands
	p := newPump(t, newTestSession(t, mirroredStore(t).View), nil, whole)
	p.requests(requestFrame(2, produceRequest(9, -1, 50, named("other")...)))
	tokens := p.session.Die()
	if len(tokens) != 1 || barrierOpen(p.session) {
		t.Fatalf("%d tokens", len(tokens))
	}
	tokens[0].Exit()
	if !barrierOpen(p.session) {
		t.Error("held after exit")
	}
}

func addPartitions(topics ...string) *kmsg.AddPartitionsToTxnRequest {
	request := kmsg.NewPtrAddPartitionsToTxnRequest()
	request.Version, request.TransactionalID = 3, "tx"
	for _, name := range topics {
		topic := kmsg.NewAddPartitionsToTxnRequestTopic()
		topic.Topic, topic.Partitions = name, []int32{0}
		request.Topics = append(request.Topics, topic)
	}
	return request
}

func TestTransactionOnMirrorTopicIsRefused(t *testing.T) {
	p := newPump(t, newTestSession(t, mirroredStore(t).View), nil, whole)
	p.requests(requestFrame(2, addPartitions("other", "orders")))
	if len(p.passed) > 0 {
		t.Fatal("it went upstream")
	}
	p.answers(nil)
	response := kmsg.NewPtrAddPartitionsToTxnResponse()
	response.Version = 3
	if err := response.ReadFrom(p.given[sizeBytes+correlationBytes+1:]); err != nil {
		t.Fatal(err)
	}
	got := map[string]int16{}
	for _, topic := range response.Topics {
		got[topic.Topic] = topic.Partitions[0].ErrorCode
	}
	if diff := cmp.Diff(map[string]int16{"orders": 134, "other": 55}, got); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
}

func deleteRecords() *kmsg.DeleteRecordsRequest {
	request := kmsg.NewPtrDeleteRecordsRequest()
	request.Version = 2
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = "any"
	topic.Partitions = append(topic.Partitions, kmsg.NewDeleteRecordsRequestTopicPartition())
	request.Topics = append(request.Topics, topic)
	return request
}

func TestWritesWaitForTheView(t *testing.T) {
	loaded := mirroredStore(t).View()
	for name, test := range map[string]struct {
		request   []byte
		lateCause Cause  // closed late
		lateCode  uint16 // or answered with this code somewhere
	}{
		"produce":        {requestFrame(2, produceRequest(9, -1, 50, named("any", "other")...)), CauseNone, 6},
		"produce acks=0": {requestFrame(2, produceRequest(9, 0, 50, named("any")...)), CauseNotReady, 0},
		"transaction":    {requestFrame(2, addPartitions("any")), CauseNone, 14},
		"delete records": {requestFrame(2, deleteRecords()), CauseNotReady, 0},
		"delete by id":   {requestFrame(2, deleteTopics(kmsg.DeleteTopicsRequestTopic{TopicID: [16]byte{1}})), CauseNotReady, 0},
		"owned config":   {requestFrame(2, alterTopic("any", "retention.ms")), CauseNotReady, 0},
	} {
		t.Run(name, func(t *testing.T) {
			view := &state.View{}
			over := make(chan struct{})
			session := newTestSession(t, func() *state.View { return view })
			session.hold = func() <-chan struct{} { return over }
			p := newPump(t, session, nil, whole)
			if rest := p.requests(test.request); len(rest) != len(test.request) {
				t.Fatal("not held")
			}
			// late
			close(over)
			p.requests(test.request)
			if len(p.passed) > 0 {
				t.Fatal("it went upstream although no view is loaded")
			}
			if p.close.Cause != test.lateCause {
				t.Fatalf("cause %v: %v", p.close.Cause, p.close.Err)
			}
			p.answers(nil)
			if test.lateCause == CauseNone {
				code := binary.BigEndian.AppendUint16(nil, test.lateCode)
				if got := frames(t, p.given); len(got) != 1 || !bytes.Contains(got[0][8:], code) {
					t.Errorf("answers %x", got)
				}
			}
			// in time
			p = newPump(t, newTestSession(t, func() *state.View { return view }), nil, whole)
			p.session.hold = func() <-chan struct{} { return make(chan struct{}) }
			p.requests(test.request)
			view = loaded
			if rest := p.requests(test.request); len(rest) > 0 || len(p.passed) < len(test.request) {
				t.Errorf("%d bytes left, %d passed", len(rest), len(p.passed))
			}
		})
	}
}

func TestBadRequests(t *testing.T) {
	size := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 0, "PLAIN"
	metadata := requestFrame(1, kmsg.NewPtrMetadataRequest())
	protocol.SetRequestVersion(metadata[sizeBytes:], 99)
	short := requestFrame(1, produceRequest(9, -1, 0, named("t")...))[:20]
	binary.BigEndian.PutUint32(short, 16)
	for name, test := range map[string]struct {
		bytes []byte
		cause Cause
	}{
		"TLS hello":          {[]byte{0x16, 3, 1, 2, 0, 1, 0, 1}, CauseTLS},
		"TLS alert":          {[]byte{0x15, 3, 3, 0, 2}, CauseTLS},
		"HTTP":               {[]byte("GET / HTTP/1.1\r\n"), CauseFrameLength},
		"length 0":           {size(0), CauseFrameLength},
		"length -1":          {size(0xffffffff), CauseFrameLength},
		"length 2^31-1":      {size(0x7fffffff), CauseFrameLength},
		"length just above":  {size(101<<20 + 1), CauseFrameLength},
		"length 3":           {append(size(3), 0, 0, 0), CauseMalformed},
		"produce v2":         {rawFrame(requestHeader(0, 2, 1), make([]byte, 30)), CauseUnsupported},
		"fetch v3":           {rawFrame(requestHeader(1, 3, 1), make([]byte, 30)), CauseUnsupported},
		"metadata v99":       {metadata, CauseUnsupported},
		"raw SASL":           {requestFrame(1, handshake), CauseUnsupported},
		"cut produce":        {short, CauseMalformed},
		"local request big":  {rawFrame(requestHeader(98, 0, 1), make([]byte, 2<<20)), CauseFrameLength},
		"client id too long": {rawFrame([]byte{0, 0, 0, 9, 0, 0, 0, 1, 0x7f, 0xff}), CauseMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPump(t, newTestSession(t, mirroredStore(t).View), nil, whole)
			p.requests(test.bytes)
			if p.close.Cause != test.cause || p.close.Err == nil || len(p.passed) > 0 {
				t.Errorf("cause %v: %v; %d bytes passed", p.close.Cause, p.close.Err, len(p.passed))
			}
		})
	}
}

func TestApiVersionsAboveOursIsAnsweredInV0(t *testing.T) {
	request := requestFrame(5, func() kmsg.Request {
		r := kmsg.NewPtrApiVersionsRequest()
		r.Version = 3
		return r
	}())
	protocol.SetRequestVersion(request[sizeBytes:], 99)
	p := newPump(t, newTestSession(t, mirroredStore(t).View), nil, whole)
	p.requests(request)
	p.answers(nil)
	if len(p.passed) > 0 || len(p.given) < 10 || correlationOf(p.given) != 5 || binary.BigEndian.Uint16(p.given[8:]) != 35 {
		t.Errorf("passed %x, given %x", p.passed, p.given)
	}
}

func TestFindCoordinator(t *testing.T) {
	request := func(keyType int8) []byte {
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.Version, r.CoordinatorType, r.CoordinatorKeys = 6, keyType, []string{"dr:x:0"}
		frame := requestFrame(5, r)
		protocol.SetRequestVersion(frame[sizeBytes:], 7)
		return frame
	}
	p := newPump(t, newTestSession(t, mirroredStore(t).View), &listHandler{}, whole)
	p.requests(append(request(0), request(3)...))
	upstream := frames(t, p.passed)
	if len(upstream) != 1 || binary.BigEndian.Uint16(upstream[0][6:]) != 6 {
		t.Fatalf("upstream %x, %v %v", upstream, p.close.Cause, p.close.Err)
	}
	p.answers(brokerAnswers(t, p.passed))
	given := frames(t, p.given)
	if len(given) != 2 || bytes.Contains(given[0], []byte("upstream.internal")) || !bytes.HasSuffix(given[1], []byte("local 10")) {
		t.Errorf("given %q", given)
	}
	// an old broker's version is learnt from its answer
	old := kmsg.NewPtrApiVersionsResponse()
	for _, row := range [][2]int16{{10, 4}, {18, 3}} {
		key := kmsg.NewApiVersionsResponseApiKey()
		key.ApiKey, key.MaxVersion = row[0], row[1]
		old.ApiKeys = append(old.ApiKeys, key)
	}
	p = newPump(t, newTestSession(t, mirroredStore(t).View), &listHandler{}, whole)
	p.requests(requestFrame(1, kmsg.NewPtrApiVersionsRequest()))
	p.answers(answerFrame(1, old))
	p.passed = nil
	p.requests(request(0))
	if upstream := frames(t, p.passed); len(upstream) != 1 || binary.BigEndian.Uint16(upstream[0][6:]) != 4 {
		t.Errorf("upstream %x", upstream)
	}
}

func TestBadAnswersClose(t *testing.T) {
	for name, test := range map[string]struct{ request, answer []byte }{
		"wrong correlation": {opaque(1, 0), rawFrame([]byte{0, 0, 0, 2})},
		"negative size":     {opaque(1, 0), []byte{0xff, 0, 0, 0, 0, 0, 0, 1}},
		"too short":         {opaque(1, 0), []byte{0, 0, 0, 3, 0, 0, 0, 1}},
		"nobody asked":      {nil, rawFrame([]byte{0, 0, 0, 2})},
		"malformed edit":    {requestFrame(1, kmsg.NewPtrMetadataRequest()), rawFrame([]byte{0, 0, 0, 1}, []byte{0x7f})},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPump(t, newTestSession(t, mirroredStore(t).View), nil, whole)
			p.requests(test.request)
			p.answers(test.answer)
			if p.close.Cause != CauseBrokerFrame || p.close.Err == nil || len(p.given) > 0 {
				t.Errorf("cause %v: %v, given %x", p.close.Cause, p.close.Err, p.given)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) Handle(context.Context, LocalRequest) ([]byte, error) { return nil, f.err }

type panicking struct{}

func (panicking) Handle(context.Context, LocalRequest) ([]byte, error) { panic("a bug") }

func TestFailedLocalAnswerCloses(t *testing.T) {
	list := rawFrame(requestHeader(98, 0, 1), []byte{0})
	for _, handler := range []LocalHandler{failing{errors.New("no")}, failing{}, panicking{}} {
		p := newPump(t, newTestSession(t, mirroredStore(t).View), handler, whole)
		p.requests(list)
		p.answers(nil)
		if p.close.Cause != CauseLocal || p.close.Err == nil {
			t.Errorf("%T: cause %v: %v", handler, p.close.Cause, p.close.Err)
		}
	}
}

func TestDialectNoneLeavesTheKeysAlone(t *testing.T) {
	session := newSession(newTestShared(t, mirroredStore(t).View, Limits{}), bootstrapNode, "client:1", DialectNone)
	p := newPump(t, session, nil, whole)
	list := rawFrame(requestHeader(98, 0, 1), []byte{0})
	p.requests(list)
	if !bytes.Equal(p.passed, list) {
		t.Errorf("passed %x", p.passed)
	}
}

func TestQueueLimits(t *testing.T) {
	session := newSession(newTestShared(t, mirroredStore(t).View, Limits{InFlight: 5}), bootstrapNode, "client:1", "seed")
	p := newPump(t, session, &listHandler{}, whole)
	var stream []byte
	for i := range int32(8) {
		stream = append(stream, opaque(i, 0)...)
	}
	rest := p.requests(stream)
	if got := len(frames(t, p.passed)); got != 5 {
		t.Fatalf("%d requests are in flight, 5 may be", got)
	}
	p.answers(brokerAnswers(t, p.passed))
	if rest = p.requests(rest); len(rest) > 0 {
		t.Errorf("%d bytes left after answers made room", len(rest))
	}

	p = newPump(t, newTestSession(t, mirroredStore(t).View), &listHandler{}, whole)
	list := rawFrame(requestHeader(98, 0, 1), []byte{0})
	stream = bytes.Repeat(list, maxHeavy+3)
	if rest := p.requests(stream); len(rest) != 3*len(list) {
		t.Errorf("%d answers made here wait, %d may", (len(stream)-len(rest))/len(list), maxHeavy)
	}
}

// A broker takes memory for what a request claims to be: large ones go there when they are there, but for produces, which
// are what large requests are.
func TestLargeRequestsAreForwardedWhole(t *testing.T) {
	session := newTestSession(t, mirroredStore(t).View)
	limit := session.limits.LocalBytes
	small := opaque(1, limit-100)
	if d := session.OnRequest(small[:100]); d.Verb != Forward {
		t.Errorf("a request of %d bytes: %v, want it to pass as it comes", len(small), d.Verb)
	}
	large := opaque(2, limit)
	if d := session.OnRequest(large[:100]); d.Verb != NeedMore || d.N != len(large) {
		t.Errorf("a request of %d bytes: %v %d, want it whole", len(large), d.Verb, d.N)
	}
	if d := session.OnRequest(large); d.Verb != Forward || d.N != len(large) {
		t.Errorf("the whole of it: %v %d", d.Verb, d.N)
	}
	produce := requestFrame(3, produceRequest(9, -1, limit, named("other")...))
	if d := session.OnRequest(produce[:1000]); d.Verb != Forward {
		t.Errorf("a large produce: %v, want it to pass as it comes", d.Verb)
	}
}

func TestRelayAllocatesNothing(t *testing.T) {
	for name, request := range map[string]kmsg.Request{
		"produce v9":  produceRequest(9, -1, 1000, named("other")...),
		"produce v11": produceRequest(11, 1, 1000, named("other")...),
		"produce v13": produceRequest(13, -1, 1000, part{"", state.TopicID{5}}),
		"fetch v17":   fetchRequest(17),
		"fetch v12":   fetchRequest(12),
	} {
		t.Run(name, func(t *testing.T) {
			session := newTestSession(t, mirroredStore(t).View)
			frame := requestFrame(1, request)
			header, _, err := protocol.PeekRequestHeader(frame[sizeBytes:])
			if err != nil {
				t.Fatal(err)
			}
			response := request.ResponseKind()
			if r, ok := response.(*kmsg.ProduceResponse); ok {
				topic := kmsg.NewProduceResponseTopic()
				topic.Topic, topic.TopicID = "other", [16]byte{5}
				topic.Partitions = append(topic.Partitions, kmsg.NewProduceResponseTopicPartition())
				r.Topics = append(r.Topics, topic)
			}
			response.SetVersion(header.Version)
			answer := answerFrame(1, response)
			allocs := testing.AllocsPerRun(200, func() { relayOnce(t, session, frame, answer) })
			if allocs != 0 {
				t.Errorf("%v allocations a relayed request and answer", allocs)
			}
		})
	}
}

func fetchRequest(version int16) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.Version = version
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = "other", [16]byte{5}
	topic.Partitions = append(topic.Partitions, kmsg.NewFetchRequestTopicPartition())
	request.Topics = append(request.Topics, topic)
	return request
}

// relayOnce takes one request and its answer through the session.
func relayOnce(t testing.TB, s *Session, frame, answer []byte) {
	if d := s.OnRequest(frame); d.Verb != Forward || d.N != len(frame) {
		t.Fatalf("request: %+v", d)
	}
	for len(answer) > 0 {
		d := s.OnResponse(answer)
		if d.Verb != Forward {
			t.Fatalf("answer: %+v", d)
		}
		answer = answer[d.N:]
	}
	if d := s.OnResponse(nil); d.Verb != NeedMore {
		t.Fatalf("after the answer: %+v", d)
	}
	if !s.Written() {
		t.Fatal("nothing was written")
	}
}

func BenchmarkRelay(b *testing.B) {
	for _, version := range []int16{9, 13} {
		b.Run(fmt.Sprintf("produce-v%d", version), func(b *testing.B) {
			session := newTestSession(b, mirroredStore(b).View)
			frame := requestFrame(1, produceRequest(version, -1, 1000, part{"other", state.TopicID{5}}))
			response := kmsg.NewPtrProduceResponse()
			response.Version = version
			answer := answerFrame(1, response)
			b.ReportAllocs()
			for b.Loop() {
				relayOnce(b, session, frame, answer)
			}
		})
	}
	b.Run("fetch-v17", func(b *testing.B) {
		session := newTestSession(b, mirroredStore(b).View)
		response := kmsg.NewPtrFetchResponse()
		response.Version = 17
		frame, answer := requestFrame(1, fetchRequest(17)), answerFrame(1, response)
		b.ReportAllocs()
		for b.Loop() {
			relayOnce(b, session, frame, answer)
		}
	})
}

// With the transactional id of the mirrors' owner a client would fence it, or end its transactions.
func TestNoClientHasTheOwnersTransactionalID(t *testing.T) {
	frame := func(key, version int16, id string) []byte {
		t.Helper()
		request := kmsg.RequestForKey(key)
		request.SetVersion(version)
		switch request := request.(type) {
		case *kmsg.InitProducerIDRequest:
			request.TransactionalID = &id
		case *kmsg.AddPartitionsToTxnRequest:
			topic := kmsg.AddPartitionsToTxnRequestTopic{Topic: "other", Partitions: []int32{0}}
			request.TransactionalID, request.Topics = id, append(request.Topics, topic)
		case *kmsg.AddOffsetsToTxnRequest:
			request.TransactionalID = id
		case *kmsg.EndTxnRequest:
			request.TransactionalID = id
		case *kmsg.TxnOffsetCommitRequest:
			request.TransactionalID = id
		}
		return requestFrame(7, request)
	}
	for _, test := range []struct{ key, from, to int16 }{{22, 0, 5}, {24, 0, 3}, {25, 0, 4}, {26, 0, 5}, {28, 0, 6}} {
		for version := test.from; version <= test.to; version++ {
			for id, ours := range map[string]bool{"__mirror_state-owner": true, "payments": false, "__mirror_state-owner2": false} {
				p := newPump(t, newTestSession(t, mirroredStore(t).View), nil, whole)
				p.requests(frame(test.key, version, id))
				if p.close.Verb == Close || ours != (len(p.passed) == 0) {
					t.Errorf("%s v%d of %s: %d bytes passed, closed by %v", protocol.KeyName(test.key), version, id, len(p.passed), p.close.Err)
				}
				p.answers(brokerAnswers(t, p.passed))
				if answers := frames(t, p.given); len(answers) != 1 || correlationOf(answers[0]) != 7 {
					t.Errorf("%s v%d of %s: answers %x", protocol.KeyName(test.key), version, id, answers)
				}
				if !barrierOpen(p.session) {
					t.Errorf("%s v%d of %s: a token is held", protocol.KeyName(test.key), version, id)
				}
			}
		}
	}
}
