package protocol

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzRequest feeds any bytes to everything that reads requests: no panic, and what the byte walks accept kmsg reads in the
// same way.
func FuzzRequest(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for key := range int16(80) {
		minVersion, maxVersion, known := Versions(key)
		request, ok := kmsg.RequestForKey(key).(message)
		if known && ok {
			f.Add(key, maxVersion, randomize(r, maxVersion, request).AppendTo(nil))
			f.Add(key, minVersion, randomize(r, minVersion, request).AppendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		PeekRequestHeader(body)
		PeekResponseBody(key, version, body)
		never := func(TopicRef) bool { return false }
		original := bytes.Clone(body)
		switch key {
		case KeyProduce:
			fuzzProduce(t, version, body)
		case KeyFetch:
			FetchNames(version, body, never)
			if answer, err := AppendFetchRefusal(nil, version, body, isStateTopic); err == nil {
				reread(t, version, answer, kmsg.NewPtrFetchResponse())
				if _, err := FetchNames(version, body, never); err != nil && wellFormedFetch(version, body) {
					t.Fatalf("kmsg reads what the walk does not: %v", err)
				}
			}
		case KeyFindCoordinator:
			PeekFindCoordinator(version, body)
		case KeyAddPartitionsToTxn:
			RefuseAddPartitions(version, body, refuseMirrored, isOurs)
		case KeyInitProducerID, KeyAddOffsetsToTxn, KeyEndTxn, KeyTxnOffsetCommit:
			PeekTransactionalID(key, version, body)
			if answer, err := RefuseTransaction(key, version, body); err == nil {
				reread(t, version, answer, kmsg.ResponseForKey(key).(message))
			}
		case KeyWriteTxnMarkers:
			RefuseTxnMarkers(version, body, refuseMirrored)
		default:
			if s, err := SplitAdmin(key, version, body, policy{}); err == nil && !s.Unchanged() && s.Upstream == nil && s.Local == nil {
				if _, err := s.Merge(nil, nil); err != nil {
					t.Fatalf("a refusal of everything cannot be made: %v", err)
				}
			}
		}
		if !bytes.Equal(body, original) {
			t.Fatal("a request was changed in place")
		}
	})
}

// wellFormedFetch tells whether kmsg writes a request as it read it: no nulls where none may be, no longer varints.
func wellFormedFetch(version int16, body []byte) bool {
	m := kmsg.NewPtrFetchRequest()
	m.Version = version
	return m.ReadFrom(body) == nil && bytes.Equal(m.AppendTo(nil), body)
}

func fuzzProduce(t *testing.T, version int16, body []byte) {
	peek, need, peekErr := PeekProduce(version, body)
	remainder, refused, splitErr := SplitProduce(version, body, func(t TopicRef) (int16, string, bool) {
		return CodeReadOnlyTopic, "no", len(t.Name)%2 == 1 || t.ID[15]%2 == 1
	})
	if splitErr != nil {
		return
	}
	if peekErr != nil || need != 0 {
		t.Fatalf("split, but not peeked: %d, %v", need, peekErr)
	}
	m := reread(t, version, body, kmsg.NewPtrProduceRequest())
	if peek.Topics != len(m.Topics) || peek.Acks != m.Acks {
		t.Fatalf("%+v of %d topics", peek, len(m.Topics))
	}
	partitions := func(m *kmsg.ProduceRequest) (n int) {
		for _, topic := range m.Topics {
			n += len(topic.Partitions)
		}
		return n
	}
	rows, left := partitions(m), 0
	if remainder != nil {
		left = partitions(reread(t, version, remainder, kmsg.NewPtrProduceRequest()))
	}
	if left+len(refused) != rows {
		t.Fatalf("%d left and %d refused of %d", left, len(refused), rows)
	}
}

// FuzzAnswer feeds any bytes to every edit of an answer: no panic, and what comes out can be read.
func FuzzAnswer(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, e := range addressEdits {
		minVersion, maxVersion, _ := Versions(e.key)
		f.Add(e.key, maxVersion, randomize(r, maxVersion, e.new()).AppendTo(nil))
		f.Add(e.key, minVersion, randomize(r, minVersion, e.new()).AppendTo(nil))
	}
	for version := int16(0); version <= 5; version++ {
		f.Add(KeyApiVersions, version, randomize(r, version, kmsg.NewPtrApiVersionsResponse()).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		if key == KeyApiVersions {
			if edited, _, err := EditApiVersions(version, body, true); err == nil {
				var r kmsg.ApiVersionsResponse
				if r.Version = version; r.ReadFrom(edited) != nil {
					r.Version = 0
					reread(t, 0, edited, &r)
				}
			}
		}
		for _, e := range addressEdits {
			if e.key != key {
				continue
			}
			edited, err := e.edit(version, body, ourAddress)
			if err != nil {
				continue
			}
			if key == KeyProduce && !HasNodeEndpoints(key, version) {
				continue // relayed unread
			}
			reread(t, min(version, e.new().(kmsg.Response).MaxVersion()), edited, e.new())
		}
	})
}

// FuzzFetchWalk: any bytes, any window: the same bytes or the same failure come out as with the whole body in sight.
func FuzzFetchWalk(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for version := int16(16); version <= 18; version++ {
		for range 4 {
			f.Add(version, uint16(1+r.IntN(100)), randomize(r, version, kmsg.NewPtrFetchResponse()).AppendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, version int16, windowBytes uint16, body []byte) {
		want, wantErr := walkWhole(version, body, ourAddress)
		var w FetchWalker
		if err := w.Reset(version, len(body), ourAddress); err != nil {
			return
		}
		size := max(1, int(windowBytes))
		got, err := walkFetch(&w, body, size, func() int { return size })
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("window of %d: %v, whole: %v", size, err, wantErr)
		}
		if err != nil {
			if !bytes.Equal(got, want) && len(want) > 0 && !bytes.HasPrefix(got, want) {
				t.Fatal("other bytes were passed before the failure")
			}
			return
		}
		if !bytes.Equal(got, want) || len(got) != len(body) {
			t.Fatalf("window of %d: % x\nwhole: % x", size, got, want)
		}
		// The walk does not look into tagged fields other than the endpoints, so it may accept more than kmsg does.
		original := kmsg.NewPtrFetchResponse()
		if original.Version = version; original.ReadFrom(body) == nil {
			reread(t, version, got, kmsg.NewPtrFetchResponse())
		}
	})
}

// FuzzHideInFetch: any bytes as a Fetch answer. What kmsg reads before it reads after, and the only difference is what was
// hidden.
func FuzzHideInFetch(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for version := int16(4); version <= 18; version++ {
		f.Add(version, randomFetch(r, version).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		all := func(TopicRef) bool { return true }
		original := bytes.Clone(body)
		answer, edited, err := HideInFetch(nil, version, body, all, func(out []byte, _ TopicRef, _ int32, records []byte) ([]byte, bool) {
			return append(out, records[:len(records)/2]...), true
		})
		if !bytes.Equal(body, original) {
			t.Fatal("the answer was changed in place")
		}
		before := kmsg.NewPtrFetchResponse()
		before.Version = version
		if err != nil || before.ReadFrom(body) != nil { // kmsg knows tagged fields that the walk skips
			return
		}
		if !edited {
			answer = body
		}
		after := reread(t, version, answer, kmsg.NewPtrFetchResponse())
		for _, topic := range before.Topics {
			for i := range topic.Partitions {
				if records := &topic.Partitions[i].RecordBatches; len(*records) > 0 {
					*records = (*records)[:len(*records)/2]
				}
			}
		}
		if !bytes.Equal(before.AppendTo(nil), after.AppendTo(nil)) {
			t.Fatal("something else changed")
		}
	})
}
