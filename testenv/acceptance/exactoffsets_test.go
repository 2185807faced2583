package acceptance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// exactTimestamps is how many timestamps each partition is asked for.
const exactTimestamps = 50

// Timestamps of ListOffsets with a meaning of their own.
const (
	latestTimestamp   = -1
	earliestTimestamp = -2
	maxTimestamp      = -3
)

// listed is one answer of ListOffsets.
type listed struct{ offset, timestampMs int64 }

// listOffsets asks for each partition's offset by its timestamp.
func listOffsets(t *testing.T, client *kgo.Client, timestamps map[exactPartition]int64) map[exactPartition]listed {
	t.Helper()
	request := kmsg.NewPtrListOffsetsRequest()
	topics := map[string][]kmsg.ListOffsetsRequestTopicPartition{}
	for p, timestamp := range timestamps {
		asked := kmsg.NewListOffsetsRequestTopicPartition()
		asked.Partition, asked.Timestamp = p.partition, timestamp
		topics[p.topic] = append(topics[p.topic], asked)
	}
	for topic, partitions := range topics {
		asked := kmsg.NewListOffsetsRequestTopic()
		asked.Topic, asked.Partitions = topic, partitions
		request.Topics = append(request.Topics, asked)
	}
	answer, err := request.RequestWith(within(t), client)
	if err != nil {
		t.Fatal(err)
	}
	all := map[exactPartition]listed{}
	for _, topic := range answer.Topics {
		for _, p := range topic.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				t.Fatalf("list offsets of %s-%d: %v", topic.Topic, p.Partition, err)
			}
			all[exactPartition{topic.Topic, p.Partition}] = listed{p.Offset, p.Timestamp}
		}
	}
	return all
}

// compareListedOffsets asks both sides for offsets by timestamp: those of records, around them, and far off. What a consumer
// who starts there is given first must be the same; an answer that is not the same offset is counted and told, by what lies
// at the source's offset.
func compareListedOffsets(r *exactRun, original *exactReading, plans map[string]exactPlan, found map[string]error) {
	t := r.t
	direct, proxied := newClient(t, source.Kafka(t).Bootstrap()), newClient(t, r.proxy.Bootstrap())
	defer direct.Close()
	defer proxied.Close()
	counts, examples := map[string]int{}, map[string]string{}
	rounds := []int64{latestTimestamp, earliestTimestamp, maxTimestamp}
	for round := range len(rounds) + exactTimestamps {
		asked := map[exactPartition]int64{}
		for topic, plan := range plans {
			for partition := range int32(plan.partitions) {
				p := exactPartition{topic, partition}
				if asked[p] = r.timestamp(original.records[p]); round < len(rounds) {
					asked[p] = rounds[round]
				}
			}
		}
		one, two := listOffsets(t, direct, asked), listOffsets(t, proxied, asked)
		for p, timestamp := range asked {
			s, d := one[p], two[p]
			plan := plans[p.topic]
			kind := "the same"
			if s != d {
				kind = original.kind(p, timestamp, s, d, plan)
			}
			counts[kind]++
			text := fmt.Sprintf("%s-%d: timestamp %d is at %+v, on the source at %+v", plan.name, p.partition, timestamp, d, s)
			if kind != "the same" {
				examples[kind] = text
			}
			if strings.HasPrefix(kind, "WRONG") {
				found[p.topic] = errors.Join(found[p.topic], fmt.Errorf("list offsets: %s: %s", kind, text))
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("list offsets: %d answers: %s %s", counts[kind], kind, examples[kind])
	}
}

// timestamp is one to ask for. Negative ones have other meanings.
func (r *exactRun) timestamp(records []exactRecord) int64 {
	if len(records) == 0 || r.random.IntN(10) == 0 {
		return r.random.Int64N(4_000_000_000_000)
	}
	return max(0, records[r.random.IntN(len(records))].timestampMs+r.random.Int64N(3)-1)
}

// kind says what a difference between the answers comes from.
func (r *exactReading) kind(p exactPartition, timestamp int64, s, d listed, plan exactPlan) string {
	records := r.records[p]
	first := func(offset int64) int { // of the records that a consumer at the offset is given
		if offset < 0 {
			return len(records)
		}
		return sort.Search(len(records), func(i int) bool { return records[i].offset >= offset })
	}
	what := "no record for consumers"
	if at := first(s.offset); s.offset >= 0 && at < len(records) && records[at].offset == s.offset {
		what = "a record"
	}
	switch {
	case plan.compacted():
		return "compacted on one side only, or cleaned again"
	case first(s.offset) == first(d.offset):
		return fmt.Sprintf("another offset before the same record; the source's holds %s", what)
	case r.starts[p] > 0 && (s.offset < 0 || d.offset < 0):
		// A broker looks into the first segment that holds the timestamp or a later one, among deleted records too, and
		// into no other.
		return "nothing found on one side, where deleted records of the segment have later timestamps"
	case timestamp == maxTimestamp:
		return fmt.Sprintf("max timestamp; the source's holds %s", what)
	}
	return fmt.Sprintf("WRONG: consumers are given another record; the source's holds %s", what)
}
