package replicate

import (
	"testing"
	"time"

	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

func TestDoubt(t *testing.T) {
	const wait = 30 * time.Second
	begun := time.Now()
	at := func(d time.Duration) time.Time { return begun.Add(d) }
	found := func(leader int32, checked time.Duration, guarded time.Duration) *produce.Start {
		start := &produce.Start{GuardedUntilMs: at(guarded).UnixMilli()}
		start.Leader.ID, start.CheckedAt = leader, at(checked)
		return start
	}
	type look struct {
		leader           int32
		now, guardedFor  time.Duration
		rest             time.Duration // without the millisecond
		write, stillOpen bool
	}
	for _, test := range []struct {
		name  string
		doubt doubt
		looks []look
	}{
		{"nothing under way", doubt{}, []look{{1, 0, 0, 0, true, false}}},
		{"guarded", doubt{open: true}, []look{{1, 0, time.Hour, 0, true, true}, {1, 31 * time.Second, time.Hour, 0, true, false}}},
		{"guarded for too short", doubt{open: true}, []look{{1, 0, wait, wait, false, true}}},
		{"not guarded", doubt{open: true}, []look{
			{1, 0, 0, wait, false, true}, {1, 10 * time.Second, 0, 20 * time.Second, false, true}, {1, 30 * time.Second, 0, 0, false, true}, {1, 31 * time.Second, 0, 0, true, false},
		}},
		{"the next batch would end the guard", doubt{open: true, unguarded: true}, []look{{1, 0, time.Hour, wait, false, true}, {1, 31 * time.Second, time.Hour, 0, true, false}}},
		{"another leader", doubt{open: true}, []look{{1, 0, 0, wait, false, true}, {2, 40 * time.Second, 0, wait, false, true}, {2, 71 * time.Second, 0, 0, true, false}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := test.doubt
			for i, l := range test.looks {
				rest, write := d.look(found(l.leader, l.now, l.guardedFor), at(l.now), wait)
				if want := l.rest; write != l.write || d.open != l.stillOpen || (!write && rest != want+time.Millisecond) {
					t.Errorf("look %d: rest %v, write %t, %+v; want %+v", i, rest, write, d, l)
				}
			}
		})
	}
	d := doubt{open: true, until: at(time.Second), leader: 1, unguarded: true}
	if d.begins(); !d.open || !d.until.IsZero() || !d.unguarded {
		t.Errorf("a new doubt while one is open: %+v", d)
	}
}

// A fake destination tells nothing of producers, so that nothing is guarded there. An answer is lost, and an owner dies
// with offsets reserved: both times the mirror writes nothing until the broker has answered for a while.
func TestNothingIsWrittenWhileInDoubt(t *testing.T) {
	const topic, wait = "doubtful", time.Second
	r, _, _ := fakeRig(t)
	r.do(state.AlterMirror{Name: "m", Set: map[string]string{"mirror.produce.ambiguous.wait.ms": "1000"}})
	log := &produceLog{dial: r.clusters.dial}
	r.clusters.dial = log.Dial
	r.createTopic(topic, 1, nil)
	r.produce(topic, 0, 0, 10, nil)
	r.start()
	id := r.add(topic, 1)
	r.awaitCaughtUp(topic, 1)
	r.awaitStatus(id, 1, state.Mirroring)

	log.loseAnswer.Store(true)
	r.produce(topic, 0, 10, 10, nil)
	testenv.Eventually(t, patience, "an answer to be lost", func() error {
		if log.loseAnswer.Load() {
			return errCut
		}
		return nil
	})
	lost := time.Unix(0, log.lostAtNs.Load()) // not now: the wait began there
	r.produce(topic, 0, 20, 10, nil)
	r.awaitCaughtUp(topic, 1)
	if took := time.Since(lost); took < wait {
		t.Errorf("the mirror went on %v after the loss, want %v at least", took, wait)
	}

	r.crash()
	r.produce(topic, 0, 30, 10, nil)
	begun := time.Now()
	r.start()
	r.awaitCaughtUp(topic, 1)
	if took := time.Since(begun); took < wait {
		t.Errorf("the next owner wrote after %v, want %v at least", took, wait)
	}

	r.compare(topic, 1)
}

// After a clean stop nothing is in doubt.
func TestNoWaitAfterACleanStop(t *testing.T) {
	r, _, _ := fakeRig(t)
	r.do(state.AlterMirror{Name: "m", Set: map[string]string{"mirror.produce.ambiguous.wait.ms": "3600000"}})
	r.createTopic("clean", 1, nil)
	r.produce("clean", 0, 0, 10, nil)
	r.start()
	r.add("clean", 1)
	r.awaitCaughtUp("clean", 1)
	r.stop()
	r.store.generation.Add(1)
	r.produce("clean", 0, 10, 10, nil)
	r.start()
	r.awaitCaughtUp("clean", 1)
}
