// Package verify compares mirrored topics with their source, record by record:
// offset, timestamp, key, value and headers, null apart from empty. Both
// logs are read as READ_COMMITTED consumers read them and walked side by side,
// in memory that does not grow with the logs. It trusts nothing of the
// mirror's own state: it is for those who want to see for themselves.
package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"kafka-mirror-proxy/protocol/batch"
)

// Config says what to compare.
type Config struct {
	Source, Destination *kgo.Client
	Topics              []string
	// Patience is how long a log may stay behind before it counts as ended: the destination is waited for until it has
	// what the source had when the comparison began.
	Patience time.Duration
}

// Partition is the outcome for one partition.
type Partition struct {
	Topic            string `json:"topic"`
	Partition        int32  `json:"partition"`
	SourceStart      int64  `json:"sourceStart"`      // log start offsets
	DestinationStart int64  `json:"destinationStart"` //
	End              int64  `json:"end"`              // the source's end when the comparison began, exclusive
	Records          int64  `json:"records"`          // equal records
	Difference       string `json:"difference,omitempty"`
}

// Report is the outcome, in the order of topics and partitions.
type Report struct {
	Partitions []Partition `json:"partitions"`
}

// Equal says that no partition differs.
func (r Report) Equal() bool {
	return !slices.ContainsFunc(r.Partitions, func(p Partition) bool { return p.Difference != "" })
}

// Records is the number of records found equal.
func (r Report) Records() (n int64) {
	for _, p := range r.Partitions {
		n += p.Records
	}
	return n
}

// parallel partitions are compared at the same time.
const parallel = 4

// Compare compares the topics. The error says that the comparison could not be made; a difference is no error.
func Compare(ctx context.Context, cfg Config) (Report, error) {
	source, err := describe(ctx, cfg.Source, "source", cfg.Topics)
	if err != nil {
		return Report{}, err
	}
	destination, err := describe(ctx, cfg.Destination, "destination", cfg.Topics)
	if err != nil {
		return Report{}, err
	}
	var report Report
	var pairs []pair
	for _, topic := range cfg.Topics {
		s, d := source.topics[topic], destination.topics[topic]
		for p := range int32(max(len(s.Partitions), len(d.Partitions))) {
			one, two, err := source.bounds(topic, p), destination.bounds(topic, p), error(nil)
			if one.err != nil && two.err == nil {
				err = fmt.Errorf("the source has no partition %d", p)
			} else if two.err != nil {
				err = fmt.Errorf("the destination has no partition %d", p)
			}
			row := Partition{Topic: topic, Partition: p, SourceStart: one.start, DestinationStart: two.start, End: one.end}
			if err != nil {
				row.Difference = err.Error()
			}
			report.Partitions = append(report.Partitions, row)
			pairs = append(pairs, pair{cfg: cfg, source: s, destination: d})
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range report.Partitions {
		if report.Partitions[i].Difference == "" {
			group.Go(func() error { return pairs[i].compare(ctx, &report.Partitions[i]) })
		}
	}
	return report, group.Wait()
}

// cluster is what one side has.
type cluster struct {
	topics     kadm.TopicDetails
	start, end kadm.ListedOffsets
}

type bounds struct {
	start, end int64
	err        error
}

func (c cluster) bounds(topic string, partition int32) bounds {
	start, ok := c.start.Lookup(topic, partition)
	end, also := c.end.Lookup(topic, partition)
	if !ok || !also {
		return bounds{-1, -1, errors.New("no such partition")}
	}
	return bounds{start.Offset, end.Offset, errors.Join(start.Err, end.Err)}
}

func describe(ctx context.Context, client *kgo.Client, side string, topics []string) (cluster, error) {
	admin := kadm.NewClient(client)
	var c cluster
	var err error
	if c.topics, err = admin.ListTopics(ctx, topics...); err != nil {
		return c, fmt.Errorf("look up the topics on the %s: %w", side, err)
	}
	for _, topic := range topics {
		if err := c.topics[topic].Err; err != nil {
			return c, fmt.Errorf("topic %s on the %s: %w", topic, side, err)
		}
	}
	if c.start, err = admin.ListStartOffsets(ctx, topics...); err == nil {
		c.end, err = admin.ListCommittedOffsets(ctx, topics...)
	}
	if err = errors.Join(err, c.start.Error(), c.end.Error()); err != nil {
		return c, fmt.Errorf("list the offsets of the %s: %w", side, err)
	}
	return c, nil
}

// pair is one partition on both sides.
type pair struct {
	cfg                 Config
	source, destination kadm.TopicDetail
}

func (p pair) compare(ctx context.Context, row *Partition) error {
	if row.DestinationStart > row.SourceStart {
		row.Difference = fmt.Sprintf("the destination's log starts at %d, the source's at %d", row.DestinationStart, row.SourceStart)
		return nil
	}
	source, err := newLog(p.cfg.Source, p.source, row.Partition, row.SourceStart, row.End, p.cfg.Patience)
	if err != nil {
		return err
	}
	destination, err := newLog(p.cfg.Destination, p.destination, row.Partition, row.SourceStart, row.End, p.cfg.Patience)
	if err != nil {
		return err
	}
	err = walk(ctx, source, destination, row)
	switch {
	case errors.Is(err, errShort):
		row.Difference = err.Error()
		return nil
	case err != nil || row.Difference != "":
		return err
	}
	return p.compareEnds(ctx, row)
}

// walk reads both logs in step until one differs or both have ended.
func walk(ctx context.Context, source, destination *log, row *Partition) error {
	for {
		s, err := source.next(ctx)
		if err != nil {
			return fmt.Errorf("source: %w", err)
		}
		d, err := destination.next(ctx)
		if err != nil {
			return fmt.Errorf("destination: %w", err)
		}
		if s == nil && d == nil {
			return nil
		}
		if row.Difference = difference(s, d); row.Difference != "" {
			return nil
		}
		row.Records++
	}
}

// compareEnds looks for records of the destination that the source does not have yet: the destination is asked first,
// so that a source that goes on cannot seem behind.
func (p pair) compareEnds(ctx context.Context, row *Partition) error {
	destination, err := describe(ctx, p.cfg.Destination, "destination", []string{row.Topic})
	if err != nil {
		return err
	}
	source, err := describe(ctx, p.cfg.Source, "source", []string{row.Topic})
	if err != nil {
		return err
	}
	d, s := destination.bounds(row.Topic, row.Partition), source.bounds(row.Topic, row.Partition)
	if err := errors.Join(d.err, s.err); err != nil {
		return fmt.Errorf("%s-%d: %w", row.Topic, row.Partition, err)
	}
	if d.end > s.end {
		row.Difference = fmt.Sprintf("the destination ends at %d, %d offsets past the source's end %d", d.end, d.end-s.end, s.end)
	}
	return nil
}

// difference says how two records at the same place differ, "" when they do not; nil is the end of that log.
func difference(s, d *batch.Record) string {
	switch {
	case d == nil || s != nil && s.Offset < d.Offset:
		return fmt.Sprintf("offset %d: the destination has no such record", s.Offset)
	case s == nil || d.Offset < s.Offset:
		return fmt.Sprintf("offset %d: the source has no such record", d.Offset)
	case s.Timestamp != d.Timestamp:
		return fmt.Sprintf("offset %d: the timestamp is %d, the source's %d", s.Offset, d.Timestamp, s.Timestamp)
	case !same(s.Key, d.Key):
		return fmt.Sprintf("offset %d: the key is %s, the source's %s", s.Offset, show(d.Key), show(s.Key))
	case !same(s.Value, d.Value):
		return fmt.Sprintf("offset %d: the value is %s, the source's %s", s.Offset, show(d.Value), show(s.Value))
	}
	if headers := headerDifference(s, d); headers != "" {
		return fmt.Sprintf("offset %d: %s", s.Offset, headers)
	}
	return ""
}

func headerDifference(s, d *batch.Record) string {
	if s.HeaderCount() != d.HeaderCount() {
		return fmt.Sprintf("there are %d headers, on the source %d", d.HeaderCount(), s.HeaderCount())
	}
	if s.HeaderCount() == 0 {
		return ""
	}
	next, stop := iter.Pull2(d.Headers())
	defer stop()
	i := 0
	for key, value := range s.Headers() {
		k, v, _ := next()
		if !same(key, k) || !same(value, v) {
			return fmt.Sprintf("header %d is %s=%s, the source's %s=%s", i, show(k), show(v), show(key), show(value))
		}
		i++
	}
	return ""
}

// same tells null from empty.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func show(b []byte) string {
	if b == nil {
		return "null"
	}
	if len(b) > 40 {
		return fmt.Sprintf("%q... (%d bytes)", b[:40], len(b))
	}
	return fmt.Sprintf("%q", b)
}

// String is the report as text: a line a partition, then the verdict.
func (r Report) String() string {
	var out strings.Builder
	different := 0
	for _, p := range r.Partitions {
		if p.Difference != "" {
			different++
			fmt.Fprintf(&out, "%s-%d: DIFFERENT: %s (%d records before it are equal)\n", p.Topic, p.Partition, p.Difference, p.Records)
			continue
		}
		fmt.Fprintf(&out, "%s-%d: equal: %d records, offsets %d to %d\n", p.Topic, p.Partition, p.Records, p.SourceStart, p.End-1)
	}
	if different > 0 {
		fmt.Fprintf(&out, "DIFFERENT: %d of %d partitions\n", different, len(r.Partitions))
	} else {
		fmt.Fprintf(&out, "equal: %d records in %d partitions\n", r.Records(), len(r.Partitions))
	}
	return out.String()
}
