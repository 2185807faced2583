package acceptance

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readFrom is what a consumer of committed records gets that starts at an offset, up to the last offset of the log.
func readFrom(t *testing.T, bootstrap []string, topic string, start, end int64) []readRecord {
	t.Helper()
	client := newClient(t, bootstrap, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(start)}}))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	var all []readRecord
	for last := int64(-1); last < end-1; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s from %d by way of %v: at offset %d of %d: %v", topic, start, bootstrap, last, end, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if last = r.Offset; !r.Attrs.IsControl() {
				all = append(all, readRecord{offset: r.Offset, value: string(r.Value)})
			}
		})
	}
	return all
}

// TestStartsInGaps: of a compacted log with the gaps that transactions leave, a consumer gets by way of the proxy what the
// source gives it, wherever it starts: at a record, in a gap, on a marker, at the end of the log. Both logs end at the same
// offset.
func TestStartsInGaps(t *testing.T) {
	policy, none, always := "compact", "0", "50"
	s := newSparse(t, "gaps", map[string]*string{"cleanup.policy": &policy, "min.cleanable.dirty.ratio": &none, "min.compaction.lag.ms": &none, "segment.ms": &always})
	for range 20 {
		s.Plain(50) // of ten keys
	}
	for i := range 50 {
		if i%2 == 0 {
			s.Committed(2) // a record and the marker
		} else {
			s.Aborted(2)
		}
	}
	k := source.Kafka(t)
	log := &exactLog{plan: exactPlan{partitions: 1, policy: policy}, topic: s.topic, seeds: k.Bootstrap(), admin: kadm.NewClient(s.plain), latest: make([]int64, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), mirrorTimeout)
	defer cancel()
	if err := log.compact(ctx, checkpointFile(k.LogDir(1))); err != nil {
		t.Fatal(err)
	}
	end := ends(t, source, s.topic)[0]
	records, markers := layout(t, k.Bootstrap(), s.topic, end)
	starts := map[string]int64{"a record": records[len(records)/2], "a marker": markers[len(markers)/2], "the log's end": end, "a gap": -1}
	for offset := int64(500); starts["a gap"] < 0; offset++ {
		if !slices.Contains(records, offset) && !slices.Contains(markers, offset) {
			starts["a gap"] = offset
		}
	}
	t.Logf("%d records and %d markers at %d offsets; starts %v", len(records), len(markers), end, starts)
	if len(records) > 200 || len(markers) < 25 {
		t.Fatal("the source was not compacted, or has no markers")
	}

	p := startProxy(t)
	mirror := uniqueName("gaps")
	p.CreateMirror(mirror)
	p.MustMirrors("", "--add", "--mirror", mirror, "--topic", s.topic)
	p.WaitNoLag(mirror, s.topic, 1)
	if got := ends(t, destination, s.topic)[0]; got != end {
		t.Errorf("the destination ends at %d, the source at %d", got, end)
	}
	s.end = end
	s.Plain(1) // for who starts at the end
	p.WaitNoLag(mirror, s.topic, 1)
	for what, start := range starts {
		want := readFrom(t, k.Bootstrap(), s.topic, start, s.end)
		if got := readFrom(t, p.Bootstrap(), s.topic, start, s.end); !slices.Equal(got, want) {
			t.Errorf("from %s (offset %d): %s", what, start, firstWrong(got, want))
		}
		if start == end && (len(want) != 1 || want[0].offset != end) || len(want) == 0 {
			t.Errorf("from %s (offset %d) the source gives %v", what, start, want)
		}
	}
	if got := ends(t, destination, s.topic)[0]; got != s.end {
		t.Errorf("the destination ends at %d, the source at %d", got, s.end)
	}
	p.DropMirror(mirror)
}

// layout is where records and markers are in a log: what a consumer of uncommitted records is shown.
func layout(t *testing.T, bootstrap []string, topic string, end int64) (records, markers []int64) {
	t.Helper()
	client := newClient(t, bootstrap, kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	for last := int64(-1); last < end-1; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(fmt.Errorf("read %s: %w", topic, err))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if last = r.Offset; r.Attrs.IsControl() {
				markers = append(markers, last)
			} else {
				records = append(records, last)
			}
		})
	}
	return records, markers
}
