package verify

import (
	"context"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kadm"

	"kafka-mirror-proxy/protocol/batch"
)

// loneBytes bounds the keys, with what a map needs for each, of records that one side has and the other has not.
const (
	loneBytes    = 64 << 20
	loneOverhead = 64
)

// lone holds the records that the one side has and the other, missing, has not, until the cleaner of the missing side is
// known to have taken them: a later record of the key is there, or one that is a tombstone was, and went when its time
// was over. Of each key only the last one is kept, since whatever explains it explains those before. What is on the
// missing side for another reason, a lost record or a delete that never arrived, is not explained by this.
type lone struct {
	missing   *log
	policy    func(context.Context) (bool, error) // whether the missing side is compacted
	limit     int                                 // loneBytes
	compacted bool
	asked     bool

	keys  map[string]missed
	bytes int
}

type missed struct {
	offset    int64
	tombstone bool
}

// add takes a record that the missing side does not have, and returns the difference when nothing can explain it.
func (l *lone) add(ctx context.Context, r *batch.Record) (string, error) {
	if !l.asked {
		compacted, err := l.policy(ctx)
		if err != nil {
			return "", err
		}
		l.asked, l.compacted = true, compacted
	}
	if !l.compacted {
		return l.noSuch(r.Offset), nil
	}
	if r.Key == nil {
		if l.missing.side == "source" {
			return "", nil // the cleaner drops what has no key, as a topic may hold that became compacted
		}
		return l.noSuch(r.Offset), nil
	}
	if _, known := l.keys[string(r.Key)]; !known {
		l.bytes += len(r.Key) + loneOverhead
	}
	l.keys[string(r.Key)] = missed{r.Offset, r.Value == nil}
	if l.bytes <= l.limit {
		return "", nil
	}
	difference, left, err := l.settle(ctx)
	if err != nil || difference != "" {
		return difference, err
	}
	if l.bytes > l.limit/2 { // a tombstone further on could explain them, but there is no room to wait for it
		return fmt.Sprintf("%s, nor later ones of %d keys", l.noSuch(left), len(l.keys)), nil
	}
	return "", nil
}

// meet takes a record of the missing side: one whose key is waited for explains why earlier ones are not there.
func (l *lone) meet(r *batch.Record) {
	if len(l.keys) == 0 {
		return
	}
	if m, ok := l.keys[string(r.Key)]; ok && r.Key != nil && r.Offset > m.offset && !m.tombstone {
		l.forget(r.Key)
	}
}

func (l *lone) forget(key []byte) {
	delete(l.keys, string(key))
	l.bytes -= len(key) + loneOverhead
}

// finish says at the end of the comparison what is left unexplained.
func (l *lone) finish(ctx context.Context) (string, error) {
	if len(l.keys) == 0 {
		return "", nil
	}
	difference, left, err := l.settle(ctx)
	if err != nil || difference != "" || left < 0 {
		return difference, err
	}
	return l.noSuch(left) + ", and no later one of its key", nil
}

func (l *lone) noSuch(offset int64) string {
	return fmt.Sprintf("offset %d: the %s has no such record", offset, l.missing.side)
}

// settle reads the missing side anew, to its present end, for later records of the keys; and for earlier ones of those whose
// tombstone is missing: the cleaner takes a tombstone only after all that it deletes, so that one left behind shows that
// the tombstone was never there. left is the first offset that stays unexplained, -1 for none.
func (l *lone) settle(ctx context.Context) (difference string, left int64, err error) {
	from, to := int64(math.MaxInt64), int64(0)
	start, err := l.missing.listed(ctx, l.missing.admin.ListStartOffsets)
	if err != nil {
		return "", -1, err
	}
	end, err := l.missing.listed(ctx, l.missing.admin.ListCommittedOffsets)
	if err != nil {
		return "", -1, err
	}
	for _, m := range l.keys {
		if m.tombstone {
			from, to = start, max(to, m.offset)
		} else {
			from, to = max(start, min(from, m.offset)), end
		}
	}
	again := *l.missing // the same partition, with a place and a coder of its own
	if again.coder, err = batch.NewCoder(batch.CoderConfig{LimitBytes: decompressBytes}); err != nil {
		return "", -1, err
	}
	again.open, again.records, again.facts = map[int64]bool{}, nil, facts{counted: math.MaxInt64}
	again.seek(from, min(to, end))
	for {
		r, err := again.next(ctx)
		if err != nil {
			return "", -1, fmt.Errorf("%s: %w", l.missing.side, err)
		}
		if r == nil {
			break
		}
		if m, ok := l.keys[string(r.Key)]; ok && m.tombstone && r.Key != nil && r.Offset < m.offset {
			return fmt.Sprintf("%s, a delete, and still has the record at offset %d of its key", l.noSuch(m.offset), r.Offset), -1, nil
		}
		l.meet(r)
	}
	left = -1
	for key, m := range l.keys {
		if m.tombstone {
			l.forget([]byte(key))
		} else if left < 0 || m.offset < left {
			left = m.offset
		}
	}
	return "", left, nil
}

// topicConfig is one config of a topic.
func topicConfig(ctx context.Context, admin *kadm.Client, topic, name string) (string, error) {
	answers, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return "", fmt.Errorf("look up %s of topic %s: %w", name, topic, err)
	}
	answer, err := answers.On(topic, nil)
	if err == nil {
		err = answer.Err
	}
	if err != nil {
		return "", fmt.Errorf("look up %s of topic %s: %w", name, topic, err)
	}
	for _, c := range answer.Configs {
		if c.Key == name {
			return c.MaybeValue(), nil
		}
	}
	return "", fmt.Errorf("look up %s of topic %s: the broker did not say", name, topic)
}
