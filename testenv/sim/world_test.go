package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/state"
)

const (
	topicName  = "orders"
	expiration = 24 * time.Hour
	// standbyWaits is how long a standby hears nothing before it takes over.
	standbyWaits = 8 * time.Second
	// ambiguousWait is mirror.produce.ambiguous.wait.ms, and longer than anything is under way.
	ambiguousWait = 30 * time.Second
)

var destinationID = state.TopicID{1}

// world is a case under way.
type world struct {
	t                   *testing.T
	plan                *plan
	counts              *counts
	journal             *journal
	source, destination *cluster
	states              []*ownership // one; or one for each of two that believe to own the mirrors
	owners              []*owner     // those that live; the first is the owner where there is one only
	all                 []*owner
	generation          int64
}

func newWorld(t *testing.T, p *plan, counts *counts) *world {
	r := rand.New(rand.NewPCG(p.seed, 0x77))
	w := &world{t: t, plan: p, counts: counts, journal: &journal{}}
	w.source = &cluster{name: "s", topicID: [16]byte{2}, configs: map[string]string{"cleanup.policy": "compact,delete", "delete.retention.ms": "86400000"}}
	w.destination = &cluster{name: "d", topicID: destinationID, configs: map[string]string{expirationConfig: strconv.FormatInt(expiration.Milliseconds(), 10), "max.message.bytes": "1048588"}}
	for i, c := range []*cluster{w.source, w.destination} {
		c.topic, c.brokers, c.latency, c.counts, c.wait = topicName, 2, p.latency, counts, ambiguousWait-time.Second
		c.random, c.stalled, c.conns, c.told = rand.New(rand.NewPCG(p.seed, uint64(10+i))), map[int32]time.Time{}, map[net.Conn]int32{}, map[told]int32{}
	}
	w.setTrouble(p.trouble)
	commands := []state.Command{
		state.CreateMirror{Name: "m", Configs: map[string]string{"bootstrap.servers": "s0:9092", "mirror.gap.policy": p.gapPolicy, "mirror.produce.acks": p.acks,
			"mirror.produce.raise-producer-expiration": strconv.FormatBool(p.raise), "mirror.produce.ambiguous.wait.ms": strconv.FormatInt(ambiguousWait.Milliseconds(), 10)}},
		state.AddTopic{Mirror: "m", Name: topicName, ID: destinationID, SourceID: w.source.topicID, Partitions: int32(p.partitions), Engine: "produce"},
		state.ConfirmTopic{ID: destinationID},
	}
	for i := range p.partitions {
		s := newSource(rand.New(rand.NewPCG(r.Uint64(), 1)), p.start)
		w.source.sources = append(w.source.sources, s)
		at := int64(0)
		if p.preset {
			at = p.start
			id := state.PartitionID{Topic: destinationID, Partition: int32(i)}
			commands = append(commands, state.SetProgress{Partition: id, Progress: state.Progress{FillToOffset: -1, ReservedOffset: -1, UncleanOffset: -1, CopiedOffset: at}})
		}
		d := newDestination(rand.New(rand.NewPCG(r.Uint64(), 2)), at, counts, w.destination.expirationMs)
		d.followerLag = p.lag
		w.destination.destinations = append(w.destination.destinations, d)
	}
	w.states = []*ownership{newOwnership(p.seed)}
	if p.owners == "both" {
		w.states = append(w.states, newOwnership(p.seed+1))
	}
	for _, s := range w.states {
		if err := s.Do(context.Background(), commands...); err != nil {
			t.Fatal(err)
		}
		w.addOwner(s).own(w.next())
	}
	if p.owners == "takeover" {
		w.addOwner(w.states[0])
	}
	return w
}

func (w *world) setTrouble(t trouble) {
	w.destination.mu.Lock()
	w.destination.trouble = t
	w.destination.mu.Unlock()
	w.source.mu.Lock()
	w.source.trouble = trouble{cut: t.cut / 2, slow: t.slow / 2}
	w.source.mu.Unlock()
}

func (w *world) next() int64 {
	w.generation++
	return w.generation
}

func (w *world) addOwner(shared *ownership) *owner {
	name := fmt.Sprintf("owner %d", len(w.all)+1)
	o := newOwner(w.t, name, shared, w.source, w.destination, w.plan.settings[len(w.all)%2], w.journal)
	o.faulty.Store(w.plan.stateFails)
	o.always = w.plan.owners == "both"
	w.owners, w.all = append(w.owners, o), append(w.all, o)
	return o
}

// remove takes an owner out of those that live.
func (w *world) remove(o *owner) {
	for i := range w.owners {
		if w.owners[i] == o {
			w.owners = append(w.owners[:i:i], w.owners[i+1:]...)
			return
		}
	}
}

// expireProducers is the brokers' check of the producers they remember, until ctx ends.
func (w *world) expireProducers(ctx context.Context) {
	ticker := time.NewTicker(w.plan.checkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.destination.mu.Lock()
			for _, d := range w.destination.destinations {
				d.forget(time.Now().UnixMilli())
			}
			w.destination.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// timestampMs draws the timestamp of a record.
func (w *world) timestampMs(r *rand.Rand) func() int64 {
	old := w.plan.ages == "old" || w.plan.ages == "mixed" && r.IntN(2) == 0
	base := time.Now().UnixMilli()
	if old {
		base = choose(r, base-40*expiration.Milliseconds(), base-2*expiration.Milliseconds(), 0, -1)
	}
	return func() int64 {
		if !old {
			return base - r.Int64N(10_000)
		}
		return base
	}
}

func (w *world) take(s step) {
	r := rand.New(rand.NewPCG(s.random, 5))
	w.journal.add("*** %s, partition %d", s.what, s.partition)
	switch s.what {
	case stall, moveLeader, loseTail, foreign:
		w.disturbDestination(s, r)
	case freeze:
		w.freeze(w.owners[r.IntN(len(w.owners))], r)
	case kill, restart:
		w.replace(w.owners[r.IntN(len(w.owners))], s.what, r)
	case pauseTopic:
		w.pause(time.Duration(r.Int64N(int64(20 * time.Second))))
	default:
		w.changeSource(s, r)
	}
}

func (w *world) changeSource(s step, r *rand.Rand) {
	w.source.mu.Lock()
	defer w.source.mu.Unlock()
	p := w.source.sources[s.partition]
	producer := r.Int64N(3)
	switch s.what {
	case appendRecords:
		p.append(1+r.IntN(12), -1, false, w.timestampMs(r))
	case appendMany:
		for range 5 + r.IntN(30) {
			p.append(1+r.IntN(12), choose(r, -1, 10+producer), false, w.timestampMs(r))
		}
	case transact:
		p.append(1+r.IntN(6), producer, true, w.timestampMs(r))
	case endTxn:
		if t := p.openTransaction(producer); t != nil {
			p.endTransaction(t, r.IntN(2) == 0, w.timestampMs(r)())
		}
	case compact:
		p.compact()
	case expire:
		if p.hw > p.start {
			p.deleteTo(p.start + 1 + r.Int64N(p.hw-p.start))
		}
	case truncate:
		was := p.end
		p.truncate(p.end-r.Int64N(min(p.end-p.start, 30)+1), 1-p.leader)
		if r.IntN(2) == 0 { // it goes on at once, and little of that is left to compare with
			for p.end <= was {
				p.append(1+r.IntN(6), -1, false, w.timestampMs(r))
			}
			for range 5 {
				p.compact()
			}
		}
	case moveSource:
		p.elect(1 - p.leader)
	}
}

func (w *world) disturbDestination(s step, r *rand.Rand) {
	c := w.destination
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.destinations[s.partition]
	switch s.what {
	case stall:
		c.stalled[d.leader] = time.Now().Add(time.Duration(r.Int64N(int64(40 * time.Second))))
	case moveLeader:
		if r.IntN(2) == 0 {
			c.cutAll(d.leader)
		}
		d.lose(d.hw, 1-d.leader, time.Now().UnixMilli())
		c.replicate(d, d.end)
	case loseTail:
		d.lose(d.hw-r.Int64N(40), 1-d.leader, time.Now().UnixMilli())
		c.replicate(d, d.end)
	case foreign:
		other := sourceBatch{base: d.end, last: d.end, producer: choose[int64](r, -1, 7), sequence: -1, baseMs: time.Now().UnixMilli(),
			records: []sourceRecord{{offset: d.end, timestampMs: time.Now().UnixMilli(), key: []byte("foreign"), value: []byte("foreign")}}}
		if other.producer >= 0 {
			other.sequence = 0
		}
		raw := batch.Batch(other.encode())
		batch.SetBaseOffset(raw, 0)
		if _, base, _, appended := d.append(raw); appended {
			if d.foreign < 0 || base < d.foreign {
				d.foreign = base
			}
			c.replicate(d, d.end)
		}
	}
}

// freeze stops a process for a while. Where another one stands by, that takes over when it has heard nothing for long.
func (w *world) freeze(o *owner, r *rand.Rand) {
	if r.IntN(2) == 0 { // in the middle of its work
		w.take(step{what: appendMany, random: r.Uint64()})
		time.Sleep(time.Duration(r.Int64N(int64(60 * time.Millisecond))))
	}
	o.gate.freeze()
	length := time.Duration(r.Int64N(int64(70 * time.Second)))
	if r.IntN(2) == 0 {
		length /= 10
	}
	if w.plan.owners != "takeover" || !o.holds.Load() || length < standbyWaits {
		time.AfterFunc(length, o.gate.thaw)
		return
	}
	time.AfterFunc(length, o.gate.thaw)
	time.Sleep(standbyWaits)
	w.handOver(o)
}

// handOver makes a standby the owner.
func (w *world) handOver(from *owner) {
	for _, o := range w.owners {
		if o != from {
			from.own(0)
			o.own(w.next())
			w.journal.add("*** %s takes over with generation %d", o.name, w.generation)
			return
		}
	}
}

// replace ends a process and starts another one.
func (w *world) replace(o *owner, how action, r *rand.Rand) {
	held := o.holds.Load()
	if how == kill {
		o.gate.kill()
		o.cancel()
	} else if err := o.stop(); err != nil {
		w.t.Error(err)
	} else {
		o.done <- nil
	}
	o.holds.Store(false)
	w.remove(o)
	if held && how == kill && w.plan.owners != "both" {
		time.Sleep(standbyWaits + time.Duration(r.Int64N(int64(4*time.Second))))
	}
	if held && w.plan.owners == "takeover" {
		w.owners[0].own(w.next())
		held = false
	}
	if fresh := w.addOwner(o.shared); held {
		fresh.own(w.next())
	}
}

// pause pauses the topic, and resumes it.
func (w *world) pause(length time.Duration) {
	for _, command := range []state.Command{state.PauseTopic{Mirror: "m", Name: topicName}, state.ResumeTopic{Mirror: "m", Name: topicName}} {
		for _, s := range w.states {
			if err := s.Do(context.Background(), command); err != nil {
				w.journal.add("*** %T: %v", command, err)
			}
		}
		time.Sleep(length)
	}
}

// partitions is what the state holds of a partition; each state where there are two.
func (w *world) partitions(i int) []state.Partition {
	var all []state.Partition
	for _, s := range w.states {
		all = append(all, s.View().Partition(state.PartitionID{Topic: destinationID, Partition: int32(i)}))
	}
	return all
}

// calm ends all trouble.
func (w *world) calm() {
	w.journal.add("*** calm")
	w.setTrouble(trouble{})
	for _, o := range w.owners {
		o.gate.thaw()
		o.faulty.Store(false)
	}
	w.destination.mu.Lock()
	clear(w.destination.stalled)
	for _, d := range w.destination.destinations {
		w.destination.replicate(d, d.end)
	}
	w.destination.mu.Unlock()
	w.source.mu.Lock()
	for _, s := range w.source.sources {
		s.endTransactions(time.Now().UnixMilli())
	}
	w.source.mu.Unlock()
}

// stop ends everything.
func (w *world) stop() {
	for _, o := range w.owners {
		if err := o.stop(); err != nil {
			w.t.Error(err)
		}
	}
	for _, o := range w.all {
		if !slices.Contains(w.owners, o) {
			<-o.done
		}
	}
	w.source.close()
	w.destination.close()
}
