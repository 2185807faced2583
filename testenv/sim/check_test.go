package sim

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/state"
)

// settled is how long a case may take to come to rest once the faults have ended.
const settled = 20 * time.Minute

// awaitRest waits until every partition has caught up or is FAILED for good. It says what is not.
func (w *world) awaitRest() error {
	var err error
	for range int(settled / time.Second) {
		time.Sleep(time.Second)
		err = nil
		for i := range w.plan.partitions {
			if at := w.rest(i); at != "" {
				err = fmt.Errorf("partition %d: %s", i, at)
			}
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// rest says what a partition still has to do; "" when it is at rest.
func (w *world) rest(i int) string {
	w.source.mu.Lock()
	sourceEnd := w.source.sources[i].end
	w.source.mu.Unlock()
	w.destination.mu.Lock()
	end, hw := w.destination.destinations[i].end, w.destination.destinations[i].hw
	w.destination.mu.Unlock()
	for _, p := range w.partitions(i) {
		switch {
		case p.Status == state.Failed && (!p.Retriable || strings.Contains(p.Error, "has a gap")):
		case p.Status == state.Mirroring && end >= sourceEnd && hw == end: // beyond it: the next record will show
		case p.Status == state.Mirroring && w.failed(i) != "" && len(w.states) > 1: // the other one has given up
		default:
			return fmt.Sprintf("%v %q, the destination ends at %d (high watermark %d), the source at %d", p.Status, p.Error, end, hw, sourceEnd)
		}
	}
	return ""
}

// failed is the reason why a partition is FAILED, "" where it is not.
func (w *world) failed(i int) string {
	for _, p := range w.partitions(i) {
		if p.Status == state.Failed {
			return p.Error
		}
	}
	return ""
}

// wrong lists what the destination holds of a partition below an offset and should not, or lacks.
func (w *world) wrong(i int, end int64) []string {
	s, d := w.source.sources[i], w.destination.destinations[i]
	coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: 64 << 20})
	if err != nil {
		w.t.Fatal(err)
	}
	var wrong []string
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if d.start > s.start {
		note("offsets %d to %d are deleted on the destination only", s.start, d.start-1)
	}
	next := d.start
	for _, b := range d.batches {
		if b.base >= end {
			break
		}
		if b.raw.Control() {
			note("offset %d: a marker", b.base)
			next = b.last + 1
			continue
		}
		err := coder.Records(b.raw, func(r *batch.Record) error {
			if r.Offset < d.start {
				return nil
			}
			for ; next < r.Offset; next++ {
				note("offset %d: nothing", next)
			}
			next = r.Offset + 1
			if text := w.wrongRecord(s, r); text != "" {
				note("offset %d: %s", r.Offset, text)
			}
			return nil
		})
		if err != nil {
			note("offsets %d to %d: %v", b.base, b.last, err)
		}
	}
	if next != max(end, d.start) {
		note("offsets %d to %d: nothing", next, end-1)
	}
	return wrong
}

// wrongRecord says why a record must not stand at its offset.
func (w *world) wrongRecord(s *source, r *batch.Record) string {
	e := s.history[r.Offset]
	filler := r.IsFiller()
	got := ""
	if !filler {
		got = textOf(r.Timestamp, r.Key, r.Value)
	}
	switch {
	case r.Offset >= s.end:
		return fmt.Sprintf("filler %t %s, where the source's log has ended at %d", filler, got, s.end)
	case e != nil && e.txn != nil && e.txn.reopened && (filler || e.text == got):
		return "" // the source has lost the marker alone, and decided otherwise since: consumers of it have seen the same
	case filler && e != nil && e.committed() && e.fate == kept:
		return "lost: filler in place of " + e.text
	case filler && e != nil && e.committed() && e.fate == deleted && w.plan.gapPolicy == "fail":
		return "filler in place of a record that was deleted before it was copied, and nobody was told"
	case filler:
		return ""
	case e == nil || e.text != got:
		return fmt.Sprintf("%s, which the source does not have there", got)
	case !e.committed():
		return fmt.Sprintf("%s, which was not committed", got)
	}
	return ""
}

var namesOffset = regexp.MustCompile(`offsets? \d+`)

// guarded says that no batch of the mirror may stand at a wrong offset in a partition.
func (w *world) guarded(d *destination) bool {
	return w.plan.ages == "fresh" && !d.forgot || w.plan.waitsOut()
}

// judge is the verdict on a partition once it is at rest: what happened to it, and an error where that must not be.
func (w *world) judge(i int) (outcome, error) {
	for _, c := range []*cluster{w.source, w.destination} {
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	s, d, reason := w.source.sources[i], w.destination.destinations[i], w.failed(i)
	wrong := w.wrong(i, d.end)
	w.counts.offsets.Add(d.end - d.start)
	rewritten := s.rewrittenFrom >= 0 && d.longest > s.rewrittenFrom
	switch failed := reason != ""; {
	case failed && !namesOffset.MatchString(reason):
		return falseAlarm, fmt.Errorf("it is FAILED without an offset: %s", reason)
	case len(wrong) > 0 && !failed:
		return undetected, fmt.Errorf("it is MIRRORING, and wrong: %s", several(wrong))
	case len(wrong) > 0 && (rewritten || d.foreign >= 0):
		return loud, nil
	case len(wrong) > 0 && !w.guarded(d):
		w.counts.shifted.Add(1)
		return detected, nil
	case failed && d.holdsShifted() && !w.guarded(d): // filler over a hole of the source: nothing is lost, but that is not known
		return detected, nil
	case len(wrong) > 0:
		return undetected, fmt.Errorf("wrong though that is guarded against: %s (FAILED: %s)", several(wrong), reason)
	case !failed:
		return equal, nil
	case strings.Contains(reason, "has a gap") && s.start > d.end, rewritten, d.foreign >= 0, d.lostShifted: // seen, and then lost
		return loud, nil
	case len(w.states) > 1 && strings.Contains(reason, "holds no records and ends at"):
		return loud, nil // it is the other one that has written and deleted, which this one's state cannot know
	}
	return falseAlarm, fmt.Errorf("nothing is wrong, but it is FAILED: %s", reason)
}

// holdsShifted says that a batch of the mirror stands at another offset than its own.
func (d *destination) holdsShifted() bool {
	for _, b := range d.batches {
		if batch.OfMirror(b.raw) && b.raw.BaseSequence() != batch.SequenceOf(b.base) {
			return true
		}
	}
	return false
}

func several(wrong []string) string {
	if len(wrong) > 8 {
		return strings.Join(wrong[:8], "; ") + fmt.Sprintf("; and %d more", len(wrong)-8)
	}
	return strings.Join(wrong, "; ")
}

// runCase runs one case in a bubble of virtual time, and returns what is wrong with it.
func runCase(t *testing.T, p *plan, counts *counts) (failure string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, p, counts)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.expireProducers(ctx)
		failure = w.play()
		w.stop()
		if failure == "" {
			failure = w.destination.defied
		}
		for _, o := range w.all {
			if failure == "" && o.defied.Load() {
				failure = o.name + " has written to a mirror topic without the lease"
			}
		}
		if failure != "" {
			failure = fmt.Sprintf("%s\nseed %d, plan %v\n%s", failure, p.seed, p, strings.Join(w.journal.lines, "\n"))
		}
	})
	return failure
}

func (w *world) play() string {
	for _, s := range w.plan.steps {
		time.Sleep(s.pause)
		w.take(s)
	}
	w.calm()
	if w.plan.remove {
		return w.handOverToUsers()
	}
	if err := w.awaitRest(); err != nil {
		return "it does not come to rest: " + err.Error()
	}
	if w.plan.has(loseTail) { // also while nothing is written
		for i := range w.plan.partitions {
			w.take(step{what: loseTail, partition: i, random: w.plan.seed})
		}
		if err := w.awaitRest(); err != nil {
			return "it does not come to rest after the destination lost its tail: " + err.Error()
		}
	}
	// What is still under way arrives; the record after it shows where it stands.
	time.Sleep(clientGivesUp + ambiguousWait)
	for i := range w.plan.partitions {
		w.take(step{what: appendRecords, partition: i, random: 1})
	}
	if err := w.awaitRest(); err != nil {
		return "it does not come to rest after another record: " + err.Error()
	}
	for i := range w.plan.partitions {
		outcome, err := w.judge(i)
		w.counts.outcomes[outcome].Add(1)
		if err != nil {
			return fmt.Sprintf("partition %d: %v", i, err)
		}
	}
	return ""
}
