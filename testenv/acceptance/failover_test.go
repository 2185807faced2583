package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kafka-mirror-proxy/testenv"
)

// failOver removes a topic that is fully mirrored, writes to it by way of the proxy, and wants it to be refused when it is
// added again. It returns the last mirrored offsets.
func failOver(t *testing.T, p *proxy, mirror, topic string, partitions int) []int64 {
	t.Helper()
	remove(t, p, mirror, topic, partitions)
	sourceEnds := ends(t, source, topic)
	last := lastMirroredOffsets(t, p, mirror, topic, partitions)
	if !slices.Equal(last, sourceEnds) {
		t.Fatalf("the last mirrored offsets of %s are %v, the source ends at %v", topic, last, sourceEnds)
	}
	before := ends(t, destination, topic)
	for partition, end := range before {
		if marker := end - last[partition]; marker < 0 || marker > 1 {
			t.Fatalf("%s-%d ends at %d at STOPPED, the last mirrored offset is %d", topic, partition, end, last[partition])
		}
	}
	const written = 5
	if first := userWrites(t, p, topic, partitions, written); !slices.Equal(first, before) {
		t.Fatalf("the first writes to %s landed at %v, its partitions ended at %v", topic, first, before)
	}
	log := scan(t, destination, topic)
	wantUsers(t, topic, log, last)
	wantSame(t, topic, scan(t, source, topic), log, last)
	wantDivergenceNamed(t, p, mirror, topic, partitions, last, ends(t, destination, topic))
	return last
}

func remove(t *testing.T, p *proxy, mirror, topic string, partitions int) {
	t.Helper()
	p.MustMirrors(fmt.Sprintf("Removed 1 topic(s) from mirror %s: [%s]", mirror, topic), "--remove", "--mirror", mirror, "--topic", topic)
	p.WaitState(mirror, topic, partitions, "STOPPED")
}

// wantDivergenceNamed adds a topic that users have written to: the tool refuses, or the partitions fail, and the reason
// names the recorded offset and the log's end.
func wantDivergenceNamed(t *testing.T, p *proxy, mirror, topic string, partitions int, recorded, end []int64) {
	t.Helper()
	names := func(text string, partition int) bool {
		return strings.Contains(text, fmt.Sprint(recorded[partition])) && strings.Contains(text, fmt.Sprint(end[partition]))
	}
	r := p.Mirrors("--add", "--mirror", mirror, "--topic", topic)
	if r.exit != 0 {
		if !slices.ContainsFunc(slices.Collect(indexes(partitions)), func(i int) bool { return names(r.stderr, i) }) {
			t.Fatalf("adding %s again, which has users' records from %v to %v, must name both offsets: %v", topic, recorded, end, r)
		}
		return
	}
	p.WaitRows("FAILED that names both offsets", mirror, topic, partitions, func(row partitionRow) bool {
		return row.State == "FAILED" && names(row.ErrorMessage, int(row.Partition))
	})
	if got := ends(t, destination, topic); !slices.Equal(got, end) {
		t.Fatalf("a topic that FAILED for its users' records grew from %v to %v", end, got)
	}
}

func indexes(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// TestFailover stops topics in every way there is, on a proxy that never ended uncleanly while it wrote to them: users'
// first writes land right behind the source's last record.
func TestFailover(t *testing.T) {
	const partitions = 3
	mirror, written, resumed, orphaned := uniqueName("dr"), uniqueName("written"), uniqueName("resumed"), uniqueName("orphaned")
	writers := map[string]*writer{}
	for _, topic := range []string{written, resumed, orphaned} {
		createTopic(t, topic, partitions)
		writers[topic] = newWriter(t, topic, partitions)
		writers[topic].Write(3_000)
	}
	p := startProxy(t)
	p.CreateMirror(mirror)
	r := p.Mirrors("--add", "--mirror", mirror, "--topic", strings.Join([]string{written, resumed, orphaned}, "|"))
	if r.exit != 0 || !strings.HasPrefix(r.stdout, "Added 3 topic(s) to mirror "+mirror+": [") {
		t.Fatalf("add three topics by one pattern: %v", r)
	}
	for topic := range writers {
		p.WaitNoLag(mirror, topic, partitions)
	}

	failOverWithoutMarker(t, p, mirror, written, partitions)
	resumeAfterKill(t, p, mirror, resumed, partitions, writers[resumed])
	failOverWithoutSource(t, p, mirror, orphaned, partitions)
	p.DropMirror(mirror)
}

// statesOf are the rows' topics, partitions and states.
func statesOf(rows []partitionRow) []string {
	var all []string
	for _, row := range rows {
		all = append(all, fmt.Sprintf("%s-%d %s", row.Topic, row.Partition, row.State))
	}
	return all
}

func failOverWithoutMarker(t *testing.T, p *proxy, mirror, topic string, partitions int) {
	t.Helper()
	last := failOver(t, p, mirror, topic, partitions)
	log := scan(t, destination, topic)
	for partition := range log {
		if e := log[partition][last[partition]]; e.control {
			t.Errorf("%s-%d: there is a marker at offset %d although no proxy ended uncleanly", topic, partition, e.offset)
		}
	}
}

// resumeAfterKill stops a topic to which nobody writes: the state outlives a kill -9, and mirroring resumes.
func resumeAfterKill(t *testing.T, p *proxy, mirror, topic string, partitions int, w *writer) {
	t.Helper()
	remove(t, p, mirror, topic, partitions)
	last := lastMirroredOffsets(t, p, mirror, topic, partitions)
	if want := ends(t, source, topic); !slices.Equal(last, want) {
		t.Fatalf("the last mirrored offsets of %s are %v, the source ends at %v", topic, last, want)
	}
	before, err := p.Describe(mirror)
	if err != nil {
		t.Fatal(err)
	}
	p.Kill9()
	w.Write(1_000)
	p.Restart()
	if got := lastMirroredOffsets(t, p, mirror, topic, partitions); !slices.Equal(got, last) {
		t.Fatalf("the last mirrored offsets of %s are %v after a kill -9, were %v", topic, got, last)
	}
	after, err := p.Describe(mirror)
	if err != nil {
		t.Fatal(err)
	}
	if before, after := statesOf(before), statesOf(after); !slices.Equal(before, after) {
		t.Fatalf("the states are %v after a kill -9, were %v", after, before)
	}
	testenv.Eventually(t, mirrorTimeout, "the restarted proxy to take the mirrors over and add "+topic, func() error {
		if r := p.Mirrors("--add", "--mirror", mirror, "--topic", topic); r.exit != 0 {
			return fmt.Errorf("add: %v", r)
		}
		return nil
	})
	p.WaitNoLag(mirror, topic, partitions)
	verifyEqual(t, source.Kafka(t).Bootstrap(), p.Bootstrap(), int64(w.next), topic)
	verifyEqual(t, source.Kafka(t).Bootstrap(), destination.Kafka(t).Bootstrap(), int64(w.next), topic)
}

// failOverWithoutSource stops a topic whose source is down.
func failOverWithoutSource(t *testing.T, p *proxy, mirror, topic string, partitions int) {
	t.Helper()
	sourceEnds := ends(t, source, topic)
	if err := source.Kafka(t).Kill(1); err != nil {
		t.Fatal(err)
	}
	remove(t, p, mirror, topic, partitions)
	if last := lastMirroredOffsets(t, p, mirror, topic, partitions); !slices.Equal(last, sourceEnds) {
		t.Fatalf("the last mirrored offsets of %s are %v, the source ended at %v", topic, last, sourceEnds)
	}
	userWrites(t, p, topic, partitions, 5)
	if err := source.Kafka(t).Restart(within(t), 1); err != nil {
		t.Fatal(err)
	}
	log := scan(t, destination, topic)
	wantUsers(t, topic, log, sourceEnds)
	wantSame(t, topic, scan(t, source, topic), log, sourceEnds)
}
