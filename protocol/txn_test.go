package protocol

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func refuseMirrored(t TopicRef) (int16, string, bool) {
	if string(t.Name) == "mirrored" {
		return CodeReadOnlyTopic, "no", true
	}
	return 0, "", false
}

// txnRow is one partition of a request or an answer, in order, whatever the shape around it.
type txnRow struct {
	group     string
	topic     string
	partition int32
}

func isOurs(transactionalID []byte) bool { return string(transactionalID) == "ours" }

func codeWanted(transactionalID, topic string) int16 {
	switch {
	case transactionalID == "ours":
		return 53
	case topic == "mirrored":
		return 134
	}
	return 55
}

func TestRefuseAddPartitions(t *testing.T) {
	refusals := 0
	everyVersion(t, KeyAddPartitionsToTxn, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrAddPartitionsToTxnRequest())
		for i := range m.Topics {
			if r.IntN(3) == 0 {
				m.Topics[i].Topic = "mirrored"
			}
		}
		for _, txn := range m.Transactions {
			for i := range txn.Topics {
				if r.IntN(4) == 0 {
					txn.Topics[i].Topic = "mirrored"
				}
			}
		}
		if r.IntN(4) == 0 {
			m.TransactionalID = "ours"
		}
		for i := range m.Transactions {
			if r.IntN(4) == 0 {
				m.Transactions[i].TransactionalID = "ours"
			}
		}
		body := m.AppendTo(nil)
		m = reread(t, version, body, kmsg.NewPtrAddPartitionsToTxnRequest())
		var asked []txnRow
		mirrored := m.TransactionalID == "ours" && len(m.Topics) > 0
		for _, topic := range m.Topics {
			mirrored = mirrored || topic.Topic == "mirrored"
			for _, p := range topic.Partitions {
				asked = append(asked, txnRow{"", topic.Topic, p})
			}
		}
		for _, txn := range m.Transactions {
			for _, topic := range txn.Topics {
				mirrored = mirrored || topic.Topic == "mirrored" || txn.TransactionalID == "ours"
				for _, p := range topic.Partitions {
					asked = append(asked, txnRow{txn.TransactionalID, topic.Topic, p})
				}
			}
		}
		answer, refused, err := RefuseAddPartitions(version, body, refuseMirrored, isOurs)
		if err != nil || refused != mirrored || refused != (answer != nil) {
			t.Fatalf("refused %v, mirrored %v, %v", refused, mirrored, err)
		}
		if !refused {
			return
		}
		refusals++
		got := reread(t, version, answer, kmsg.NewPtrAddPartitionsToTxnResponse())
		var rows []txnRow
		for _, topic := range got.Topics {
			for _, p := range topic.Partitions {
				rows = append(rows, txnRow{"", topic.Topic, p.Partition})
				if p.ErrorCode != codeWanted(m.TransactionalID, topic.Topic) {
					t.Fatalf("%s: %d", topic.Topic, p.ErrorCode)
				}
			}
		}
		for _, txn := range got.Transactions {
			for _, topic := range txn.Topics {
				for _, p := range topic.Partitions {
					rows = append(rows, txnRow{txn.TransactionalID, topic.Topic, p.Partition})
					if p.ErrorCode != codeWanted(txn.TransactionalID, topic.Topic) {
						t.Fatalf("%s: %d", topic.Topic, p.ErrorCode)
					}
				}
			}
		}
		sameRows(t, rows, asked)
	})
	if refusals < 50 {
		t.Errorf("only %d refusals", refusals)
	}
}

func TestRefuseTxnMarkers(t *testing.T) {
	refusals := 0
	everyVersion(t, KeyWriteTxnMarkers, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrWriteTxnMarkersRequest())
		for _, marker := range m.Markers {
			for i := range marker.Topics {
				if r.IntN(4) == 0 {
					marker.Topics[i].Topic = "mirrored"
				}
			}
		}
		body := m.AppendTo(nil)
		m = reread(t, version, body, kmsg.NewPtrWriteTxnMarkersRequest())
		var asked []txnRow
		mirrored := false
		for _, marker := range m.Markers {
			for _, topic := range marker.Topics {
				mirrored = mirrored || topic.Topic == "mirrored"
				for _, p := range topic.Partitions {
					asked = append(asked, txnRow{string(rune(marker.ProducerID)), topic.Topic, p})
				}
			}
		}
		answer, refused, err := RefuseTxnMarkers(version, body, refuseMirrored)
		if err != nil || refused != mirrored || refused != (answer != nil) {
			t.Fatalf("refused %v, mirrored %v, %v", refused, mirrored, err)
		}
		if !refused {
			return
		}
		refusals++
		var rows []txnRow
		for _, marker := range reread(t, version, answer, kmsg.NewPtrWriteTxnMarkersResponse()).Markers {
			for _, topic := range marker.Topics {
				for _, p := range topic.Partitions {
					rows = append(rows, txnRow{string(rune(marker.ProducerID)), topic.Topic, p.Partition})
					if p.ErrorCode != codeWanted("", topic.Topic) {
						t.Fatalf("%s: %d", topic.Topic, p.ErrorCode)
					}
				}
			}
		}
		sameRows(t, rows, asked)
	})
	if refusals < 50 {
		t.Errorf("only %d refusals", refusals)
	}
}

func sameRows(t *testing.T, got, want []txnRow) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("row %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestHostileTxnRequests(t *testing.T) {
	for key, refuse := range map[int16]func(int16, []byte, RefuseTopic) ([]byte, bool, error){
		KeyAddPartitionsToTxn: func(version int16, body []byte, refuse RefuseTopic) ([]byte, bool, error) {
			return RefuseAddPartitions(version, body, refuse, isOurs)
		},
		KeyWriteTxnMarkers: RefuseTxnMarkers,
	} {
		_, maxVersion, _ := Versions(key)
		for _, version := range []int16{-1, maxVersion + 1} {
			if _, _, err := refuse(version, make([]byte, 20), refuseMirrored); !errors.Is(err, ErrUnsupportedVersion) {
				t.Errorf("%s v%d: %v", KeyName(key), version, err)
			}
		}
		if _, _, err := refuse(maxVersion, []byte{0xff, 0xff, 0xff, 0xff, 0x07}, refuseMirrored); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s with 2^31 entries: %v", KeyName(key), err)
		}
	}
}
