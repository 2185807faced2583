package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"kafka-mirror-proxy/replicate"
)

// plan is a case: all that its seed decides beforehand.
type plan struct {
	seed       uint64
	partitions int
	start      int64  // where the logs begin
	preset     bool   // the destination begins there, too, as if copied so far
	ages       string // of the records: fresh (within the producer expiry), old, mixed
	owners     string // one, takeover (one stands by), both (two that believe to own the mirrors)
	gapPolicy  string // fail, skip
	acks       string // mirror.produce.acks
	raise      bool   // mirror.produce.raise-producer-expiration
	remove     bool   // in the end the topic is removed from the mirror, and users write to it
	dies       bool   // the owner dies just before that
	checkEvery time.Duration
	trouble    trouble // of the destination; the source's requests are cut and slow at half the rate
	stateFails bool
	lag        time.Duration // of the destination's followers
	latency    time.Duration
	settings   [2]replicate.Settings
	steps      []step
}

// step is one thing that happens after a pause.
type step struct {
	pause     time.Duration
	what      action
	partition int
	random    uint64 // of what it does in particular
}

type action string

const (
	appendRecords action = "append"
	appendMany    action = "append many"
	transact      action = "append in a transaction"
	endTxn        action = "end a transaction"
	compact       action = "compact the source"
	expire        action = "delete records of the source"
	truncate      action = "truncate the source (unclean election)"
	moveSource    action = "move the source's leader"
	moveLeader    action = "move the destination's leader"
	loseTail      action = "unclean election on the destination"
	foreign       action = "write to the destination around the mirror"
	stall         action = "stall a destination broker"
	freeze        action = "freeze an owner"
	kill          action = "kill an owner"
	restart       action = "stop an owner cleanly"
	pauseTopic    action = "pause the topic for a while"
)

// choose draws one of the options.
func choose[T any](r *rand.Rand, options ...T) T { return options[r.IntN(len(options))] }

func newPlan(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 0x51))
	p := &plan{
		seed: seed, partitions: choose(r, 1, 1, 2), start: choose[int64](r, 0, 0, 0, 57, 1<<31-40), ages: choose(r, "fresh", "fresh", "old", "mixed"),
		owners: choose(r, "one", "takeover", "both"), gapPolicy: choose(r, "fail", "skip"), acks: choose(r, "all", "all", "1"), raise: r.IntN(6) == 0,
		checkEvery: choose(r, time.Second, 20*time.Second, 10*time.Minute), stateFails: r.IntN(5) == 0,
		lag: choose(r, 0, 30*time.Millisecond, time.Second), latency: choose(r, time.Millisecond, 20*time.Millisecond),
	}
	p.remove = p.owners != "both" && p.partitions == 1 && r.IntN(3) == 0
	p.dies = p.remove && r.IntN(2) == 0
	p.preset = p.start > 1000 || r.IntN(8) == 0
	rate := func(most int) int { return choose(r, 0, 0, most/10, most) }
	p.trouble = trouble{cut: rate(20), slow: rate(20), lost: rate(60), unanswered: rate(120), late: rate(60), abandoned: rate(60), refused: rate(60), stuck: rate(40)}
	for i := range p.settings {
		p.settings[i] = replicate.Settings{
			Backoff: 200 * time.Millisecond, BackoffMax: 5 * time.Second, FetchWait: choose(r, 500*time.Millisecond, 5*time.Second),
			FetchPartitionBytes: choose[int32](r, 1, 2000, 1<<20), FetchBytes: choose[int32](r, 4000, 10<<20), QueueBytes: choose(r, 3000, 2<<20),
			ConnectionsPerBroker: choose(r, 1, 2), RequestBytes: choose(r, 1000, 4<<20),
		}
	}
	menu := p.menu(r)
	for range 20 + r.IntN(50) {
		pause := time.Duration(r.Int64N(int64(400 * time.Millisecond)))
		switch r.IntN(16) {
		case 0:
			pause = time.Duration(r.Int64N(int64(40 * time.Second)))
		case 1, 2:
			pause = time.Duration(r.Int64N(int64(5 * time.Second)))
		}
		p.steps = append(p.steps, step{pause: pause, what: menu[r.IntN(len(menu))], partition: r.IntN(p.partitions), random: r.Uint64()})
	}
	return p
}

// menu is the actions of a case, each as many times as it is likely.
func (p *plan) menu(r *rand.Rand) []action {
	var menu []action
	add := func(n int, what ...action) {
		for range n {
			menu = append(menu, what...)
		}
	}
	add(30, appendRecords)
	add(6, appendMany)
	add(choose(r, 0, 6), transact, endTxn)
	add(choose(r, 0, 0, 5), compact)
	add(choose(r, 0, 0, 3), expire)
	add(choose(r, 0, 0, 0, 2), truncate)
	add(choose(r, 0, 2), moveSource)
	add(choose(r, 0, 1, 4), moveLeader)
	add(choose(r, 0, 0, 0, 2), loseTail)
	add(choose(r, 0, 0, 0, 0, 0, 0, 1), foreign)
	add(choose(r, 0, 0, 2), stall)
	add(choose(r, 0, 3), freeze)
	add(choose(r, 0, 2), kill)
	add(choose(r, 0, 1), restart, pauseTopic)
	return menu
}

func (p *plan) has(what action) bool {
	for _, s := range p.steps {
		if s.what == what {
			return true
		}
	}
	return false
}

// waitsOut says that nothing of a process that has ended is under way for longer than mirror.produce.ambiguous.wait.ms, and
// that the log does not become shorter meanwhile: then no batch may ever stand at a wrong offset, whatever the brokers remember.
func (p *plan) waitsOut() bool {
	return (p.owners == "one" || p.owners == "takeover" && !p.has(freeze)) && !p.has(loseTail)
}

func (p *plan) String() string {
	var b strings.Builder
	shown := *p
	shown.steps = nil
	fmt.Fprintf(&b, "%+v\n", shown)
	for _, s := range p.steps {
		fmt.Fprintf(&b, "  +%v: %s, partition %d\n", s.pause.Round(time.Millisecond), s.what, s.partition)
	}
	return b.String()
}
