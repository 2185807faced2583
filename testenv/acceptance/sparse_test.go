package acceptance

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/testenv"
)

// sparse writes a source log that has few records for its offsets: where a transaction is aborted, or a marker stands, a
// mirror has filler.
type sparse struct {
	t             *testing.T
	topic         string
	plain, second *kgo.Client // second is for records within a transaction of transactional
	transactional *kgo.Client
	end           int64
}

// newSparse creates the topic, of one partition, on the source.
func newSparse(t *testing.T, name string, configs map[string]*string) *sparse {
	t.Helper()
	s := &sparse{t: t, topic: uniqueName(name)}
	bootstrap := source.Kafka(t).Bootstrap()
	s.plain = newClient(t, bootstrap, kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
	open := func(id string) *kgo.Client {
		return newClient(t, bootstrap, kgo.TransactionalID(s.topic+id), kgo.ProducerBatchCompression(kgo.GzipCompression()), kgo.MaxBufferedRecords(200_000))
	}
	s.transactional, s.second = open("-1"), open("-2")
	if _, err := kadm.NewClient(s.plain).CreateTopic(within(t), 1, 1, configs, s.topic); err != nil {
		t.Fatalf("create %s: %v", s.topic, err)
	}
	return s
}

// value is what stands at an offset: a word that tells it.
func (s *sparse) value(offset int64) []byte { return fmt.Appendf(nil, "record-%d", offset) }

func (s *sparse) send(client *kgo.Client, count int) {
	s.t.Helper()
	var records []*kgo.Record
	for range count {
		records = append(records, &kgo.Record{Topic: s.topic, Key: fmt.Appendf(nil, "key-%d", s.end%10), Value: s.value(s.end)})
		s.end++
	}
	if err := client.ProduceSync(within(s.t), records...).FirstErr(); err != nil {
		s.t.Fatalf("write to %s: %v", s.topic, err)
	}
}

func (s *sparse) begin(client *kgo.Client) {
	s.t.Helper()
	if err := client.BeginTransaction(); err != nil {
		s.t.Fatal(err)
	}
}

// finish ends a transaction and waits for its marker: brokers answer before it is in the log.
func (s *sparse) finish(client *kgo.Client, commit kgo.TransactionEndTry) {
	s.t.Helper()
	if err := client.EndTransaction(within(s.t), commit); err != nil {
		s.t.Fatalf("end a transaction on %s: %v", s.topic, err)
	}
	s.end++
	testenv.Eventually(s.t, callTimeout, "the marker in "+s.topic, func() error {
		listed, err := kadm.NewClient(s.plain).ListEndOffsets(within(s.t), s.topic)
		if err != nil {
			return err
		}
		if end, _ := listed.Lookup(s.topic, 0); end.Err != nil || end.Offset != s.end {
			return fmt.Errorf("the log ends at %d, want %d: %v", end.Offset, s.end, end.Err)
		}
		return nil
	})
}

// Plain writes records outside of transactions.
func (s *sparse) Plain(count int) { s.t.Helper(); s.send(s.plain, count) }

// Committed and Aborted write a transaction that takes so many offsets, the last of them for its marker.
func (s *sparse) Committed(offsets int) { s.t.Helper(); s.whole(offsets, kgo.TryCommit) }
func (s *sparse) Aborted(offsets int)   { s.t.Helper(); s.whole(offsets, kgo.TryAbort) }

func (s *sparse) whole(offsets int, commit kgo.TransactionEndTry) {
	s.t.Helper()
	s.begin(s.transactional)
	s.send(s.transactional, offsets-1)
	s.finish(s.transactional, commit)
}

// Interleaved writes two transactions and plain records in turn; the first is aborted, the second committed.
func (s *sparse) Interleaved(rounds int) {
	s.t.Helper()
	s.begin(s.transactional)
	s.begin(s.second)
	for range rounds {
		s.send(s.transactional, 2)
		s.send(s.plain, 1)
		s.send(s.second, 3)
	}
	s.finish(s.transactional, kgo.TryAbort)
	s.send(s.plain, 1)
	s.finish(s.second, kgo.TryCommit)
}

// committedRecords are what a consumer of committed records gets from partition 0 of a topic, whose log ends at end.
func committedRecords(t *testing.T, bootstrap []string, topic string, end int64) []readRecord {
	t.Helper()
	client := newClient(t, bootstrap, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	var all []readRecord
	for last := int64(-1); last < end-1; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s: at offset %d of %d: %v", topic, last, end, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if last = r.Offset; !r.Attrs.IsControl() {
				all = append(all, readRecord{offset: r.Offset, value: string(r.Value)})
			}
		})
	}
	return all
}
