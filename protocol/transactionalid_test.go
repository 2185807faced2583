package protocol

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var transactionalIDKeys = []int16{KeyInitProducerID, KeyAddOffsetsToTxn, KeyEndTxn, KeyTxnOffsetCommit}

func TestPeekTransactionalID(t *testing.T) {
	for _, key := range transactionalIDKeys {
		everyVersion(t, key, func(t *testing.T, version int16, r *rand.Rand) {
			m := randomize(r, version, kmsg.RequestForKey(key).(message))
			field := reflect.ValueOf(m).Elem().FieldByName("TransactionalID")
			want, none := "", false
			if field.Kind() != reflect.Pointer {
				want = field.String()
			} else if none = field.IsNil(); !none {
				want = field.Elem().String()
			}
			body := m.AppendTo(nil)
			id, need, err := PeekTransactionalID(key, version, body)
			if string(id) != want || (id == nil) != none || need != 0 || err != nil {
				t.Fatalf("%q (none: %v), need %d, %v; want %q (none: %v)", id, id == nil, need, err, want, none)
			}
			shown := 0
			for { // with as little as it asks for
				id, need, err = PeekTransactionalID(key, version, body[:shown])
				if err != nil || need == 0 {
					break
				}
				if need <= shown || need > len(body) {
					t.Fatalf("%d of %d bytes shown, needs %d", shown, len(body), need)
				}
				shown = need
			}
			if string(id) != want || err != nil {
				t.Fatalf("%q, %v with %d bytes", id, err, shown)
			}
			if n := testing.AllocsPerRun(1, func() { PeekTransactionalID(key, version, body) }); n != 0 {
				t.Fatalf("%v allocations", n)
			}
		})
	}
	if _, _, err := PeekTransactionalID(KeyEndTxn, 6, make([]byte, 20)); !errors.Is(err, ErrUnsupportedVersion) {
		t.Errorf("a version too high: %v", err)
	}
	if _, _, err := PeekTransactionalID(KeyEndTxn, 3, []byte{0xff, 0xff, 0xff, 0xff, 0xff}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a length without end: %v", err)
	}
}

func TestRefuseTransaction(t *testing.T) {
	for _, key := range transactionalIDKeys {
		everyVersion(t, key, func(t *testing.T, version int16, r *rand.Rand) {
			body := randomize(r, version, kmsg.RequestForKey(key).(message)).AppendTo(nil)
			answer, err := RefuseTransaction(key, version, body)
			if err != nil {
				t.Fatal(err)
			}
			switch got := reread(t, version, answer, kmsg.ResponseForKey(key).(message)).(type) {
			case *kmsg.InitProducerIDResponse:
				if got.ErrorCode != 53 || got.ProducerID != -1 || got.ProducerEpoch != -1 {
					t.Fatalf("%+v", got)
				}
			case *kmsg.AddOffsetsToTxnResponse:
				if got.ErrorCode != 53 {
					t.Fatalf("%+v", got)
				}
			case *kmsg.EndTxnResponse:
				if got.ErrorCode != 53 || version >= 5 && (got.ProducerID != -1 || got.ProducerEpoch != -1) {
					t.Fatalf("%+v", got)
				}
			case *kmsg.TxnOffsetCommitResponse:
				asked := reread(t, version, body, kmsg.NewPtrTxnOffsetCommitRequest())
				if len(got.Topics) != len(asked.Topics) {
					t.Fatalf("%d topics, %d were asked", len(got.Topics), len(asked.Topics))
				}
				for i, topic := range asked.Topics {
					rows := got.Topics[i]
					if rows.Topic != topic.Topic || rows.TopicID != topic.TopicID || len(rows.Partitions) != len(topic.Partitions) {
						t.Fatalf("%+v of %+v", rows, topic)
					}
					for j, p := range topic.Partitions {
						if row := rows.Partitions[j]; row.Partition != p.Partition || row.ErrorCode != 53 {
							t.Fatalf("%+v", row)
						}
					}
				}
			}
		})
	}
	if _, err := RefuseTransaction(KeyProduce, 9, nil); !errors.Is(err, ErrUnsupportedVersion) {
		t.Errorf("a produce: %v", err)
	}
}
