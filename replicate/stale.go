package replicate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

// A compacted topic keeps a tombstone for delete.retention.ms. Whoever has copied a key's last value and then does not
// read on for longer may never see that the key was deleted. So it is noted up to when a copy has kept up (CopiedAtMs),
// and a partition that is behind and comes back later than that falls under mirror.gap.policy.

// freshness is up to when a session has kept up: the last moment at which the source answered a fetch from an offset on and
// everything below that offset is in the destination by now. look is called by the fetcher, at by the runner.
type freshness struct {
	mu         sync.Mutex
	markMs     int64 // a fetch at markOffset was answered then; 0: no mark is set
	markOffset int64
	copiedAtMs int64
}

// look notes an answer to a fetch at an offset; end is the destination's.
func (f *freshness) look(nowMs, fetched, end int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.markMs != 0 && end >= f.markOffset {
		f.copiedAtMs, f.markMs = f.markMs, 0
	}
	switch {
	case end >= fetched:
		f.copiedAtMs, f.markMs = nowMs, 0
	case f.markMs == 0:
		f.markMs, f.markOffset = nowMs, fetched
	}
}

// at is up to when the copy, which ends at an offset, has kept up; 0 when that is not known.
func (f *freshness) at(end int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.markMs != 0 && end >= f.markOffset {
		f.copiedAtMs, f.markMs = f.markMs, 0
	}
	return f.copiedAtMs
}

// cleaning is how a topic is cleaned.
type cleaning struct {
	compacted       bool
	deleteRetention time.Duration
}

// standardDeleteRetention is Kafka's default.
const standardDeleteRetention = 24 * time.Hour

// noteEvery is how often the time of a copy that has nothing to do is noted, so that an owner which dies without a word
// does not look like one that was away since the last record; 0: it need not be.
func (c cleaning) noteEvery() time.Duration {
	if !c.compacted {
		return 0
	}
	return min(max(c.deleteRetention/8, time.Second), time.Hour)
}

// cleaningValid is how long a source topic's cleaning is believed.
const cleaningValid = time.Minute

// cleaningEntry lets one runner ask while the topic's others wait for that answer.
type cleaningEntry struct {
	turn  chan struct{} // holds a token while nobody asks
	asked time.Time
	found cleaning
}

// cleaned is how a source topic is cleaned.
func (s *source) cleaned(ctx context.Context, topic string) (cleaning, error) {
	s.mu.Lock()
	entry := s.cleaning[topic]
	if entry == nil {
		entry = &cleaningEntry{turn: make(chan struct{}, 1)}
		entry.turn <- struct{}{}
		s.cleaning[topic] = entry // one for each topic that was ever in the mirror, until its configs change
	}
	s.mu.Unlock()
	select {
	case <-entry.turn:
	case <-ctx.Done():
		return cleaning{}, ctx.Err()
	}
	defer func() { entry.turn <- struct{}{} }()
	now := s.owner.cfg.Clock()
	if !entry.asked.IsZero() && now.Sub(entry.asked) < cleaningValid {
		return entry.found, nil
	}
	cluster, err := s.connected(ctx)
	if err != nil {
		return cleaning{}, err
	}
	found, err := describeCleaning(ctx, cluster.Client(), topic)
	if err == nil {
		entry.found, entry.asked = found, now
	}
	return found, err
}

const cleaningTimeout = 15 * time.Second

func describeCleaning(ctx context.Context, client kmsg.Requestor, topic string) (cleaning, error) {
	ctx, cancel := context.WithTimeout(ctx, cleaningTimeout)
	defer cancel()
	request := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	resource.ConfigNames = []string{"cleanup.policy", "delete.retention.ms"}
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return cleaning{}, err
	}
	if len(answer.Resources) != 1 {
		return cleaning{}, errors.New("the answer is about other topics")
	}
	if err := kerr.ErrorForCode(answer.Resources[0].ErrorCode); err != nil {
		return cleaning{}, err
	}
	c := cleaning{deleteRetention: standardDeleteRetention}
	for _, config := range answer.Resources[0].Configs {
		switch {
		case config.Value == nil:
		case config.Name == "cleanup.policy":
			c.compacted = slices.ContainsFunc(strings.Split(*config.Value, ","), func(item string) bool { return strings.TrimSpace(item) == "compact" })
		case config.Name == "delete.retention.ms":
			ms, err := strconv.ParseInt(*config.Value, 10, 64)
			if err != nil {
				return cleaning{}, fmt.Errorf("delete.retention.ms: %w", err)
			}
			c.deleteRetention = time.Duration(min(ms, int64(1<<63-1)/int64(time.Millisecond))) * time.Millisecond
		}
	}
	return c, nil
}

// staleLeast is an absence that is too short to matter when the source's configs cannot be read.
const staleLeast = time.Minute

// checkStale judges the time since the copy last kept up, for a partition that goes on at end while the source ends at
// sourceEnd. A fault says that deletes may have been missed.
func (p *partition) checkStale(w *wanted, target produce.Target, source *source, end, sourceEnd int64) (cleaning, error) {
	c, err := source.cleaned(p.ctx, w.topic.Name)
	if err != nil {
		c = cleaning{compacted: true, deleteRetention: standardDeleteRetention} // so that what the cleaner could do is looked for
	}
	since := p.progress.CopiedAtMs
	away := time.Duration(p.nowMs()-since) * time.Millisecond
	switch {
	case end == 0, end >= sourceEnd, since == 0: // nothing was copied, nothing has come, or the copy is of an older version
		return c, nil
	case err != nil && away < staleLeast:
		return c, nil
	case err != nil:
		return c, produce.Because(produce.Retry, err, "read the configs of the source topic %s, to see whether its deletes may have been missed", w.topic.Name)
	case !c.compacted, away <= c.deleteRetention:
		return c, nil
	}
	what := fmt.Sprintf("%s may have missed deletes: the source topic is compacted, and from %s on nothing of it was copied for longer than its delete.retention.ms (%d), so tombstones at offset %d and beyond may be gone",
		target, time.UnixMilli(since).UTC().Format(time.RFC3339), c.deleteRetention.Milliseconds(), end)
	if !skipsGaps(w.mirror) {
		return c, produce.Faultf(produce.Refused, "%s (mirror.gap.policy=fail). Remove the topic from the mirror, recreate it, and add it again; or set mirror.gap.policy=skip to go on, with keys that the source has deleted", what)
	}
	p.tenure.log.Warn().Str("mirror", target.Mirror).Str("topic", target.Topic).Int32("partition", target.Partition).Int64("offset", end).
		Msg(what + " (mirror.gap.policy=skip)")
	progress := p.progress
	progress.Skipped.Note, progress.CopiedAtMs = what+" (mirror.gap.policy=skip)", p.nowMs()
	return c, p.do("note the deletes that may be missed", state.SetProgress{Partition: p.id, Progress: progress})
}

// noteCopy records how far the copy has come, and that it has kept up.
func (p *partition) noteCopy(s *session, end int64) error {
	progress := p.progress
	progress.CopiedOffset, progress.Epochs, progress.CopiedAtMs = end, s.epochsBelow(end), s.fresh.at(end)
	return p.do("record how far the copy has come", state.SetProgress{Partition: p.id, Progress: progress})
}
