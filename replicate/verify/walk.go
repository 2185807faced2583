package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"kafka-mirror-proxy/protocol/batch"
)

// pair is one partition on both sides.
type pair struct {
	c                   *comparer
	row                 *Partition
	source, destination *log
	lost                *lone // records that only the source has
	stale               *lone // records that only the destination has
}

func (c *comparer) newPair(row *Partition, source, destination kadm.TopicDetail) (*pair, error) {
	p := &pair{c: c, row: row}
	var err error
	if p.source, err = c.newLog("source", c.cfg.Source, source, row.Partition, row.SourceStart); err != nil {
		return nil, err
	}
	if p.destination, err = c.newLog("destination", c.cfg.Destination, destination, row.Partition, row.DestinationStart); err != nil {
		return nil, err
	}
	p.lost = &lone{missing: p.destination, policy: p.destination.compacted, limit: loneBytes, keys: map[string]missed{}}
	p.stale = &lone{missing: p.source, policy: p.source.compacted, limit: loneBytes, keys: map[string]missed{}}
	return p, nil
}

// compare fills in the row.
func (p *pair) compare(ctx context.Context, sample sampler) error {
	difference, err := p.differ(ctx, sample)
	if errors.Is(err, errShort) {
		difference, err = err.Error(), nil
	}
	facts := &p.destination.facts
	p.row.Batches.Source, p.row.Batches.Destination = p.source.facts.Batches, facts.Batches
	p.row.Batches.Mirrored, p.row.Batches.Foreign = facts.Mirrored, facts.Foreign
	p.row.Batches.Filler, p.row.Batches.Hidden = facts.Filler, facts.Hidden
	p.row.Difference = difference
	return err
}

func (p *pair) differ(ctx context.Context, sample sampler) (string, error) {
	if difference, err := p.behindStart(ctx, p.row.SourceStart); difference != "" || err != nil {
		return difference, err
	}
	for part := range sample.parts(p.row.Topic, p.row.Partition, p.row.SourceStart, p.row.End) {
		p.source.seek(part.from, part.end)
		p.destination.seek(part.from, part.end)
		if difference, err := p.walk(ctx); difference != "" || err != nil {
			return difference, err
		}
		p.row.Compared += part.end - part.from
	}
	for _, l := range []*lone{p.lost, p.stale} {
		if difference, err := l.finish(ctx); difference != "" || err != nil {
			return difference, err
		}
	}
	if difference := p.facts(); difference != "" {
		return difference, nil
	}
	return p.ends(ctx)
}

// behindStart is the difference when an offset of the source lies before the destination's log start, and the source has
// not deleted it meanwhile.
func (p *pair) behindStart(ctx context.Context, offset int64) (string, error) {
	if p.destination.start <= offset {
		return "", nil
	}
	var err error
	if p.source.start, err = p.source.listed(ctx, p.source.admin.ListStartOffsets); err != nil {
		return "", fmt.Errorf("source: %w", err)
	}
	if p.source.start >= p.destination.start {
		return "", nil
	}
	return fmt.Sprintf("the destination's log starts at %d, the source's at %d", p.destination.start, p.source.start), nil
}

// walk reads both logs in step until one differs or both have come to the end of the part.
func (p *pair) walk(ctx context.Context) (string, error) {
	var s, d *batch.Record
	nextSource, nextDestination := true, true
	for {
		var err error
		if nextSource {
			if s, err = p.source.next(ctx); err != nil {
				return "", fmt.Errorf("source: %w", err)
			}
			if s != nil {
				p.stale.meet(s)
			}
		}
		if nextDestination {
			if d, err = p.destination.next(ctx); err != nil {
				return "", fmt.Errorf("destination: %w", err)
			}
			if d != nil {
				p.lost.meet(d)
			}
		}
		p.row.Batches.Identical += identical(&p.source.facts, &p.destination.facts)
		if s == nil && d == nil {
			return "", nil
		}
		nextSource = s != nil && (d == nil || s.Offset <= d.Offset)
		nextDestination = d != nil && (s == nil || d.Offset <= s.Offset)
		var difference string
		switch {
		case nextSource && nextDestination:
			if difference = recordDifference(s, d); difference == "" {
				p.row.Records++
			}
		case nextSource:
			difference, err = p.onlySource(ctx, s)
		default:
			difference, err = p.onlyDestination(ctx, d)
		}
		if difference != "" || err != nil {
			return difference, err
		}
	}
}

func (p *pair) onlySource(ctx context.Context, r *batch.Record) (string, error) {
	p.source.facts.sums = p.source.facts.sums[:0] // the destination's next batch lies behind this one
	if r.Offset < p.destination.start {
		return p.behindStart(ctx, r.Offset)
	}
	p.row.OneSided++
	return p.lost.add(ctx, r)
}

func (p *pair) onlyDestination(ctx context.Context, r *batch.Record) (string, error) {
	p.destination.facts.sums = p.destination.facts.sums[:0]
	if r.Offset < p.source.start { // the source deleted it
		return "", nil
	}
	p.row.OneSided++
	return p.stale.add(ctx, r)
}

// facts is what the destination's batches have against being a mirror's. Those of a partition where no batch is, are not
// judged.
func (p *pair) facts() string {
	f := &p.destination.facts
	if f.Mirrored > 0 && f.foreign != "" {
		return f.foreign
	}
	return f.wrong
}

// ends looks for records of the destination that the source does not have yet: the destination is asked first, so that a
// source that goes on cannot seem behind.
func (p *pair) ends(ctx context.Context) (string, error) {
	d, err := p.destination.listed(ctx, p.destination.admin.ListCommittedOffsets)
	if err != nil {
		return "", fmt.Errorf("destination: %w", err)
	}
	s, err := p.source.listed(ctx, p.source.admin.ListCommittedOffsets)
	if err != nil {
		return "", fmt.Errorf("source: %w", err)
	}
	if d > s {
		return fmt.Sprintf("the destination ends at %d, %d offsets past the source's end %d", d, d-s, s), nil
	}
	return "", nil
}
