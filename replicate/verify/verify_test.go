package verify

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/testenv"
)

// client is without idempotence unless it has transactions: kfake's producer ids are random and may look like a mirror's.
func client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.GzipCompression()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// side is one of the two clusters with a topic t.
func side(t *testing.T, partitions int32) *kgo.Client {
	t.Helper()
	fake := testenv.NewFake(t, testenv.FakeConfig{})
	c := client(t, kgo.SeedBrokers(fake.Bootstrap()...), kgo.DisableIdempotentWrite())
	if _, err := kadm.NewClient(c).CreateTopic(t.Context(), partitions, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	return c
}

func produce(t *testing.T, c *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	for _, r := range records {
		r.Topic = "t"
		if err := c.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// sample is a log with everything that may be confused: nulls, empties, headers, timestamps.
func sample() []*kgo.Record {
	at := time.UnixMilli(1_700_000_000_000)
	return []*kgo.Record{
		{Key: []byte("k"), Value: []byte("v"), Timestamp: at},
		{Key: nil, Value: []byte{}, Timestamp: at.Add(time.Second)},
		{Key: []byte{}, Value: nil, Timestamp: at},
		{Key: []byte("h"), Value: []byte("v"), Timestamp: at, Headers: []kgo.RecordHeader{{Key: "a", Value: nil}, {Key: "", Value: []byte{}}}},
	}
}

func compare(t *testing.T, source, destination *kgo.Client) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := Compare(ctx, Config{Source: source, Destination: destination, Topics: []string{"t"}, Patience: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEqualLogs(t *testing.T) {
	source, destination := side(t, 2), side(t, 2)
	produce(t, source, sample()...)
	produce(t, destination, sample()...)
	r := compare(t, source, destination)
	if !r.Equal() || r.Records() != 4 || len(r.Partitions) != 2 {
		t.Errorf("%+v", r)
	}
	want := "t-0: equal: 4 records, offsets 0 to 3\nt-1: equal: 0 records, offsets 0 to -1\nequal: 4 records in 2 partitions\n"
	if r.String() != want {
		t.Errorf("%s", r)
	}
}

func TestDifferences(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]*kgo.Record) []*kgo.Record
		want   string
	}{
		"timestamp":     {func(r []*kgo.Record) []*kgo.Record { r[1].Timestamp = r[0].Timestamp; return r }, "offset 1: the timestamp is 1700000000000, the source's 1700000001000"},
		"key":           {func(r []*kgo.Record) []*kgo.Record { r[0].Key = []byte("x"); return r }, `offset 0: the key is "x", the source's "k"`},
		"empty not nil": {func(r []*kgo.Record) []*kgo.Record { r[1].Value = nil; return r }, `offset 1: the value is null, the source's ""`},
		"nil not empty": {func(r []*kgo.Record) []*kgo.Record { r[2].Key = nil; return r }, `offset 2: the key is null, the source's ""`},
		"header order":  {func(r []*kgo.Record) []*kgo.Record { h := r[3].Headers; h[0], h[1] = h[1], h[0]; return r }, `offset 3: header 0 is ""="", the source's "a"=null`},
		"header count":  {func(r []*kgo.Record) []*kgo.Record { r[3].Headers = r[3].Headers[:1]; return r }, "offset 3: there are 1 headers, on the source 2"},
		"lost":          {func(r []*kgo.Record) []*kgo.Record { return r[:3] }, "log ends early: offset 4 was waited for, the log ends at 3"},
		"doubled":       {func(r []*kgo.Record) []*kgo.Record { return append(r, r[3]) }, "the destination ends at 5, 1 offsets past the source's end 4"},
		"shifted":       {func(r []*kgo.Record) []*kgo.Record { return append([]*kgo.Record{{Value: []byte("new")}}, r...) }, "offset 0: the timestamp is"},
	} {
		t.Run(name, func(t *testing.T) {
			source, destination := side(t, 1), side(t, 1)
			produce(t, source, sample()...)
			produce(t, destination, c.change(sample())...)
			r := compare(t, source, destination)
			if r.Equal() || !strings.Contains(r.Partitions[0].Difference, c.want) || !strings.HasSuffix(r.String(), "DIFFERENT: 1 of 1 partitions\n") {
				t.Errorf("%s", r)
			}
		})
	}
}

func trim(t *testing.T, c *kgo.Client, to int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset("t", 0, to, -1)
	if _, err := kadm.NewClient(c).DeleteRecords(t.Context(), offsets); err != nil {
		t.Fatal(err)
	}
}

// Records the source deleted may still be on the destination; the other way round they are lost.
func TestLogStarts(t *testing.T) {
	source, destination := side(t, 1), side(t, 1)
	produce(t, source, sample()...)
	produce(t, destination, sample()...)
	trim(t, source, 2)
	if r := compare(t, source, destination); !r.Equal() || r.Records() != 2 || r.Partitions[0].SourceStart != 2 {
		t.Errorf("%s", r)
	}
	trim(t, destination, 3)
	if r := compare(t, source, destination); r.Equal() || !strings.Contains(r.Partitions[0].Difference, "starts at 3, the source's at 2") {
		t.Errorf("%s", r)
	}
}

// What the source deletes from the start of its log while it is compared, and with it the destination, is no difference; what
// only the destination has deleted is.
func TestTrimmedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		source, destination int64 // new log starts
		records             int64
		want                string
	}{
		"both":            {2, 2, 2, ""},
		"the source":      {3, 0, 1, ""},
		"source further":  {3, 2, 1, ""},
		"everything":      {4, 4, 0, ""},
		"the destination": {0, 2, 0, "the destination's log starts at 2, the source's at 0"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Source: side(t, 1), Destination: side(t, 1), Topics: []string{"t"}}
			produce(t, cfg.Source, sample()...)
			produce(t, cfg.Destination, sample()...)
			comparer, row := newComparer(cfg), Partition{Topic: "t", End: 4}
			s, err := describe(t.Context(), cfg.Source, "source", cfg.Topics)
			if err != nil {
				t.Fatal(err)
			}
			d, err := describe(t.Context(), cfg.Destination, "destination", cfg.Topics)
			if err != nil {
				t.Fatal(err)
			}
			p, err := comparer.newPair(&row, s.topics["t"], d.topics["t"])
			if err != nil {
				t.Fatal(err)
			}
			trim(t, cfg.Source, c.source)
			trim(t, cfg.Destination, c.destination)
			if err := p.compare(t.Context(), sampler{}); err != nil || row.Difference != c.want || row.Records != c.records || row.OneSided != 0 {
				t.Errorf("%v %+v, want %d records, %q", err, row, c.records, c.want)
			}
		})
	}
}

func TestPartitionCounts(t *testing.T) {
	if r := compare(t, side(t, 1), side(t, 2)); r.Equal() || r.Partitions[1].Difference != "the source has no partition 1" {
		t.Errorf("%s", r)
	}
	if r := compare(t, side(t, 2), side(t, 1)); r.Equal() || r.Partitions[1].Difference != "the destination has no partition 1" {
		t.Errorf("%s", r)
	}
}

// Aborted data and markers of the source are filler on the destination: neither is compared, what is committed is.
func TestAbortedDataAndFiller(t *testing.T) {
	fake := testenv.NewFake(t, testenv.FakeConfig{})
	source := client(t, kgo.SeedBrokers(fake.Bootstrap()...), kgo.TransactionalID("x"))
	if _, err := kadm.NewClient(source).CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(writtenMs)
	transaction := func(value string, end kgo.TransactionEndTry) {
		if err := source.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		produce(t, source, &kgo.Record{Value: []byte(value), Timestamp: at})
		if err := source.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	transaction("committed", kgo.TryCommit) // 0, marker 1
	transaction("aborted", kgo.TryAbort)    // 2, marker 3
	transaction("last", kgo.TryCommit)      // 4, marker 5

	destination := side(t, 1)
	write(t, destination, mirrored(0, "\x00=committed"), mirrored(1, filled), mirrored(2, filled, filled), mirrored(4, "\x00=last", filled))
	for name, way := range map[string]*kgo.Client{"around the proxy": destination, "through the proxy": throughProxy(t, destination)} {
		r := compare(t, source, way)
		b := r.Partitions[0].Batches
		if !r.Equal() || r.Records() != 2 || b.Mirrored == 0 || b.Foreign != 0 {
			t.Errorf("%s: %s%+v", name, r, b)
		}
		if seen := b.Filler + b.Hidden; seen != 4 || b.Filler == 0 != (name == "through the proxy") {
			t.Errorf("%s: %+v", name, b)
		}
	}
}

// Of two transactions the one that began first is aborted last: a broker lists them in the order in which they ended.
func TestInterleavedAborts(t *testing.T) {
	for name, order := range map[string][2]int{"first begun, last aborted": {1, 0}, "first begun, first aborted": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			fake := testenv.NewFake(t, testenv.FakeConfig{})
			var source [2]*kgo.Client
			for i := range source {
				source[i] = client(t, kgo.SeedBrokers(fake.Bootstrap()...), kgo.TransactionalID(fmt.Sprint(i)))
			}
			if _, err := kadm.NewClient(source[0]).CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
				t.Fatal(err)
			}
			at := time.UnixMilli(writtenMs)
			for _, c := range source { // offsets 0 and 1
				if err := c.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				produce(t, c, &kgo.Record{Value: []byte("aborted"), Timestamp: at})
			}
			for _, i := range order { // 2 and 4
				produce(t, source[i], &kgo.Record{Value: []byte("aborted too"), Timestamp: at})
				if err := source[i].EndTransaction(t.Context(), kgo.TryAbort); err != nil {
					t.Fatal(err)
				}
			}
			destination := side(t, 1)
			write(t, destination, mirrored(0, filled, filled, filled, filled, filled, filled))
			if r := compare(t, source[0], destination); !r.Equal() || r.Records() != 0 {
				t.Errorf("%s", r)
			}
		})
	}
}

func TestMissingTopicIsAnError(t *testing.T) {
	fake := testenv.NewFake(t, testenv.FakeConfig{})
	c := client(t, kgo.SeedBrokers(fake.Bootstrap()...))
	_, err := Compare(t.Context(), Config{Source: side(t, 1), Destination: c, Topics: []string{"t"}})
	if err == nil || !strings.Contains(err.Error(), "topic t on the destination") {
		t.Error(err)
	}
}

// The comparison goes over many fetches without a hole or a repetition.
func TestManyFetches(t *testing.T) {
	source, destination := side(t, 1), side(t, 1)
	var records []*kgo.Record
	value := strings.Repeat("x", 64<<10)
	for i := range 200 { // 12 MiB against fetches of 4
		records = append(records, &kgo.Record{Key: fmt.Append(nil, i), Value: []byte(value), Timestamp: time.UnixMilli(int64(i))})
	}
	produce(t, source, records...)
	produce(t, destination, records...)
	if r := compare(t, source, destination); !r.Equal() || r.Records() != 200 {
		t.Errorf("%s", r)
	}
}
