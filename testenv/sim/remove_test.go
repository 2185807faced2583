package sim

import (
	"context"
	"fmt"
	"time"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/state"
)

// handOverToUsers removes the topic from the mirror, lets users write once it is STOPPED, and says what is wrong then:
// nothing of the mirror may come behind a user's record, however late.
func (w *world) handOverToUsers() string {
	w.journal.add("*** remove the topic")
	if w.plan.dies {
		w.dieWriting()
	}
	if err := w.states[0].Do(context.Background(), state.RemoveTopic{Mirror: "m", Name: topicName}); err != nil {
		return err.Error()
	}
	if w.plan.dies {
		time.Sleep(standbyWaits)
		if w.plan.owners == "one" {
			w.addOwner(w.states[0])
		}
		w.owners[0].own(w.next())
	}
	p := w.partitions(0)[0]
	for begun := time.Now(); p.Status != state.Stopped; p = w.partitions(0)[0] {
		if time.Since(begun) > settled {
			return fmt.Sprintf("it is not STOPPED: %v %s", p.Status, p.Error)
		}
		time.Sleep(100 * time.Millisecond)
	}
	first := w.user()
	for range 5 {
		time.Sleep((clientGivesUp + ambiguousWait) / 5)
		w.user()
	}
	w.counts.stopped.Add(1)
	for _, c := range []*cluster{w.source, w.destination} {
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	s, d := w.source.sources[0], w.destination.destinations[0]
	for _, b := range d.batches {
		if b.base >= first && batch.OfMirror(b.raw) {
			return fmt.Sprintf("the topic was STOPPED, a user's record stands at offset %d, and behind it a batch of the mirror at offset %d", first, b.base)
		}
	}
	if !w.guarded(d) || s.rewrittenFrom >= 0 || d.foreign >= 0 {
		return ""
	}
	if wrong := w.wrong(0, min(first, max(p.LastMirroredOffset, 0))); len(wrong) > 0 {
		return "STOPPED, and wrong: " + several(wrong)
	}
	return ""
}

// dieWriting kills the owner while a batch is under way that is appended later, behind what the log holds by now.
func (w *world) dieWriting() {
	w.setTrouble(trouble{abandoned: 1000})
	w.take(step{what: appendMany, random: w.plan.seed})
	time.Sleep(300 * time.Millisecond)
	w.setTrouble(trouble{})
	for _, o := range w.owners {
		if o.holds.Load() {
			o.gate.kill()
			o.cancel()
			o.own(0)
			w.remove(o)
			return
		}
	}
}

// user writes a record to the destination, as anybody may once the topic is STOPPED. It returns its offset.
func (w *world) user() int64 {
	c := w.destination
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.destinations[0]
	nowMs := time.Now().UnixMilli()
	b := sourceBatch{producer: -1, sequence: -1, baseMs: nowMs, records: []sourceRecord{{timestampMs: nowMs, value: []byte("a user's")}}}
	_, offset, _, _ := d.append(batch.Batch(b.encode()))
	c.replicate(d, d.end)
	return offset
}
