package replicate

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// keepProducing writes to all partitions of the source until the returned function is called.
func keepProducing(r *rig, topic string, partitions int32) (stop func()) {
	c := client(r.t, r.clusters.source, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.RetryTimeout(60*time.Second), kgo.RecordRetries(1000))
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			var records []*kgo.Record
			for n := range 50 {
				records = append(records, &kgo.Record{Topic: topic, Partition: int32((i + n)) % partitions, Value: bytes.Repeat([]byte{byte(n)}, 200)})
			}
			c.ProduceSync(context.Background(), records...) // what was not acknowledged may be there or not: the logs are compared
			sleep(ctx, 10*time.Millisecond)
		}
	})
	return func() { cancel(); group.Wait() }
}

// TestBrokersAndOwnersDieReal: a destination broker is killed and restarted, the source broker is
// restarted, and the owner dies three times without a word (it loses its lease in the middle of
// everything and a new one takes over), all while producers write.
func TestBrokersAndOwnersDieReal(t *testing.T) {
	const topic, partitions = "dying", 6
	r := realRig(t)
	source, destination := realSource.Kafka(t), realDestination.Kafka(t)
	r.createTopic(topic, partitions, nil)
	r.settings.FailAfter = 1000 // FAILED is not what is tested here
	stop := keepProducing(r, topic, partitions)
	r.start()
	id := r.add(topic, partitions)
	r.awaitStatus(id, partitions, state.Mirroring)
	newOwner := func() {
		r.store.lost.Store(true)
		testenv.Eventually(t, patience, "the old owner to notice", func() error {
			if r.replicator.current() != nil {
				return errCut
			}
			return nil
		})
		r.store.generation.Add(1)
		r.store.lost.Store(false)
	}
	newOwner()
	victim := destination.NodeIDs()[1]
	if err := destination.Kill(victim); err != nil {
		t.Fatal(err)
	}
	newOwner()
	if err := destination.Restart(context.Background(), victim); err != nil {
		t.Fatal(err)
	}
	if err := source.Kill(source.NodeIDs()[0]); err != nil {
		t.Fatal(err)
	}
	newOwner()
	if err := source.Restart(context.Background(), source.NodeIDs()[0]); err != nil {
		t.Fatal(err)
	}
	r.awaitPassed(topic, partitions) // some load after the last fault
	stop()
	r.awaitCaughtUp(topic, partitions)
	r.compare(topic, partitions)
	r.awaitStatus(id, partitions, state.Mirroring)
}

// TestUncleanOwnerIsShutOutReal: an owner dies with offsets reserved; the topic is removed before
// the log has passed them. A late batch of the dead owner that would be in sequence behind what
// the users see must not be appended.
func TestUncleanOwnerIsShutOutReal(t *testing.T) {
	const topic = "unclean"
	r := realRig(t)
	r.createTopic(topic, 1, nil)
	r.produce(topic, 0, 0, 100, []byte("v"))
	r.start()
	id := r.add(topic, 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	r.store.lost.Store(true)
	r.stop()
	r.store.generation.Add(1)
	r.store.lost.Store(false)
	partition := state.PartitionID{Topic: id}
	if p := r.store.View().Progress(partition); p.ReservedOffset <= 100 || p.ReservedBy != 1 {
		t.Fatalf("the dead owner left no reservation: %+v", p)
	}
	r.do(state.RemoveTopic{Mirror: "m", Name: topic})
	r.start()
	r.awaitStatus(id, 1, state.Stopped)
	if got := r.partition(id, 0).LastMirroredOffset; got != 100 {
		t.Errorf("last mirrored offset %d, want 100", got)
	}
	// The late batch: whole and in sequence for whoever knows nothing of the marker.
	target := produce.Target{Mirror: "m", Topic: topic, TopicID: id}
	for _, offset := range []int64{100, 101} {
		if fault := lateBatch(t, r, target, offset, 1000); fault == nil || fault.Verdict != produce.Retry {
			t.Errorf("the late batch for offset %d: %v", offset, fault)
		}
	}
	_, logEnds := ends(t, r.destination, topic)
	if end, _ := logEnds.Lookup(topic, 0); end.Offset != 101 {
		t.Errorf("the log ends at %d, want 101: 100 records and the marker", end.Offset)
	}
	write(t, r, topic, 0)
	if records := readAll(t, r.clusters.destination, topic, 0, 102); len(records) != 101 || records[100].Offset != 101 {
		t.Errorf("%d records visible, want 101 with the user's at offset 101", len(records))
	}
	r.add(topic, 1)
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), "handed over at offset 100", "ends at 102")
}

// lateBatch sends a batch of two records that begins at an offset without looking first.
func lateBatch(t *testing.T, r *rig, target produce.Target, offset, timestampMs int64) *produce.Fault {
	t.Helper()
	engine, err := produce.New(produce.Config{Client: r.clusters.client, Dial: r.clusters.DialDestination, Lease: func() bool { return true }, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { engine.Run(ctx) })
	defer group.Wait()
	defer cancel()
	var position produce.Position
	testenv.Eventually(t, patience, "the leader of "+target.String(), func() (err error) { // a new topic's takes a moment
		position, err = engine.Position(ctx, target, time.Now())
		return err
	})
	maker, err := batch.NewFillerMaker(batch.FillerMakerConfig{Cached: 1})
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := maker.Append(nil, 2, timestampMs, target.ProducerID(), 0, batch.SequenceOf(offset))
	if err != nil {
		t.Fatal(err)
	}
	s := engine.Open(produce.StreamConfig{Target: target, StartOffset: offset, CheckedAt: time.Now(), ReservedOffset: offset + 10, Leader: position.Leader.ID})
	s.Push(produce.Batch{Bytes: bytes, BaseOffset: offset, Count: 2})
	for {
		select {
		case <-s.Events():
		case <-time.After(patience):
			t.Fatal("no answer")
		}
		end, _, _, fault := s.Status()
		if fault != nil || end > offset {
			return fault
		}
	}
}

// TestSourceTopicDeletedReal: the mirror topic is stopped and keeps its data; the name coming
// back changes nothing.
func TestSourceTopicDeletedReal(t *testing.T) {
	const topic = "deleted"
	r := realRig(t)
	r.createTopic(topic, 2, nil)
	r.produce(topic, 1, 0, 30, []byte("v"))
	r.start()
	id := r.add(topic, 2)
	r.awaitStatus(id, 2, state.Mirroring)
	r.awaitCaughtUp(topic, 2)
	if _, err := kadm.NewClient(r.source).DeleteTopic(context.Background(), topic); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus(id, 2, state.Stopped)
	if got := r.partition(id, 1).LastMirroredOffset; got != 30 {
		t.Errorf("last mirrored offset %d, want 30", got)
	}
	if _, logEnds := ends(t, r.destination, topic); logEnds[topic][1].Offset != 30 {
		t.Errorf("the data was not kept: %v", logEnds)
	}
}

// TestTooLargeReal: one partition's batch is larger than the destination allows. Only that
// partition is FAILED, with size and offset, and it goes on by itself once the limit is raised by somebody.
func TestTooLargeReal(t *testing.T) {
	const topic = "large"
	r := realRig(t)
	r.do(state.AlterMirror{Name: "m", Set: map[string]string{"mirror.raise-topic-limits": "false"}})
	r.settings.BackoffMax = time.Hour // a larger limit is noticed soon nevertheless
	r.createTopic(topic, 2, nil)
	limit := func(value string) {
		if err := alterTopic(context.Background(), r.destination, topic, map[string]*string{"max.message.bytes": &value}); err != nil {
			t.Fatal(err)
		}
	}
	limit("3000")
	r.produce(topic, 0, 0, 5, []byte("v"))
	r.produce(topic, 1, 0, 5, []byte("v"))
	value := make([]byte, 5000)
	rand.NewChaCha8([32]byte{1}).Read(value) // does not compress below the limit
	r.produce(topic, 1, 5, 1, value)
	r.start()
	id := r.add(topic, 2)
	testenv.Eventually(t, patience, "partition 1 to be FAILED", func() error {
		if p := r.partition(id, 1); p.Status != state.Failed || !p.Retriable {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
	wantError(t, r.partition(id, 1), "large-1", "at offset 5 has ", "max.message.bytes")
	if p := r.partition(id, 0); p.Status != state.Mirroring {
		t.Errorf("partition 0: %+v", p)
	}
	limit("1048588")
	r.awaitStatus(id, 2, state.Mirroring)
	r.awaitCaughtUp(topic, 2)
	r.compare(topic, 2)
}

// TestLogAppendTimeReal: a destination topic that puts its own time on records is no copy, and one that becomes such a
// topic is noticed. A batch that an owner before has appended already is answered with a time too, and is no such sign.
func TestLogAppendTimeReal(t *testing.T) {
	const topic = "times"
	r := realRig(t)
	r.createTopic(topic, 2, nil)
	target := produce.Target{Mirror: "m", Topic: topic, TopicID: topicID(t, r.destination, topic), Partition: 1}
	now := time.Now().UnixMilli()
	for range 2 {
		if fault := lateBatch(t, r, target, 0, now); fault != nil {
			t.Error(fault)
		}
	}
	if _, logEnds := ends(t, r.destination, topic); logEnds[topic][1].Offset != 2 {
		t.Fatalf("the second batch was no duplicate: %v", logEnds)
	}
	r.produce(topic, 0, 0, 10, []byte("v"))
	r.start()
	id := r.add(topic, 2)
	r.awaitStatus(id, 1, state.Mirroring)
	testenv.Eventually(t, patience, "a copy", func() error {
		if _, logEnds := ends(t, r.destination, topic); logEnds[topic][0].Offset != 10 {
			return fmt.Errorf("%v", logEnds)
		}
		return nil
	})
	logAppendTime := "LogAppendTime"
	if err := alterTopic(context.Background(), r.destination, topic, map[string]*string{"message.timestamp.type": &logAppendTime}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, "the config to be noticed", func() error { // the leader learns it a moment later
		r.produce(topic, 0, 10, 5, nil)
		if p := r.partition(id, 0); p.Status != state.Failed || p.Retriable {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
	wantError(t, r.partition(id, 0), "times-0", "message.timestamp.type=LogAppendTime", "offsets ")
}
