package acceptance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/testenv"
)

// How many fetches a reader may need to come to the end of one of these logs, and how many more it may send until the test
// has seen that. Each log fits into one answer, so that two or three are usual, and at the end a fetch waits for half a
// second; a reader that spins sends hundreds a second, here or there.
const (
	fetchesToEnd = 20
	fetchesAtEnd = 200
)

// fillerLogs are source logs that become filler in every place. Each ends in an offset that is no record, but for those
// that say otherwise.
var fillerLogs = []struct {
	name    string
	short   bool // read in a short run, too
	write   func(s *sparse)
	offsets []int64 // to start from, in filler
}{
	{name: "trailing", short: true, offsets: []int64{300, 50_000}, write: func(s *sparse) {
		s.Plain(5)
		s.Aborted(1_000)
		s.Plain(3)
		s.Aborted(100_000)
	}},
	{name: "leading", offsets: []int64{1, 999}, write: func(s *sparse) { // ends in records
		s.Aborted(1_000)
		s.Plain(5)
	}},
	{name: "alternating", short: true, offsets: []int64{51}, write: func(s *sparse) {
		for range 60 {
			s.Committed(2)
		}
	}},
	{name: "nothing", offsets: []int64{12_345}, write: func(s *sparse) {
		for range 3 {
			s.Aborted(10_000)
		}
	}},
	{name: "transactions", offsets: []int64{7}, write: func(s *sparse) {
		s.Plain(2)
		s.Interleaved(20)
		s.Committed(50)
		s.Aborted(20)
		s.Interleaved(5)
		s.Aborted(10)
	}},
}

// TestFillerIsInvisible has every client library read mirrors full of filler by way of the proxy: each gets exactly the
// records that the source's own consumers get, comes to the end of the log, and does so in few fetches.
func TestFillerIsInvisible(t *testing.T) {
	p, watch := watchFetches(t)
	mirror := uniqueName("filler")
	p.CreateMirror(mirror)
	reading := fillerReading{watch: watch, logs: map[string]fillerLog{}}
	for _, log := range fillerLogs {
		if !log.short && !long() {
			continue
		}
		s := newSparse(t, log.name, nil)
		log.write(s)
		p.MustMirrors("", "--add", "--mirror", mirror, "--topic", s.topic)
		reading.logs[log.name] = fillerLog{topic: s.topic, end: s.end, starts: log.offsets,
			records: committedRecords(t, source.Kafka(t).Bootstrap(), s.topic, s.end)}
	}
	for _, log := range reading.logs {
		p.WaitNoLag(mirror, log.topic, 1)
		wantFiller(t, log)
	}
	reading.all(t, readers)
	p.DropMirror(mirror)
}

// fillerLog is a mirrored topic and what is to be read from it.
type fillerLog struct {
	topic   string
	end     int64
	records []readRecord
	starts  []int64
}

// wantFiller wants the broker itself to have filler wherever the log has no record.
func wantFiller(t *testing.T, log fillerLog) {
	t.Helper()
	stored := scan(t, destination, log.topic)[0]
	filler := 0
	for _, e := range stored {
		if e.key == batch.FillerKey {
			filler++
		}
	}
	if int64(len(stored)) != log.end || filler != len(stored)-len(log.records) {
		t.Fatalf("%s has %d of %d records on the destination, %d of them filler; the source has %d", log.topic, len(stored), log.end, filler, len(log.records))
	}
}

// fillerReading is the part of TestFillerIsInvisible that reads.
type fillerReading struct {
	watch *fetchWatch
	logs  map[string]fillerLog // by name
}

// all runs the readers on every log.
func (f *fillerReading) all(t *testing.T, readers []reader) {
	t.Run("readers", func(t *testing.T) { // ends when all have
		for _, r := range readers {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				s := r.start(t)
				for name, log := range f.logs {
					for i, isolation := range []string{readUncommitted, readCommitted} {
						orders := []readOrder{{start: startBeginning}, {start: startGroup}}
						for _, offset := range log.starts {
							orders = append(orders, readOrder{start: startOffset, offset: offset})
						}
						for j, order := range orders {
							if !long() && i != j%2 {
								continue // each start with one of the levels
							}
							order.topic, order.isolation = log.topic, isolation
							f.read(t, s, &r, fmt.Sprintf("%s log, %s, from %s %d", name, isolation, order.start, order.offset), log, order)
						}
					}
				}
			})
		}
	})
}

// read runs a reader once and wants it to be right.
func (f *fillerReading) read(t *testing.T, s *readerSession, r *reader, what string, log fillerLog, order readOrder) {
	t.Helper()
	order.bootstrap = f.watch.Address()
	order.clientID = uniqueName(r.name)
	order.group = "group-" + order.clientID
	want := slices.Clone(log.records)
	want = slices.DeleteFunc(want, func(record readRecord) bool { return record.offset < order.offset })
	var got []readRecord
	var end *heard
	hear := func(line string) {
		h, err := parseHeard(line)
		if err != nil {
			t.Fatalf("%s: it said %q: %v\n%s", what, line, err, s.log())
		}
		if h.record != nil {
			got = append(got, *h.record)
		}
		if h.end {
			end = &h
		}
	}
	drain := func() {
		for {
			select {
			case line, ok := <-s.lines:
				if !ok {
					t.Fatalf("%s: the reader ended\n%s", what, s.log())
				}
				hear(line)
			default:
				return
			}
		}
	}
	began := time.Now()
	s.say(order.String())
	var seen fetched
	testenv.Eventually(t, callTimeout, what+": the end of the log", func() error {
		drain()
		if seen = f.watch.Of(order.clientID); seen.offset == log.end && len(got) >= len(want) {
			return nil
		}
		return fmt.Errorf("after %d fetches the next offset is %d of %d, and %d of %d records were delivered", seen.requests, seen.offset, log.end, len(got), len(want))
	})
	s.say("stop")
	testenv.Eventually(t, callTimeout, what+": the end of the reader", func() error {
		drain()
		if end == nil {
			return fmt.Errorf("it reads still; it has logged:\n%s", s.log())
		}
		return nil
	})
	t.Logf("%s: %d records, %d fetches, %v", what, len(got), seen.arrived, time.Since(began).Round(time.Millisecond))
	if !slices.Equal(got, want) {
		t.Errorf("%s: %s", what, firstWrong(got, want))
	}
	if seen.arrived > fetchesToEnd || seen.requests-seen.arrived > fetchesAtEnd {
		t.Errorf("%s: %d fetches to the end and %d there, want no more than %d and %d", what, seen.arrived, seen.requests-seen.arrived,
			fetchesToEnd, fetchesAtEnd)
	}
	if end.at != -1 && end.at != log.end {
		t.Errorf("%s: its position is %d, the log ends at %d", what, end.at, log.end)
	}
	if r.commitsPosition {
		f.wantNoLag(t, what, order, log)
	}
}

func firstWrong(got, want []readRecord) string {
	for i, w := range want {
		if i >= len(got) {
			return fmt.Sprintf("%d records, want %d; missing is %+v", len(got), len(want), w)
		}
		if got[i] != w {
			return fmt.Sprintf("record %d is %+v, want %+v", i, got[i], w)
		}
	}
	return fmt.Sprintf("%d records, want %d; the first too many is %+v", len(got), len(want), got[len(want)])
}

// wantNoLag wants the reader's group to have committed the log's end.
func (f *fillerReading) wantNoLag(t *testing.T, what string, order readOrder, log fillerLog) {
	t.Helper()
	client := newClient(t, destination.Kafka(t).Bootstrap())
	defer client.Close()
	committed, err := kadm.NewClient(client).FetchOffsetsForTopics(within(t), order.group, log.topic)
	if err != nil {
		t.Fatalf("%s: committed offsets: %v", what, err)
	}
	if at, _ := committed.Lookup(log.topic, 0); at.At != log.end {
		t.Errorf("%s: it committed %d, the log ends at %d", what, at.At, log.end)
	}
}
