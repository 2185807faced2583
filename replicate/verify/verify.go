// Package verify compares mirrored topics with their source, record by record:
// offset, timestamp, key, value and headers, null apart from empty. Both
// logs are read as READ_COMMITTED consumers read them and walked side by side,
// in memory that does not grow with the logs. It trusts nothing of the
// mirror's own state: it is for those who want to see for themselves.
//
// A record that is on one side only is a difference, unless the other side's
// log is compacted and the cleaner explains it (lone.go), or the source has
// deleted it from the start of its log. Filler is no record. The timestamp
// type may differ, the timestamps may not. What is known of batches is
// reported (Batches); a batch in a mirror's log that no mirror wrote, or that
// lacks what makes a mirror's appends conditional, is a difference too.
package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"kafka-mirror-proxy/protocol/batch"
)

// Config says what to compare.
type Config struct {
	Source, Destination *kgo.Client
	Topics              []string
	// Patience is how long a log may stay behind before it counts as ended: the destination is waited for until it has
	// what the source had when the comparison began.
	Patience time.Duration
	// Sample is the share of the offsets that is compared, chosen by Seed in ranges of 10,000; 0 is all. The last range is
	// always compared.
	Sample float64
	Seed   uint64
	// MaxBytesPerSecond bounds what is read from both clusters together, 0 for no bound.
	MaxBytesPerSecond int64
}

// parallel partitions are compared at the same time.
const parallel = 4

// Compare compares the topics. The error says that the comparison could not be made; a difference is no error.
func Compare(ctx context.Context, cfg Config) (Report, error) {
	return newComparer(cfg).compare(ctx, sampler{cfg.Sample, cfg.Seed})
}

// Follow compares the topics again and again until ctx ends, each time, in a sample, other offsets: the seed goes up by one.
// A round begins pause after the one before has ended. Each outcome is told.
func Follow(ctx context.Context, cfg Config, pause time.Duration, tell func(Report, error)) {
	c := newComparer(cfg)
	for sample := (sampler{cfg.Sample, cfg.Seed}); ; sample.seed++ {
		report, err := c.compare(ctx, sample)
		if ctx.Err() != nil {
			return
		}
		tell(report, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// comparer is what rounds have in common.
type comparer struct {
	cfg   Config
	limit *rate.Limiter // bytes; nil for none
}

func newComparer(cfg Config) *comparer {
	c := &comparer{cfg: cfg}
	if cfg.MaxBytesPerSecond > 0 {
		c.limit = rate.NewLimiter(rate.Limit(cfg.MaxBytesPerSecond), int(min(cfg.MaxBytesPerSecond, fetchBytes)))
	}
	return c
}

// throttle waits until so many bytes, which have been read, are allowed.
func (c *comparer) throttle(ctx context.Context, bytes int) error {
	if c.limit == nil {
		return nil
	}
	for bytes > 0 {
		n := min(bytes, c.limit.Burst())
		if err := c.limit.WaitN(ctx, n); err != nil {
			return err
		}
		bytes -= n
	}
	return nil
}

func (c *comparer) newLog(side string, client *kgo.Client, topic kadm.TopicDetail, partition int32, start int64) (*log, error) {
	coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: decompressBytes})
	if err != nil {
		return nil, err
	}
	return &log{
		side: side, client: client, admin: kadm.NewClient(client), topic: topic.Topic, topicID: topic.ID, partition: partition,
		patience: c.cfg.Patience, throttle: c.throttle, coder: coder, leader: topic.Partitions[partition].Leader, start: start,
		open: map[int64]bool{},
	}, nil
}

// compare is one round. The destination is looked up behind the source: what the source has deleted meanwhile may be gone
// there too, and is asked for again.
func (c *comparer) compare(ctx context.Context, sample sampler) (Report, error) {
	source, err := describe(ctx, c.cfg.Source, "source", c.cfg.Topics)
	if err != nil {
		return Report{}, err
	}
	destination, err := describe(ctx, c.cfg.Destination, "destination", c.cfg.Topics)
	if err != nil {
		return Report{}, err
	}
	var report Report
	if !sample.all() {
		report.Sample, report.Seed = sample.share, sample.seed
	}
	for _, topic := range c.cfg.Topics {
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
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range report.Partitions {
		row := &report.Partitions[i]
		if row.Difference != "" {
			continue
		}
		group.Go(func() error {
			p, err := c.newPair(row, source.topics[row.Topic], destination.topics[row.Topic])
			if err != nil {
				return err
			}
			return p.compare(ctx, sample)
		})
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

func hasCompact(policy string) bool { return slices.Contains(strings.Split(policy, ","), "compact") }
