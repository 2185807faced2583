package acceptance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type exactPartition struct {
	topic     string
	partition int32
}

// exactRecord is a record as a consumer sees it. sum stands for timestamp, key, value and headers.
type exactRecord struct {
	entry
	timestampMs int64
	tombstone   bool
}

// exactReading is what a consumer saw of each partition, and where the log started.
type exactReading struct {
	records map[exactPartition][]exactRecord
	starts  map[exactPartition]int64
}

// readExact reads partitions as an ordinary consumer from their starts to their ends. Control records are let through to
// the test, to see that it comes to the very end, and dropped. What goes wrong with a topic is put into found.
func readExact(t *testing.T, seeds []string, topics []string, level kgo.IsolationLevel, found map[string]error) *exactReading {
	t.Helper()
	r := &exactReading{records: map[exactPartition][]exactRecord{}, starts: map[exactPartition]int64{}}
	admin := kadm.NewClient(newClient(t, seeds))
	defer admin.Close()
	ctx, cancel := context.WithTimeout(t.Context(), exactPatience)
	defer cancel()
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err = errors.Join(err, starts.Error()); err != nil {
		t.Fatal(err)
	}
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err = errors.Join(err, ends.Error()); err != nil {
		t.Fatal(err)
	}
	from, waiting := map[string]map[int32]kgo.Offset{}, map[exactPartition]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		p, start := exactPartition{o.Topic, o.Partition}, starts[o.Topic][o.Partition].Offset
		if r.starts[p] = start; start == o.Offset {
			return
		}
		if from[p.topic] == nil {
			from[p.topic] = map[int32]kgo.Offset{}
		}
		from[p.topic][p.partition] = kgo.NewOffset().At(start)
		waiting[p] = o.Offset - 1
	})
	client := newClient(t, seeds, kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(), kgo.FetchMaxWait(500*time.Millisecond))
	defer client.Close()
	last := map[exactPartition]int64{}
	for len(waiting) > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			for p, want := range waiting {
				found[p.topic] = errors.Join(found[p.topic], fmt.Errorf("a consumer by way of %v got stuck in partition %d behind offset %d, the log ends with %d",
					seeds, p.partition, last[p], want))
			}
			return r
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			if topic == "" {
				t.Fatalf("consume by way of %v: %v", seeds, err)
			}
			found[topic] = errors.Join(found[topic], fmt.Errorf("consume partition %d by way of %v behind offset %d: %w", partition, seeds, last[exactPartition{topic, partition}], err))
			delete(waiting, exactPartition{topic, partition})
		})
		fetches.EachRecord(func(record *kgo.Record) {
			p := exactPartition{record.Topic, record.Partition}
			if record.Offset <= last[p] && len(r.records[p]) > 0 {
				found[p.topic] = errors.Join(found[p.topic], fmt.Errorf("partition %d: offset %d came behind %d", p.partition, record.Offset, last[p]))
			}
			if last[p] = record.Offset; !record.Attrs.IsControl() {
				r.records[p] = append(r.records[p], exactRecord{newEntry(record), record.Timestamp.UnixMilli(), record.Value == nil})
			}
			if record.Offset >= waiting[p] {
				delete(waiting, p)
			}
		})
	}
	return r
}

// difference says how the readings of one partition differ; it is told independently of verify. In a compacted log a
// record may be missing where a later one of its key is, or was until its tombstone went.
func (r *exactReading) difference(copied *exactReading, p exactPartition, compacted bool) string {
	start := r.starts[p]
	if copied.starts[p] > start {
		return fmt.Sprintf("the log starts at %d, the source's at %d", copied.starts[p], start)
	}
	ours := slices.DeleteFunc(slices.Clone(copied.records[p]), func(e exactRecord) bool { return e.offset < start })
	return firstText(loneText("the mirror", r.records[p], ours, compacted), loneText("the source", ours, r.records[p], compacted))
}

func firstText(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// goneAt is where a key was deleted last, -1 where it was not.
func goneAt(gone map[string]int64, key string) int64 {
	if offset, ok := gone[key]; ok {
		return offset
	}
	return -1
}

// loneText is the first record of one log that the other has not got and cannot have lost to the cleaner, or has in another form.
func loneText(missing string, one, other []exactRecord, compacted bool) string {
	at := map[int64]exactRecord{}
	latest := map[string]int64{} // of each key in the other log
	for _, e := range other {
		at[e.offset] = e
		latest[e.key] = max(latest[e.key], e.offset)
	}
	gone := map[string]int64{} // the last delete of each key that the other log has not got any more
	for _, e := range one {
		if _, there := at[e.offset]; !there && e.tombstone {
			gone[e.key] = e.offset
		}
	}
	for _, e := range one {
		twin, there := at[e.offset]
		switch {
		case there && twin != e:
			return fmt.Sprintf("offset %d: %s has %+v, the other %+v", e.offset, missing, twin, e)
		case !there && !(compacted && (latest[e.key] > e.offset || goneAt(gone, e.key) >= e.offset)):
			return fmt.Sprintf("offset %d: %s has no such record: %+v", e.offset, missing, e)
		}
	}
	return ""
}
