package proxy

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/state"
)

// Any bytes from a client and any bytes from a broker: nothing panics, and cutting the streams changes
// neither what passes nor how it ends. Only of a malformed or cut off Fetch answer, which is walked in
// passing, more or less may have passed before its end.
func FuzzSession(f *testing.F) {
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 9
	f.Add(requestFrame(1, metadata), brokerAnswers(f, requestFrame(1, metadata)), byte(1))
	f.Add(requestFrame(1, fetchRequest(17)), brokerAnswers(f, requestFrame(1, fetchRequest(17))), byte(3))
	for _, version := range []int16{3, 9, 13} {
		both := requestFrame(1, produceRequest(version, -1, 20, part{"other", state.TopicID{5}}, part{"orders", ordersID}))
		one := requestFrame(2, produceRequest(version, 0, 20, part{"other", state.TopicID{5}}))
		f.Add(append(both, one...), brokerAnswers(f, requestFrame(1, produceRequest(version, -1, 20, part{"other", state.TopicID{5}}))), byte(2))
	}
	f.Add([]byte{0x16, 3, 1, 2, 0, 1}, []byte{0, 0, 0, 4, 0, 0, 0, 1}, byte(0))
	store := mirroredStore(f)
	f.Fuzz(func(t *testing.T, fromClient, fromBroker []byte, extra byte) {
		left := 0
		run := func(cut func(int) int) *pump {
			p := newPump(t, newTestSession(t, store.View), &listHandler{}, cut)
			p.partial = true
			p.requests(fromClient)
			left += len(p.answers(fromBroker))
			return p
		}
		plain := run(whole)
		cut := run(func(most int) int { return min(most, int(extra)) })
		given := bytes.Equal(plain.given, cut.given)
		if left > 0 {
			given = bytes.HasPrefix(plain.given, cut.given) || bytes.HasPrefix(cut.given, plain.given)
		}
		if !bytes.Equal(plain.passed, cut.passed) || !given || plain.close.Cause != cut.close.Cause {
			t.Errorf("cut: %d passed, %d given, %v; whole: %d passed, %d given, %v", len(cut.passed), len(cut.given),
				cut.close.Cause, len(plain.passed), len(plain.given), plain.close.Cause)
		}
	})
}
