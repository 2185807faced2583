package acceptance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// exactKind is what one step does to a source log, or to its mirror.
type exactKind string

const (
	writePlain      exactKind = "plain"      // some batches without a producer id
	writeIdempotent exactKind = "idempotent" // some batches of an idempotent producer
	writeSmall      exactKind = "small"      // many batches of one record
	writeLarge      exactKind = "large"      // records of up to some 100 KB
	writeTxns       exactKind = "txns"       // transactions of two producers, interleaved, committed and aborted
	openTxn         exactKind = "open"       // a transaction that stays open
	closeTxn        exactKind = "close"      // until here, at the latest the end
	compactLog      exactKind = "compact"    // the cleaner runs over all that is there
	deleteRecords   exactKind = "delete"     // from the start of the log
	addTopic        exactKind = "add"        // to the mirror
	pauseTopic      exactKind = "pause"
	resumeTopic     exactKind = "resume"
)

// exactStep takes all its choices from its own seed, so that it does the same whatever the others are: a plan can be cut.
type exactStep struct {
	kind exactKind
	seed uint64
}

func (s exactStep) random() *rand.Rand { return rand.New(rand.NewPCG(s.seed, 1)) }

// exactPlan is a random source log: what topic it is, and what happens to it in order. What cannot be done when its turn
// comes (a pause before the add) is left out; what must be done in the end (the add) is done.
type exactPlan struct {
	name       string
	partitions int
	policy     string // cleanup.policy
	appendTime bool   // message.timestamp.type=LogAppendTime
	// expire: tombstones go at the cleaner's next look. Such a topic is added last, since a mirror that has not seen a
	// tombstone cannot know of it.
	expire bool
	steps  []exactStep
}

func (p exactPlan) compacted() bool { return strings.Contains(p.policy, "compact") }

// String says what to look for when it fails.
func (p exactPlan) String() string {
	var steps []string
	for _, s := range p.steps {
		steps = append(steps, fmt.Sprintf("%s(%d)", s.kind, s.seed))
	}
	return fmt.Sprintf("%s: %d partitions, %s, append time %t, expire %t: %s", p.name, p.partitions, p.policy, p.appendTime, p.expire, strings.Join(steps, " "))
}

// newExactPlan is the n-th random plan of a seed.
func newExactPlan(seed, n uint64) exactPlan {
	random := rand.New(rand.NewPCG(seed, n))
	p := exactPlan{name: fmt.Sprintf("log-%d-%d", seed, n), partitions: 1 + random.IntN(2), policy: "delete", appendTime: random.IntN(6) == 0}
	kinds := []exactKind{writePlain, writePlain, writeIdempotent, writeSmall, writeTxns, writeTxns, writeLarge, openTxn, closeTxn, deleteRecords}
	if random.IntN(2) == 0 {
		p.policy = []string{"compact", "compact,delete"}[random.IntN(2)]
		p.expire = random.IntN(3) == 0
		kinds = append(kinds, compactLog, compactLog, compactLog)
	}
	count := 2 + random.IntN(7)
	for range count {
		p.steps = append(p.steps, exactStep{kinds[random.IntN(len(kinds))], random.Uint64()})
	}
	insert := func(at int, kind exactKind) {
		p.steps = slices.Insert(p.steps, at, exactStep{kind, random.Uint64()})
	}
	if p.expire {
		insert(count, addTopic)
		return p
	}
	added := random.IntN(count + 1)
	insert(added, addTopic)
	if behind := len(p.steps) - added - 1; behind > 0 && random.IntN(2) == 0 {
		paused := added + 1 + random.IntN(behind)
		insert(paused, pauseTopic)
		insert(paused+1+random.IntN(len(p.steps)-paused), resumeTopic)
	}
	return p
}

// shorter are plans with less in them, the boldest cuts first.
func (p exactPlan) shorter() []exactPlan {
	var all []exactPlan
	for width := (len(p.steps) + 1) / 2; width > 0; width /= 2 {
		for at := 0; at+width <= len(p.steps); at += width {
			cut := p
			cut.steps = slices.Delete(slices.Clone(p.steps), at, at+width)
			all = append(all, cut)
		}
	}
	if p.partitions > 1 {
		one := p
		one.partitions = 1
		all = append(all, one)
	}
	return all
}
