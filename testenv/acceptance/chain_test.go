package acceptance

import (
	"slices"
	"testing"

	"kafka-mirror-proxy/testenv"
)

// TestMirrorOfAMirror: a third cluster mirrors what the destination holds, by way of the proxy in front of it (which shows
// filler as markers) and around it (where filler is stored). Each time it holds the first source's records at their offsets.
func TestMirrorOfAMirror(t *testing.T) {
	first := startProxy(t)
	mirror := uniqueName("chain")
	first.CreateMirror(mirror)
	s := newSparse(t, "chain", nil)
	s.Plain(3)
	s.Aborted(30)
	s.Interleaved(4)
	s.Committed(2)
	s.Aborted(5_000) // more than is filled within a batch
	s.Plain(1)
	s.Aborted(10)
	first.MustMirrors("", "--add", "--mirror", mirror, "--topic", s.topic)
	first.WaitNoLag(mirror, s.topic, 1)
	want := committedRecords(t, source.Kafka(t).Bootstrap(), s.topic, s.end)
	middle := destination.Kafka(t).Bootstrap()
	for _, way := range []struct {
		name      string
		bootstrap []string
	}{{"proxy", first.Bootstrap()}, {"around", middle}} {
		t.Run(way.name, func(t *testing.T) {
			use(t, &destination, testenv.Sharing(testenv.RequireKafka(t, testenv.KafkaConfig{Brokers: 1})))
			last := startProxy(t)
			second := uniqueName("second")
			last.CreateMirrorOf(second, way.bootstrap)
			last.MustMirrors("", "--add", "--mirror", second, "--topic", s.topic)
			last.WaitRows("the whole log", second, s.topic, 1, func(row partitionRow) bool { return row.DestinationOffset == s.end })
			if got := committedRecords(t, last.Bootstrap(), s.topic, s.end); !slices.Equal(got, want) {
				t.Errorf("%d records, the source has %d", len(got), len(want))
			}
			verifyEqual(t, source.Kafka(t).Bootstrap(), last.Bootstrap(), int64(len(want)), s.topic)
			last.DropMirror(second)
		})
	}
	first.DropMirror(mirror)
}
