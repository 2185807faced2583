package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var errTooMuch = errors.New("the walker asks for more than it says it may")

// walkFetch plays the session: it shows the walker what has arrived, up to a window of windowBytes (more when the walker needs
// it), in pieces of arrive bytes, and returns what it would have sent.
func walkFetch(w *FetchWalker, body []byte, windowBytes int, arrive func() int) ([]byte, error) {
	var sent, window []byte
	rest := bytes.Clone(body)
	read := func(atMost int) {
		n := min(max(1, arrive()), atMost, len(rest))
		window, rest = append(window, rest[:n]...), rest[n:]
	}
	for {
		step, n, err := w.Next(window)
		if err != nil {
			return sent, err
		}
		switch step {
		case FetchEnd:
			if len(window)+len(rest) > 0 {
				return sent, fmt.Errorf("end with %d bytes left", len(window)+len(rest))
			}
			return sent, nil
		case FetchNeed:
			if n <= len(window) || n > len(window)+len(rest) || n > MaxEndpointsBytes+16 {
				return sent, fmt.Errorf("%w: %d of %d + %d", errTooMuch, n, len(window), len(rest))
			}
			for len(window) < n {
				read(max(windowBytes, n) - len(window))
			}
		case FetchPass:
			if n <= 0 || n > len(window)+len(rest) {
				return sent, fmt.Errorf("%w: pass %d of %d + %d", errTooMuch, n, len(window), len(rest))
			}
			inWindow := min(n, len(window))
			sent = append(sent, window[:inWindow]...)
			window = window[inWindow:]
			sent, rest = append(sent, rest[:n-inWindow]...), rest[n-inWindow:]
			if len(rest) > 0 && len(window) < windowBytes {
				read(windowBytes - len(window))
			}
		}
	}
}

func walkWhole(version int16, body []byte, a AddressOf) ([]byte, error) {
	var w FetchWalker
	if err := w.Reset(version, len(body), a); err != nil {
		return nil, err
	}
	return walkFetch(&w, body, len(body), func() int { return len(body) })
}

func randomFetch(r *rand.Rand, version int16) *kmsg.FetchResponse {
	m := randomize(r, version, kmsg.NewPtrFetchResponse())
	for _, topic := range m.Topics {
		for i := range topic.Partitions {
			switch r.IntN(4) {
			case 0:
				topic.Partitions[i].RecordBatches = nil
			case 1:
				topic.Partitions[i].RecordBatches = []byte(strings.Repeat("records.", r.IntN(6000)))
			}
		}
	}
	return m
}

// sameButEndpoints compares two answers, endpoints by what clients read of them: their tagged fields may differ.
func sameButEndpoints(t *testing.T, version int16, original, edited []byte, want func(i int, b kmsg.FetchResponseBroker) (string, int32)) {
	t.Helper()
	if len(original) != len(edited) {
		t.Fatalf("%d bytes became %d", len(original), len(edited))
	}
	before, after := reread(t, version, original, kmsg.NewPtrFetchResponse()), reread(t, version, edited, kmsg.NewPtrFetchResponse())
	if len(before.Brokers) != len(after.Brokers) {
		t.Fatalf("%d endpoints became %d", len(before.Brokers), len(after.Brokers))
	}
	for i := range before.Brokers {
		b, got := &before.Brokers[i], &after.Brokers[i]
		b.Host, b.Port = want(i, *b)
		if i == len(before.Brokers)-1 { // the padding
			var kept kmsg.Tags
			got.UnknownTags.Each(func(tag uint32, value []byte) {
				if tag != unknownTag {
					kept.Set(tag, value)
				} else if len(bytes.Trim(value, "\x00")) > 0 {
					t.Fatalf("padding of % x", value)
				}
			})
			got.UnknownTags = kept
		}
	}
	if !bytes.Equal(before.AppendTo(nil), after.AppendTo(nil)) {
		t.Fatalf("% x\nwant\n% x", after.AppendTo(nil), before.AppendTo(nil))
	}
}

func everyWalkedVersion(t *testing.T, f func(t *testing.T, version int16, r *rand.Rand)) {
	everyVersion(t, KeyFetch, func(t *testing.T, version int16, r *rand.Rand) {
		if version >= 16 {
			f(t, version, r)
		}
	})
}

func TestFetchWalkRewritesEndpointsOnly(t *testing.T) {
	withEndpoints, blanked := 0, 0
	everyWalkedVersion(t, func(t *testing.T, version int16, r *rand.Rand) {
		body := randomFetch(r, version).AppendTo(nil)
		edited, err := walkWhole(version, body, ourAddress)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(edited, []byte(upstreamHost)) {
			t.Fatal("an upstream host passes")
		}
		before, after := reread(t, version, body, kmsg.NewPtrFetchResponse()), reread(t, version, edited, kmsg.NewPtrFetchResponse())
		if len(after.Brokers) == 0 && len(before.Brokers) > 0 {
			// Only tags of the broker's own at our padding's number, which this generator makes now and then, may do it:
			// our hosts are shorter than the broker's.
			if last := before.Brokers[len(before.Brokers)-1].UnknownTags; last.Len() == 0 {
				t.Fatal("blanked without a reason")
			}
			blanked++
			before.Brokers = nil
			var kept kmsg.Tags
			after.UnknownTags.Each(func(tag uint32, value []byte) {
				if tag != unknownTag {
					kept.Set(tag, value)
				}
			})
			after.UnknownTags = kept
			if !bytes.Equal(before.AppendTo(nil), after.AppendTo(nil)) || len(edited) != len(body) {
				t.Fatal("blanking changed more than the endpoints")
			}
			return
		}
		if len(before.Brokers) > 0 {
			withEndpoints++
		}
		sameButEndpoints(t, version, body, edited, func(_ int, b kmsg.FetchResponseBroker) (string, int32) { return expected(b.NodeID) })
	})
	if withEndpoints < 40 || blanked < 5 {
		t.Errorf("%d answers with endpoints, %d blanked", withEndpoints, blanked)
	}
}

// Every difference of length between their hosts and ours: it fits with padding, or the field is blanked, never a third thing.
func TestFetchWalkPadding(t *testing.T) {
	for _, endpoints := range []int{1, 3} {
		for _, rack := range []*string{nil, text("rack-1")} {
			for theirs := 1; theirs < 400; theirs++ {
				for _, ours := range []int{1, 2, 125, 126, 127, 128, theirs - 1, theirs, theirs + 1} {
					if ours < 0 {
						continue
					}
					m := kmsg.NewPtrFetchResponse()
					m.Version = 17
					for id := range endpoints {
						m.Brokers = append(m.Brokers, kmsg.FetchResponseBroker{NodeID: int32(id), Host: strings.Repeat("u", theirs), Port: 1, Rack: rack})
					}
					body := m.AppendTo(nil)
					host := strings.Repeat("o", ours)
					edited, err := walkWhole(17, body, func(id int32, _ string, _ int32) (string, int32) { return host, 7 + id })
					if err != nil {
						t.Fatal(err)
					}
					after := reread(t, 17, edited, kmsg.NewPtrFetchResponse())
					fits := len(endpointsContent(host, endpoints, rack)) <= len(endpointsContent(m.Brokers[0].Host, endpoints, rack))
					if fits != (len(after.Brokers) == endpoints) {
						t.Fatalf("%d endpoints, hosts of %d over %d bytes: %d endpoints left", endpoints, ours, theirs, len(after.Brokers))
					}
					if fits {
						sameButEndpoints(t, 17, body, edited, func(_ int, b kmsg.FetchResponseBroker) (string, int32) { return host, 7 + b.NodeID })
						continue
					}
					if len(edited) != len(body) || after.UnknownTags.Len() != 1 {
						t.Fatalf("%d bytes became %d with %d unknown tags", len(body), len(edited), after.UnknownTags.Len())
					}
					after.UnknownTags.Each(func(tag uint32, value []byte) {
						if tag != unknownTag || len(bytes.Trim(value, "\x00")) > 0 {
							t.Fatalf("blanked into tag %d: % x", tag, value)
						}
					})
				}
			}
		}
	}
}

// endpointsContent is the endpoints field of n endpoints as kmsg writes it.
func endpointsContent(host string, n int, rack *string) []byte {
	m := kmsg.NewPtrFetchResponse()
	m.Version = 17
	for range n {
		m.Brokers = append(m.Brokers, kmsg.FetchResponseBroker{Host: host, Rack: rack})
	}
	return m.AppendTo(nil)[12:]
}

// Wherever the stream is cut and whatever the window's size, the same bytes come out.
func TestFetchWalkDoesNotDependOnTheWindow(t *testing.T) {
	everyWalkedVersion(t, func(t *testing.T, version int16, r *rand.Rand) {
		body := randomFetch(r, version).AppendTo(nil)
		want, err := walkWhole(version, body, ourAddress)
		if err != nil {
			t.Fatal(err)
		}
		var w FetchWalker
		for _, windowBytes := range []int{1, 2, 7, 64, 1 << 10, 1 + r.IntN(300)} {
			if err := w.Reset(version, len(body), ourAddress); err != nil {
				t.Fatal(err)
			}
			got, err := walkFetch(&w, body, windowBytes, func() int { return r.IntN(windowBytes + 1) })
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("window of %d: %v\n% x\nwant\n% x", windowBytes, err, got, want)
			}
		}
	})
}

func TestFetchWalkBlanksEndpointsThatAreTooLong(t *testing.T) {
	m := kmsg.NewPtrFetchResponse()
	m.Version = 18
	for id := range 500 {
		m.Brokers = append(m.Brokers, kmsg.FetchResponseBroker{NodeID: int32(id), Host: upstreamHost + strings.Repeat("x", 40)})
	}
	m.UnknownTags.Set(30, []byte("stays"))
	body := m.AppendTo(nil)
	var first []byte
	for _, windowBytes := range []int{1, 100, 4096, 1 << 20} {
		var w FetchWalker
		if err := w.Reset(18, len(body), ourAddress); err != nil {
			t.Fatal(err)
		}
		edited, err := walkFetch(&w, body, windowBytes, func() int { return windowBytes })
		if err != nil || len(edited) != len(body) {
			t.Fatal(len(edited), err)
		}
		if first == nil {
			first = edited
		}
		after := reread(t, 18, edited, kmsg.NewPtrFetchResponse())
		if len(after.Brokers) != 0 || bytes.Contains(edited, []byte("upstream")) || !bytes.Equal(first, edited) {
			t.Fatalf("window of %d", windowBytes)
		}
		after.UnknownTags.Each(func(tag uint32, value []byte) {
			if tag == 30 && string(value) != "stays" || tag == unknownTag && len(bytes.Trim(value, "\x00")) > 0 {
				t.Errorf("tag %d: %q", tag, value)
			}
		})
		if after.UnknownTags.Len() != 2 {
			t.Errorf("%d tags", after.UnknownTags.Len())
		}
	}
}

// The number 0 of the endpoints field may be written with more bytes than it needs.
func TestFetchWalkFindsALongZero(t *testing.T) {
	m := kmsg.NewPtrFetchResponse()
	m.Version = 17
	m.Brokers = []kmsg.FetchResponseBroker{{NodeID: 3, Host: upstreamHost}}
	body := m.AppendTo(nil)
	at := 4 + 2 + 4 + 1 + 1 // the tag number's place, behind an empty array of topics and the count of tags
	if body[at] != 0 {
		t.Fatalf("% x", body)
	}
	long := append(append(bytes.Clone(body[:at]), 0x80, 0x80, 0), body[at+1:]...)
	for ours, left := range map[string]int{"p": 1, strings.Repeat("p", 50): 0} {
		edited, err := walkWhole(17, long, func(int32, string, int32) (string, int32) { return ours, 1 })
		if err != nil || len(edited) != len(long) || bytes.Contains(edited, []byte("upstream")) {
			t.Fatalf("% x, %v", edited, err)
		}
		if after := reread(t, 17, edited, kmsg.NewPtrFetchResponse()); len(after.Brokers) != left {
			t.Fatalf("%d endpoints with %q", len(after.Brokers), ours)
		}
	}
}

func TestFetchWalkRefusesWhatCannotBe(t *testing.T) {
	everyWalkedVersion(t, func(t *testing.T, version int16, r *rand.Rand) {
		body := randomFetch(r, version).AppendTo(nil)
		cut := body[:r.IntN(len(body))]
		if _, err := walkWhole(version, cut, ourAddress); !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut at %d of %d: %v", len(cut), len(body), err)
		}
		if _, err := walkWhole(version, append(bytes.Clone(body), 0), ourAddress); !errors.Is(err, ErrMalformed) {
			t.Fatalf("a byte too many: %v", err)
		}
	})
	head := make([]byte, 10)
	huge := binary.AppendUvarint(nil, 1<<31-1)
	topic := append(bytes.Clone(head), append([]byte{2}, make([]byte, 16)...)...)
	partition := append(bytes.Clone(topic), append([]byte{2}, make([]byte, 30)...)...)
	for name, body := range map[string][]byte{
		"topics":               append(bytes.Clone(head), huge...),
		"partitions":           append(bytes.Clone(topic), huge...),
		"aborted transactions": append(bytes.Clone(partition), huge...),
		"record bytes":         append(bytes.Clone(partition), append([]byte{0, 0, 0, 0, 0}, huge...)...),
		"tags":                 append(append(bytes.Clone(head), 1), huge...),
		"tag bytes":            append(append(bytes.Clone(head), 1, 1, 9), huge...),
		"endpoint bytes":       append(append(bytes.Clone(head), 1, 1, 0), huge...),
		"endpoints":            append(append(bytes.Clone(head), 1, 1, 0, 5), huge...),
		"varint":               append(bytes.Clone(head), bytes.Repeat([]byte{0xff}, 8)...),
	} {
		if _, err := walkWhole(17, append(body, make([]byte, 60)...), ourAddress); !errors.Is(err, ErrMalformed) {
			t.Errorf("too many %s: %v", name, err)
		}
	}
	var w FetchWalker
	for _, version := range []int16{4, 15, 19} {
		if err := w.Reset(version, 100, ourAddress); !errors.Is(err, ErrUnsupportedVersion) {
			t.Errorf("v%d: %v", version, err)
		}
	}
	if _, _, err := w.Next(make([]byte, 100)); err == nil {
		t.Error("walks without Reset")
	}
}

func TestFetchWalkDoesNotAllocate(t *testing.T) {
	m := kmsg.NewPtrFetchResponse()
	m.Version = 17
	for range 4 {
		topic := kmsg.NewFetchResponseTopic()
		for p := range 8 {
			row := kmsg.NewFetchResponseTopicPartition()
			row.Partition, row.RecordBatches = int32(p), make([]byte, 5000)
			row.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, 3)
			topic.Partitions = append(topic.Partitions, row)
		}
		m.Topics = append(m.Topics, topic)
	}
	body := m.AppendTo(nil)
	var w FetchWalker
	n := testing.AllocsPerRun(100, func() {
		if err := w.Reset(17, len(body), ourAddress); err != nil {
			t.Fatal(err)
		}
		for at := 0; ; {
			step, n, err := w.Next(body[at:min(len(body), at+4096)])
			if err != nil || step == FetchNeed {
				t.Fatal(step, n, err)
			}
			if step == FetchEnd {
				break
			}
			at += n
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFetchWalk(b *testing.B) {
	m := kmsg.NewPtrFetchResponse()
	m.Version = 17
	topic := kmsg.NewFetchResponseTopic()
	for p := range 8 {
		row := kmsg.NewFetchResponseTopicPartition()
		row.Partition, row.RecordBatches = int32(p), make([]byte, 128<<10)
		topic.Partitions = append(topic.Partitions, row)
	}
	m.Topics = append(m.Topics, topic)
	body := m.AppendTo(nil)
	var w FetchWalker
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Reset(17, len(body), ourAddress); err != nil {
			b.Fatal(err)
		}
		for at := 0; ; {
			step, n, err := w.Next(body[at:min(len(body), at+4096)])
			if err != nil || step == FetchNeed {
				b.Fatal(step, n, err)
			}
			if step == FetchEnd {
				break
			}
			at += n
		}
	}
}
