package testenv

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func TestFakeHasWhatWasAskedFor(t *testing.T) {
	fake := NewFake(t, FakeConfig{Brokers: 3, Topics: map[string]int32{"one": 1, "five": 5}})
	if got := len(fake.Bootstrap()); got != 3 {
		t.Fatalf("%d addresses, want 3", got)
	}
	d := newDestination(t, fake.Bootstrap(), "another", nil)
	metadata, err := d.admin.Metadata(d.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(metadata.Brokers); got != 3 {
		t.Errorf("%d brokers, want 3", got)
	}
	for topic, want := range map[string]int{"one": 1, "five": 5} {
		if got := len(metadata.Topics[topic].Partitions); got != want {
			t.Errorf("%s has %d partitions, want %d", topic, got, want)
		}
	}
}

// TestFakeAsDestination pins how kfake differs from the broker of the destination tests. When
// a new kfake fails it, a difference is gone or new.
func TestFakeAsDestination(t *testing.T) {
	now := time.Now().UnixMilli()
	old := now - 30*24*3600*1000

	t.Run("it lists no producers outside transactions", func(t *testing.T) {
		d := newDestination(t, NewFake(t, FakeConfig{}).Bootstrap(), "t", nil)
		d.produce(batchSpec{records: 5, base: now, max: now}.encode(), nil, 0)
		if got := d.activeProducers(); len(got) != 0 {
			t.Errorf("lists %+v", got)
		}
		stock := newDestination(t, sharedKafka.Kafka(t).Bootstrap(), "producers", nil)
		stock.produce(batchSpec{records: 5, base: now, max: now}.encode(), nil, 0)
		got := stock.activeProducers()
		if len(got) != 1 || got[0].ProducerID != unregisteredPID || got[0].LastSequence != 4 || got[0].LastTimestamp != now {
			t.Errorf("a real broker lists %+v", got)
		}
	})

	t.Run("its sequences wrap at 2^31-2", func(t *testing.T) {
		d := newDestination(t, NewFake(t, FakeConfig{}).Bootstrap(), "t", nil)
		d.produce(batchSpec{sequence: math.MaxInt32 - 5, records: 5, base: now, max: now}.encode(), nil, 0)
		d.produce(batchSpec{sequence: math.MaxInt32, records: 3, base: now, max: now}.encode(), kerr.OutOfOrderSequenceNumber, 0)
		d.produce(batchSpec{sequence: 0, records: 3, base: now, max: now}.encode(), nil, 5)
		stock := newDestination(t, sharedKafka.Kafka(t).Bootstrap(), "wrap", nil)
		stock.produce(batchSpec{sequence: math.MaxInt32 - 5, records: 5, base: now, max: now}.encode(), nil, 0)
		stock.produce(batchSpec{sequence: math.MaxInt32, records: 3, base: now, max: now}.encode(), nil, 5)
		stock.produce(batchSpec{sequence: 2, records: 3, base: now, max: now}.encode(), nil, 8)
	})

	t.Run("it breaks a batch with the LogAppendTime bit", func(t *testing.T) {
		trick := batchSpec{records: 5, attributes: logAppendTimeBit, base: old, max: now}.encode()
		d := newDestination(t, NewFake(t, FakeConfig{}).Bootstrap(), "t", nil)
		d.produce(trick, nil, 0)
		if stored := d.fetch(0)[0]; binary.BigEndian.Uint32(stored[17:]) == batchCRC(stored) {
			t.Error("the stored batch has a right CRC")
		}
		stock := newDestination(t, sharedKafka.Kafka(t).Bootstrap(), "trick", nil)
		stock.produce(trick, nil, 0)
		var stored kmsg.RecordBatch
		raw := stock.fetch(0)[0]
		if err := stored.ReadFrom(raw); err != nil {
			t.Fatal(err)
		}
		if uint32(stored.CRC) != batchCRC(raw) || stored.Attributes != 0 || stored.FirstTimestamp != old || stored.MaxTimestamp != now {
			t.Errorf("a real broker stored %+v", stored)
		}
	})

	t.Run("a refused epoch sticks, in every partition", func(t *testing.T) {
		fake := NewFake(t, FakeConfig{})
		d, other := newDestination(t, fake.Bootstrap(), "t", nil), newDestination(t, fake.Bootstrap(), "other", nil)
		d.produce(batchSpec{records: 5, base: now, max: now}.encode(), nil, 0)
		d.produce(batchSpec{epoch: 1, sequence: 5, records: 5, base: now, max: now}.encode(), kerr.OutOfOrderSequenceNumber, 0)
		d.produce(batchSpec{sequence: 5, records: 5, base: now, max: now}.encode(), kerr.InvalidProducerEpoch, 0)
		other.produce(batchSpec{records: 5, base: now, max: now}.encode(), kerr.InvalidProducerEpoch, 0)
		stock := newDestination(t, sharedKafka.Kafka(t).Bootstrap(), "epochs", nil)
		stock.produce(batchSpec{records: 5, base: now, max: now}.encode(), nil, 0)
		stock.produce(batchSpec{epoch: 1, sequence: 5, records: 5, base: now, max: now}.encode(), kerr.OutOfOrderSequenceNumber, 0)
		stock.produce(batchSpec{sequence: 5, records: 5, base: now, max: now}.encode(), nil, 5)
	})

	t.Run("it accepts any topic config", func(t *testing.T) {
		newDestination(t, NewFake(t, FakeConfig{}).Bootstrap(), "t", map[string]*string{"no.such.config": kmsg.StringPtr("1")})
	})

	t.Run("uncapped it wants 0 as the first sequence ever", func(t *testing.T) {
		d := newDestination(t, NewFake(t, FakeConfig{Versions: kversion.V4_4_0()}).Bootstrap(), "t", nil)
		d.produce(batchSpec{sequence: 1000, records: 5, base: now, max: now}.encode(), nil, 0)
		uncapped := newDestination(t, NewFake(t, FakeConfig{Options: []kfake.Opt{kfake.MaxVersions(nil)}}).Bootstrap(), "t", nil)
		uncapped.produce(batchSpec{sequence: 1000, records: 5, base: now, max: now}.encode(), kerr.OutOfOrderSequenceNumber, 0)
		uncapped.produce(batchSpec{records: 5, base: now, max: now}.encode(), nil, 0)
	})
}
