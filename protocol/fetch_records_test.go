package protocol

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// secretive hides what begins with "secret", by other bytes, of any length.
func secretive(out []byte, _ TopicRef, partition int32, records []byte) ([]byte, bool) {
	if !bytes.HasPrefix(records, []byte("secret")) {
		return out, false
	}
	return append(out, bytes.Repeat([]byte{byte(partition)}, hiddenBytes(records))...), true
}

// hiddenBytes is shorter, longer, or nothing at all.
func hiddenBytes(records []byte) int {
	return []int{0, 1, len(records) - 1, 2 * len(records)}[len(records)%4]
}

// looked is the topics that are looked at.
func looked(t TopicRef) bool {
	if t.ByID {
		return t.ID[0]%2 == 0
	}
	return strings.HasSuffix(string(t.Name), "x")
}

// fetchWithSecrets is a random answer, and what is to be made of it.
func fetchWithSecrets(t *testing.T, r *rand.Rand, version int16) (body, want []byte, hidden int) {
	t.Helper()
	m := randomFetch(r, version)
	for i := range m.Topics {
		if r.IntN(2) == 0 {
			m.Topics[i].Topic += "x"
		}
		for j := range m.Topics[i].Partitions {
			if r.IntN(2) == 0 {
				m.Topics[i].Partitions[j].RecordBatches = []byte("secret" + strings.Repeat("s", r.IntN(300)))
			}
		}
	}
	body = m.AppendTo(nil)
	m = reread(t, version, body, kmsg.NewPtrFetchResponse())
	for _, topic := range m.Topics {
		if !looked(TopicRef{Name: []byte(topic.Topic), ID: topic.TopicID, ByID: version >= 13}) {
			continue
		}
		for j := range topic.Partitions {
			p := &topic.Partitions[j]
			if visible, ok := secretive([]byte{}, TopicRef{}, p.Partition, p.RecordBatches); ok {
				p.RecordBatches = visible
				hidden++
			}
		}
	}
	return body, m.AppendTo(nil), hidden
}

func TestHideInFetch(t *testing.T) {
	answers := 0
	everyVersion(t, KeyFetch, func(t *testing.T, version int16, r *rand.Rand) {
		body, want, hidden := fetchWithSecrets(t, r, version)
		before := bytes.Clone(body)
		answer, edited, err := HideInFetch([]byte("prefix"), version, body, looked, secretive)
		if err != nil || edited != (hidden > 0) || !bytes.Equal(body, before) {
			t.Fatalf("edited %v with %d record sets to hide, the body is as before: %v, %v", edited, hidden, bytes.Equal(body, before), err)
		}
		if !edited {
			return
		}
		answers++
		if !bytes.Equal(answer, append([]byte("prefix"), want...)) {
			t.Fatalf("%d bytes, want %d", len(answer), len(want))
		}
	})
	if answers < 200 {
		t.Errorf("only %d answers had something to hide", answers)
	}
}

func TestHideInFetchIsToldWhatItLooksAt(t *testing.T) {
	everyVersion(t, KeyFetch, func(t *testing.T, version int16, r *rand.Rand) {
		type set struct {
			topic     string
			partition int32
			records   string
		}
		key := func(ref TopicRef) string { return string(ref.Name) + "/" + string(ref.ID[:]) }
		var want, got []set
		body := randomFetch(r, version).AppendTo(nil)
		m := reread(t, version, body, kmsg.NewPtrFetchResponse())
		for _, topic := range m.Topics {
			for _, p := range topic.Partitions {
				if len(p.RecordBatches) > 0 {
					ref := TopicRef{Name: []byte(topic.Topic), ID: topic.TopicID}
					want = append(want, set{key(ref), p.Partition, string(p.RecordBatches)})
				}
			}
		}
		_, edited, err := HideInFetch(nil, version, body, func(TopicRef) bool { return true },
			func(out []byte, ref TopicRef, partition int32, records []byte) ([]byte, bool) {
				if ref.ByID != (version >= 13) {
					t.Fatalf("by id: %v", ref.ByID)
				}
				got = append(got, set{key(ref), partition, string(records)})
				return out, false
			})
		if err != nil || edited || len(got) != len(want) {
			t.Fatalf("%d of %d record sets, edited %v, %v", len(got), len(want), edited, err)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%q, want %q", got[i], want[i])
			}
		}
	})
}

func TestHideInFetchRefusesWhatCannotBe(t *testing.T) {
	everyVersion(t, KeyFetch, func(t *testing.T, version int16, r *rand.Rand) {
		body, _, _ := fetchWithSecrets(t, r, version)
		for _, bad := range [][]byte{body[:r.IntN(len(body))], append(bytes.Clone(body), 0)} {
			if _, _, err := HideInFetch(nil, version, bad, looked, secretive); !errors.Is(err, ErrMalformed) {
				t.Fatalf("%d bytes of %d: %v", len(bad), len(body), err)
			}
		}
	})
	for _, version := range []int16{-1, 3, 19} {
		if _, _, err := HideInFetch(nil, version, nil, looked, secretive); !errors.Is(err, ErrUnsupportedVersion) {
			t.Errorf("v%d: %v", version, err)
		}
	}
}

func TestHideInFetchOfNothingDoesNotAllocate(t *testing.T) {
	for version := int16(4); version <= 18; version++ {
		m := kmsg.NewPtrFetchResponse()
		m.Version = version
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = "x"
		for range 4 {
			p := kmsg.NewFetchResponseTopicPartition()
			p.RecordBatches = make([]byte, 1000)
			p.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, 3)
			topic.Partitions = append(topic.Partitions, p)
		}
		m.Topics = append(m.Topics, topic)
		body := m.AppendTo(nil)
		if n := testing.AllocsPerRun(100, func() {
			if _, edited, err := HideInFetch(body[:0:0], version, body, looked, secretive); edited || err != nil {
				t.Fatal(edited, err)
			}
		}); n != 0 {
			t.Errorf("v%d: %v allocations", version, n)
		}
	}
}

// The walk over a whole body is the one that is taken in passing.
func TestFetchRewrite(t *testing.T) {
	everyWalkedVersion(t, func(t *testing.T, version int16, r *rand.Rand) {
		body := randomFetch(r, version).AppendTo(nil)
		want, err := walkWhole(version, body, ourAddress)
		if err != nil {
			t.Fatal(err)
		}
		var w FetchWalker
		if err := w.Rewrite(version, body, ourAddress); err != nil || !bytes.Equal(body, want) {
			t.Fatalf("%d bytes, want %d: %v", len(body), len(want), err)
		}
		if err := w.Rewrite(version, body[:r.IntN(len(body))], ourAddress); !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut: %v", err)
		}
	})
}

func TestHideInShareFetch(t *testing.T) {
	hidden := 0
	everyVersion(t, KeyShareFetch, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrShareFetchResponse())
		for i := range m.Topics {
			for j := range m.Topics[i].Partitions {
				if r.IntN(2) == 0 {
					m.Topics[i].Partitions[j].Records = []byte("secret" + strings.Repeat("s", r.IntN(300)))
				}
			}
		}
		if r.IntN(2) == 0 {
			m.NodeEndpoints = nil
		}
		body := m.AppendTo(nil)
		got, err := EditShareFetch(version, body, ourAddress, looked, secretive)
		if err != nil {
			t.Fatal(err)
		}
		m = reread(t, version, body, kmsg.NewPtrShareFetchResponse())
		for i := range m.NodeEndpoints {
			n := &m.NodeEndpoints[i]
			n.Host, n.Port = ourAddress(n.NodeID, n.Host, n.Port)
		}
		for _, topic := range m.Topics {
			for j := range topic.Partitions {
				p := &topic.Partitions[j]
				if visible, ok := secretive([]byte{}, TopicRef{}, p.Partition, p.Records); ok && looked(TopicRef{ID: topic.TopicID, ByID: true}) {
					p.Records = visible
					hidden++
				}
			}
		}
		if want := m.AppendTo(nil); !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, want %d", len(got), len(want))
		}
	})
	if hidden < 50 {
		t.Errorf("only %d record sets were hidden", hidden)
	}
}
