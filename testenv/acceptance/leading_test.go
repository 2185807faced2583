package acceptance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kafka-mirror-proxy/testenv"
)

const (
	// leadingOffsets is where the source's log starts.
	leadingOffsets = 1_000_000_000
	// leadingMemoryBytes is how much memory the proxy may take more while it fills them.
	leadingMemoryBytes = 200 << 20
	// leadingTimeout bounds the fill, which takes minutes.
	leadingTimeout = 30 * time.Minute
)

// startLogAt makes a source of its own with a topic of one partition whose log starts, and ends, at an offset: the empty
// segment of a stopped broker gets the name that it would have there. A billion records would have to be written otherwise.
func startLogAt(t *testing.T, topic string, offset int64) {
	t.Helper()
	k := testenv.RequireKafka(t, testenv.KafkaConfig{})
	use(t, &source, testenv.Sharing(k))
	createTopic(t, topic, 1)
	id := k.NodeIDs()[0]
	if err := k.Stop(within(t), id); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(k.LogDir(id), topic+"-0")
	segment := func(offset int64, suffix string) string {
		return filepath.Join(dir, fmt.Sprintf("%020d%s", offset, suffix))
	}
	if err := os.Rename(segment(0, ".log"), segment(offset, ".log")); err != nil {
		t.Fatal(err)
	}
	for _, index := range []string{".index", ".timeindex"} { // the broker makes new ones
		if err := os.Remove(segment(0, index)); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Restart(within(t), id); err != nil {
		t.Fatal(err)
	}
	if got := offsets(t, source, topic)[0]; got != (bounds{offset, offset}) {
		t.Fatalf("the source's log is %+v, want it empty at %d", got, offset)
	}
}

// logBytes is how much the largest of a partition's replicas takes on the destination's disks.
func logBytes(t *testing.T, topic string) int64 {
	t.Helper()
	k, most := destination.Kafka(t), int64(0)
	for _, id := range k.NodeIDs() {
		entries, err := os.ReadDir(filepath.Join(k.LogDir(id), topic+"-0"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		var sum int64
		for _, entry := range entries {
			if info, err := entry.Info(); err == nil && filepath.Ext(entry.Name()) == ".log" { // else deleted meanwhile
				sum += info.Size()
			}
		}
		most = max(most, sum)
	}
	return most
}

// TestLeadingOffsets mirrors a log that starts at offset 1,000,000,000 (make leading): the offsets before are filled without
// the proxy's memory growing, and the records behind them arrive as they are. It logs what the fill costs.
func TestLeadingOffsets(t *testing.T) {
	if !long() {
		t.Skip("takes minutes and gigabytes: make leading")
	}
	mirror, topic := uniqueName("leading"), uniqueName("billion")
	startLogAt(t, topic, leadingOffsets)
	w := newWriter(t, topic, 1)
	w.Write(3_000)

	p := startProxy(t)
	p.CreateMirror(mirror)
	memory := residentBytes(t, p.PID())
	peakMemory, peakBytes, end := memory, int64(0), int64(0)
	began := time.Now()
	p.MustMirrors("", "--add", "--mirror", mirror, "--topic", topic)
	testenv.Eventually(t, leadingTimeout, "the destination to end where the source does", func() error {
		time.Sleep(lookPause)
		peakMemory, peakBytes = max(peakMemory, residentBytes(t, p.PID())), max(peakBytes, logBytes(t, topic))
		rows, err := p.Describe(mirror)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.State == "FAILED" {
				t.Fatalf("%+v", row)
			}
			if row.Topic == topic && row.State == "MIRRORING" && row.Lag == 0 && row.DestinationOffset >= leadingOffsets+3_000 {
				end = row.DestinationOffset
				return nil
			}
		}
		return fmt.Errorf("described as %+v", rows)
	})
	took := time.Since(began)
	t.Logf("%d leading offsets: %v (%.1f million a second), %d MB on the destination's disk a replica (%.2f bytes an offset), the proxy's memory from %d MB to at most %d MB",
		leadingOffsets, took.Round(time.Second), leadingOffsets/took.Seconds()/1e6, peakBytes>>20, float64(peakBytes)/leadingOffsets, memory>>20, peakMemory>>20)
	if grown := peakMemory - memory; grown > leadingMemoryBytes {
		t.Errorf("the proxy's memory grew by %d MB, at most %d are allowed", grown>>20, leadingMemoryBytes>>20)
	}
	if end != leadingOffsets+int64(w.next) {
		t.Errorf("the destination ends at %d, %d records were written from %d on", end, w.next, leadingOffsets)
	}

	w.Write(1_000)
	p.WaitNoLag(mirror, topic, 1)
	if onSource, onDestination := offsets(t, source, topic)[0], offsets(t, destination, topic)[0]; onDestination != onSource || onSource.start != leadingOffsets {
		t.Errorf("the log is %+v, on the source %+v; it must start at %d", onDestination, onSource, leadingOffsets)
	}
	verifyEqual(t, source.Kafka(t).Bootstrap(), p.Bootstrap(), int64(w.next), topic)
	p.DropMirror(mirror)
}
