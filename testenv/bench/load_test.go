package main

import (
	"testing"
	"time"

	"kafka-mirror-proxy/testenv"
)

func fakeFront(t *testing.T) *front {
	t.Helper()
	cluster, err := testenv.StartFake(testenv.FakeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close() })
	addr := cluster.ListenAddrs()[0]
	return &front{bootstrap: addr, broker: addr}
}

// What produce counts is what the log holds, and consume reads all of it.
func TestLoadWritesAndReadsWhatItCounts(t *testing.T) {
	f := fakeFront(t)
	l := load{topic: "load", partitions: 3, recordBytes: 100, batchBytes: 64 << 10}
	if err := createTopic(t.Context(), f, l); err != nil {
		t.Fatal(err)
	}
	count, err := produce(t.Context(), f, l, func(records int64) bool { return records >= 5000 })
	if err != nil {
		t.Fatal(err)
	}
	if count < 5000 {
		t.Errorf("%d records were produced, want at least 5000", count)
	}
	client, err := f.client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if end, err := logEnd(t.Context(), client, l.topic); err != nil || end != count {
		t.Errorf("log end %d, %v; want %d", end, err, count)
	}
	if end, err := logEnd(t.Context(), client, "no-such-topic"); err != nil || end != 0 {
		t.Errorf("log end of no topic: %d, %v; want 0", end, err)
	}
	if err := consume(t.Context(), f, l, count); err != nil {
		t.Error(err)
	}
}

func TestMeasureLoadCountsBothWays(t *testing.T) {
	f := fakeFront(t)
	l := load{topic: "load", partitions: 2, recordBytes: 1024, batchBytes: 64 << 10}
	if err := createTopic(t.Context(), f, l); err != nil {
		t.Fatal(err)
	}
	produced, consumed, err := measureLoad(t.Context(), f, l, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if produced.Records == 0 || produced.Bytes != produced.Records*1024 || produced.Seconds < 0.05 {
		t.Errorf("produced %+v", produced)
	}
	if consumed.Records == 0 || consumed.Records%produced.Records != 0 || consumed.Seconds < 0.05 {
		t.Errorf("consumed %+v after %d records", consumed, produced.Records)
	}
}

func TestProduceToNoTopicFails(t *testing.T) {
	f := fakeFront(t)
	l := load{topic: "missing", partitions: 1, recordBytes: 10, batchBytes: 64 << 10}
	if count, err := produce(t.Context(), f, l, func(records int64) bool { return records >= 1 }); err == nil {
		t.Errorf("%d records went to a topic that does not exist", count)
	}
}
