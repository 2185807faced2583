package replicate

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// aged writes records with timestamps so long ago to the source.
func (r *rig) aged(topic string, partition int32, count int, age time.Duration) {
	r.t.Helper()
	var records []*kgo.Record
	for i := range count {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: fmt.Appendf(nil, "%d", i), Timestamp: time.Now().Add(-age)})
	}
	if err := r.source.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

// forget waits until the destination's broker has forgotten the mirror's producer.
func (r *rig) forget(target produce.Target) {
	r.t.Helper()
	testenv.Eventually(r.t, patience, "the broker to forget the producer", func() error {
		found, err := kadm.NewClient(r.destination).DescribeProducers(context.Background(), kadm.TopicsSet{target.Topic: {target.Partition: {}}})
		if err != nil {
			return err
		}
		for _, p := range found.SortedProducers() {
			if p.ProducerID == target.ProducerID() {
				return fmt.Errorf("it remembers %+v", p)
			}
		}
		return nil
	})
}

// TestForeignWriteBehindForgottenProducerReal: history of years ago is mirrored through the moments in which the broker
// forgets the mirror's producer. Then somebody else writes; the mirror's next batch, which no sequence check refuses any
// more, stands at a wrong offset, and the broker's answer shows it at once.
func TestForeignWriteBehindForgottenProducerReal(t *testing.T) {
	const topic = "forgotten"
	r := realRig(t)
	r.createTopic(topic, 2, nil)
	r.aged(topic, 0, 100, 1000*24*time.Hour)
	r.aged(topic, 1, 100, time.Hour)
	r.start()
	id := r.add(topic, 2)
	r.awaitStatus(id, 2, state.Mirroring)
	r.awaitCaughtUp(topic, 2)
	old := produce.Target{Mirror: "m", Topic: topic, TopicID: id}
	for range 3 {
		r.forget(old)
		r.aged(topic, 0, 10, 1000*24*time.Hour)
		r.awaitCaughtUp(topic, 2)
	}
	r.compare(topic, 2)
	guard := func(partition int32) string {
		live, _ := r.live.Get(state.PartitionID{Topic: id, Partition: partition})
		return live.Guard(time.Now().UnixMilli())
	}
	if old, fresh := guard(0), guard(1); old != state.GuardDetection || fresh != state.GuardSequence {
		t.Errorf("the guards are %q and %q", old, fresh)
	}
	if g, u := metric(t, r.replicator, "proxy_guarded_partitions"), metric(t, r.replicator, "unguarded_partitions"); g != 1 || u != 1 {
		t.Errorf("%v guarded and %v unguarded partitions", g, u)
	}
	r.forget(old)
	write(t, r, topic, 0)
	write(t, r, topic, 1) // here the mirror's producer is remembered, and its batch is in sequence all the same
	r.aged(topic, 0, 10, 1000*24*time.Hour)
	r.aged(topic, 1, 10, time.Hour)
	r.awaitStatus(id, 2, state.Failed)
	wantError(t, r.partition(id, 0), "forgotten-0: the batch of source offsets 130 to 139 was appended at offset 131")
	wantError(t, r.partition(id, 1), "forgotten-1: the batch of source offsets 100 to 109 was appended at offset 101")
	if n := metric(t, r.replicator, "wrong_offsets_total"); n != 2 {
		t.Errorf("%v wrong offsets counted, want 2", n)
	}
}

// TestLostAnswerWithForgottenProducerReal: the answer to a batch of old records is lost. The mirror writes nothing until
// the broker has answered for a while, and then goes on where the log ends.
func TestLostAnswerWithForgottenProducerReal(t *testing.T) {
	for _, test := range []struct {
		name  string
		age   time.Duration
		waits bool
	}{{"old", 1000 * 24 * time.Hour, true}, {"fresh", time.Hour, false}} {
		t.Run(test.name, func(t *testing.T) {
			topic := "lost-answer-" + test.name
			r := realRig(t)
			const wait = 2 * time.Second
			r.do(state.AlterMirror{Name: "m", Set: map[string]string{"mirror.produce.ambiguous.wait.ms": strconv.FormatInt(wait.Milliseconds(), 10)}})
			log := &produceLog{dial: r.clusters.dial}
			r.clusters.dial = log.Dial
			r.createTopic(topic, 1, nil)
			r.aged(topic, 0, 10, test.age)
			r.start()
			id := r.add(topic, 1)
			r.awaitStatus(id, 1, state.Mirroring)
			r.awaitCaughtUp(topic, 1)
			log.loseAnswer.Store(true)
			r.aged(topic, 0, 10, test.age)
			testenv.Eventually(t, patience, "an answer to be lost", func() error {
				if log.loseAnswer.Load() {
					return errCut
				}
				return nil
			})
			lost := time.Unix(0, log.lostAtNs.Load()) // not now: the wait began there
			r.aged(topic, 0, 10, test.age)
			r.awaitCaughtUp(topic, 1)
			if took := time.Since(lost); test.waits && took < wait {
				t.Errorf("the mirror went on after %v, want %v at least", took, wait)
			}
			r.compare(topic, 1)
		})
	}
}

// produceLog sees the produce requests of the mirror.
type produceLog struct {
	dial        func(ctx context.Context, addr string) (net.Conn, error)
	loseAnswer  atomic.Bool  // to the next request; reset when it was lost
	lostAtNs    atomic.Int64 // when that was (Unix)
	oneAck, all atomic.Int64
}

func (l *produceLog) Dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := l.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &loggedConn{Conn: conn, log: l}, nil
}

type loggedConn struct {
	net.Conn
	log  *produceLog
	lose bool
}

func (c *loggedConn) Write(b []byte) (int, error) {
	// Size, key, version, correlation id, client id, tags, no transactional id, acks.
	const acksAt = 4 + 2 + 2 + 4 + 2 + len("kafka-mirror-proxy") + 1 + 1
	if len(b) >= acksAt+2 && binary.BigEndian.Uint32(b[4:]) == 0x0000000d { // Produce v13
		if acks := int16(binary.BigEndian.Uint16(b[acksAt:])); acks == 1 {
			c.log.oneAck.Add(1)
		} else {
			c.log.all.Add(1)
		}
		c.lose = c.log.loseAnswer.Load()
	}
	return c.Conn.Write(b)
}

func (c *loggedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.lose {
		c.Conn.Close()
		c.log.lostAtNs.Store(time.Now().UnixNano())
		c.log.loseAnswer.Store(false)
		return 0, net.ErrClosed
	}
	return n, err
}

// TestOneAckReal: with mirror.produce.acks=1 fresh records do not wait for the followers, old ones do; leaders move and
// nothing is lost or doubled.
func TestOneAckReal(t *testing.T) {
	const fresh, old, partitions = "one-ack", "one-ack-old", 3
	r := realRig(t)
	r.do(state.AlterMirror{Name: "m", Set: map[string]string{"mirror.produce.acks": "1"}})
	log := &produceLog{dial: r.clusters.dial}
	r.clusters.dial = log.Dial
	r.createTopic(fresh, partitions, nil)
	r.createTopic(old, partitions, nil)
	for i := range int32(partitions) {
		r.aged(old, i, 50, 30*24*time.Hour)
	}
	r.start()
	id := r.add(old, partitions)
	r.awaitCaughtUp(old, partitions)
	r.aged(old, 0, 50, 30*24*time.Hour)
	r.awaitCaughtUp(old, partitions)
	if n := log.oneAck.Load(); n != 0 {
		t.Errorf("%d requests with old records did not wait for the followers", n)
	}
	r.awaitStatus(id, partitions, state.Mirroring)
	stop := keepProducing(r, fresh, partitions)
	id = r.add(fresh, partitions)
	admin := kadm.NewClient(r.destination)
	for round := range int32(3) { // the leaders change places
		r.awaitStatus(id, partitions, state.Mirroring)
		before := log.oneAck.Load()
		testenv.Eventually(t, patience, "requests that do not wait", func() error {
			if log.oneAck.Load() < before+20 {
				return errCut
			}
			return nil
		})
		var move kadm.AlterPartitionAssignmentsReq
		for i := range int32(partitions) {
			first := (i+round)%3 + 1
			move.Assign(fresh, i, []int32{first, first%3 + 1, (first+1)%3 + 1})
		}
		if _, err := admin.AlterPartitionAssignments(context.Background(), move); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, patience, "the leaders to move", func() error {
			if _, err := admin.ElectLeaders(context.Background(), kadm.ElectPreferredReplica, kadm.TopicsSet{fresh: {0: {}, 1: {}, 2: {}}}); err != nil {
				return err
			}
			topics, err := admin.ListTopics(context.Background(), fresh)
			if err != nil {
				return err
			}
			for i := range int32(partitions) {
				if p := topics[fresh].Partitions[i]; p.Leader != (i+round)%3+1 {
					return fmt.Errorf("partition %d is led by %d", i, p.Leader)
				}
			}
			return nil
		})
	}
	stop()
	r.awaitCaughtUp(fresh, partitions)
	r.compare(fresh, partitions)
	r.compare(old, partitions)
	r.awaitStatus(id, partitions, state.Mirroring)
	// What counts as copied is what the followers have, also when nothing more comes.
	_, logEnds := ends(t, r.destination, fresh)
	testenv.Eventually(t, patience, "the copied offset", func() error {
		for i := range int32(partitions) {
			live, _ := r.live.Get(state.PartitionID{Topic: id, Partition: i})
			if got := live.DestinationOffset.Load(); got != logEnds[fresh][i].Offset {
				return fmt.Errorf("partition %d: %d, the log ends at %d", i, got, logEnds[fresh][i].Offset)
			}
		}
		return nil
	})
	t.Logf("%d requests with acks=1, %d with acks=all", log.oneAck.Load(), log.all.Load())
}

// TestSizesReal: batches around the destination's max.message.bytes, and far above, are copied; the limit is raised for
// the topic, and only as far as needed. Batches that are small on the wire only, as they compress well, are no trouble either,
// also where they are looked into (gzip).
func TestSizesReal(t *testing.T) {
	const topic, partitions = "sizes", 7
	r := realRig(t)
	large := "41943040"
	r.createTopic(topic, partitions, nil)
	if err := alterTopic(context.Background(), r.source, topic, map[string]*string{"max.message.bytes": &large}); err != nil {
		t.Fatal(err)
	}
	limit := 1 << 20
	text := strconv.Itoa(limit)
	if err := alterTopic(context.Background(), r.destination, topic, map[string]*string{"max.message.bytes": &text}); err != nil {
		t.Fatal(err)
	}
	c := client(t, r.clusters.source, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(40<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	value := make([]byte, 30<<20)
	rand.NewChaCha8([32]byte{1}).Read(value)
	sizes := []int{limit - 1, limit, limit + 1, 10 << 20, 30 << 20}
	for i, size := range sizes {
		n := size
		for batchBytes(n) > size {
			n--
		}
		records := []*kgo.Record{{Topic: topic, Partition: int32(i), Value: value[:n]}}
		if err := c.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for i, codec := range []kgo.CompressionCodec{kgo.GzipCompression(), kgo.ZstdCompression()} {
		small := client(t, r.clusters.source, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(40<<20), kgo.ProducerBatchCompression(codec))
		record := &kgo.Record{Topic: topic, Partition: int32(len(sizes) + i), Value: make([]byte, 30<<20)}
		if err := small.ProduceSync(context.Background(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	id := r.add(topic, partitions)
	r.awaitCaughtUp(topic, partitions)
	r.awaitStatus(id, partitions, state.Mirroring)
	r.compare(topic, partitions)
	for i := range int32(partitions) {
		if p := r.partition(id, i); p.Attempt != 0 {
			t.Errorf("partition %d: %+v", i, p)
		}
	}
	p := r.replicator.current().partitions[state.PartitionID{Topic: id}]
	if got, err := p.topicLimit(topic); err != nil || got < 30<<20 || got > 30<<20+limitSlackBytes {
		t.Errorf("the limit is %d, %v", got, err)
	}
}

// batchBytes is how large the batch of one record is that has a value of so many bytes and nothing else.
func batchBytes(value int) int {
	var scratch [binary.MaxVarintLen64]byte
	body := 5 + binary.PutVarint(scratch[:], int64(value)) + value // attributes, deltas, no key, no headers
	return batch.HeaderLen + binary.PutVarint(scratch[:], int64(body)) + body
}
