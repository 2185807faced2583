package acceptance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/testenv"
)

// How much TestExactLogs does. Plans run side by side as topics of one mirror.
const (
	exactShortLogs = 8
	exactLongLogs  = 200
	exactParallel  = 12
	exactPatience  = 4 * time.Minute  // for one thing that is waited for
	exactFailed    = 20 * time.Second // a partition that is FAILED so long is not retried into order any more
	exactShrinking = 4 * time.Minute  // for the search of a smaller plan
)

// TestExactLogs is the promise: whatever a source log holds and whatever happens to it, its mirror holds the same records at
// the same offsets. Random logs are written and compacted, cut and aborted while they are mirrored and while the proxy is
// killed at random moments; then verify and consumers of both isolation levels must see, by way of the proxy, exactly the
// committed records of the source, and come to the end of the log. KMP_LONG=1 runs 200 logs of a seed of the day or
// KMP_SEED, else a fixed few are run. A failed log is run again by itself, and cut down as far as it still fails.
func TestExactLogs(t *testing.T) {
	seed, logs := uint64(1), exactShortLogs
	if long() {
		seed, logs = uint64(time.Now().UnixNano()), exactLongLogs
	}
	if given := os.Getenv("KMP_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("KMP_SEED: %v", err)
		}
	}
	t.Logf("KMP_SEED=%d", seed)
	var plans []exactPlan
	for n := range uint64(logs) {
		plans = append(plans, newExactPlan(seed, n))
	}
	r := &exactRun{t: t, mirror: uniqueName("exact"), random: rand.New(rand.NewPCG(seed, 1<<32)), proxy: startProxy(t)}
	// The source deletes records that are not copied yet; and a proxy that is killed is soon followed by the next, which must not
	// wait longer than it lives (a killed process has nothing under way for long).
	r.proxy.CreateMirror(r.mirror, "mirror.gap.policy=skip", "mirror.produce.ambiguous.wait.ms=1000")
	defer r.proxy.DropMirror(r.mirror)
	kills := 1
	if long() {
		kills = math.MaxInt
	}
	failures := r.run(plans, kills)
	t.Logf("%d logs: %d failed, %d kills", len(plans), len(failures), r.kills)
	for _, f := range failures {
		t.Errorf("%v\n%v", f.plan, f.err)
	}
	if len(failures) > 0 {
		r.shrink(failures[0])
	}
}

// exactFailure is a plan whose mirror is not as its source.
type exactFailure struct {
	plan exactPlan
	err  error
}

// exactRun is a proxy and a mirror for many plans.
type exactRun struct {
	t      *testing.T
	proxy  *proxy
	mirror string
	random *rand.Rand
	runs   int
	kills  int

	mu      sync.Mutex
	rows    []partitionRow
	looked  time.Time
	failing map[string]time.Time // since when a topic shows FAILED
}

// run runs plans and returns those that failed.
func (r *exactRun) run(plans []exactPlan, kills int) []exactFailure {
	t := r.t
	r.runs++
	r.failing = map[string]time.Time{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := time.Now()
	results := make([]error, len(plans))
	done := make(chan struct{})
	go func() {
		defer close(done)
		var group sync.WaitGroup
		slots := make(chan struct{}, exactParallel)
		for i, plan := range plans {
			slots <- struct{}{}
			group.Go(func() {
				defer func() { <-slots }()
				results[i] = errors.New("it did not come to an end")
				results[i] = r.one(ctx, plan, r.topic(plan))
			})
		}
		group.Wait()
	}()
	r.killUntil(done, kills)
	<-done
	t.Logf("%d logs are mirrored after %v", len(plans), time.Since(began).Round(time.Millisecond))
	failures := r.check(plans, results)
	t.Logf("%d logs are compared after %v", len(plans), time.Since(began).Round(time.Millisecond))
	return failures
}

// killUntil kills the proxy again and again, each time after it was the owner of the mirrors for a while.
func (r *exactRun) killUntil(done <-chan struct{}, kills int) {
	for range kills {
		testenv.Eventually(r.t, mirrorTimeout, "the proxy to own the mirrors", func() error {
			text, err := r.proxy.get("metrics")
			if err == nil && !strings.Contains(text, "\nkafka_mirror_proxy_owner 1\n") {
				err = errors.New("it does not own them")
			}
			return err
		})
		most := 3_000
		if r.random.IntN(2) == 0 {
			most = 25_000
		}
		select {
		case <-done:
			return
		case <-time.After(time.Duration(r.random.IntN(most)) * time.Millisecond):
			r.kills++
			r.proxy.Kill9()
			r.proxy.Restart()
		}
	}
}

func (r *exactRun) topic(plan exactPlan) string {
	return fmt.Sprintf("%s-%s-%d", r.mirror, plan.name, r.runs)
}

// one writes a log and has it mirrored up to its end.
func (r *exactRun) one(ctx context.Context, plan exactPlan, topic string) error {
	k := source.Kafka(r.t)
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Bootstrap()...), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	direct, err := kgo.NewClient(kgo.SeedBrokers(destination.Kafka(r.t).Bootstrap()...), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer direct.Close()
	l := &exactLog{plan: plan, topic: topic, seeds: k.Bootstrap(), admin: kadm.NewClient(client)}
	copied := &exactLog{plan: plan, topic: topic, admin: kadm.NewClient(direct)}
	if err := l.create(ctx); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	added, paused := false, false
	for i, s := range append(slices.Clone(plan.steps), exactStep{closeTxn, 0}, exactStep{addTopic, 0}, exactStep{resumeTopic, 0}) {
		ctx, cancel := context.WithTimeout(ctx, exactPatience)
		switch s.kind {
		case addTopic:
			if plan.expire {
				err = l.close(ctx, true)
			}
			if !added && err == nil {
				err = r.tell(ctx, plan, topic, "--add", "MIRRORING")
				added = true
			}
		case pauseTopic:
			if added && !paused {
				err = r.tell(ctx, plan, topic, "--pause", "PAUSED")
				paused = true
			}
		case resumeTopic:
			if paused {
				err = r.tell(ctx, plan, topic, "--resume", "MIRRORING")
				paused = false
			}
		case compactLog:
			if plan.compacted() {
				err = l.compact(ctx, checkpointFile(k.LogDir(1)))
			}
		case deleteRecords:
			if plan.policy != "compact" { // where the broker refuses
				err = l.delete(ctx, s.random())
			}
		default:
			err = l.write(ctx, s)
		}
		cancel()
		if err != nil {
			return fmt.Errorf("step %d, %s: %w", i, s.kind, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, exactPatience)
	defer cancel()
	return r.awaitCopied(ctx, l, copied)
}

// awaitCopied waits until the destination has all of the source: its markers are written by then.
func (r *exactRun) awaitCopied(ctx context.Context, l, copied *exactLog) error {
	for {
		stable, err := l.stableEnds(ctx)
		want, wantErr := l.ends(ctx)
		got, gotErr := copied.ends(ctx)
		if err = errors.Join(err, wantErr, gotErr); err == nil && slices.Equal(stable, want) && slices.Equal(got, want) {
			return nil
		}
		if err := r.failed(l.topic); err != nil {
			return err
		}
		if ctx.Err() != nil || exactPause(ctx) != nil {
			return fmt.Errorf("the destination ends at %v, the source at %v and %v: %w: %+v", got, stable, want, errors.Join(err, ctx.Err()), r.describe(l.topic))
		}
	}
}

// tell has the tool say something of a topic until it shows: all its rows in the state. Whether an answer that did not come
// was a yes, the next one tells.
func (r *exactRun) tell(ctx context.Context, plan exactPlan, topic, action, state string) error {
	var said result
	for looks := 0; ; looks++ {
		if looks%100 == 0 || said.exit != 0 && looks%20 == 0 {
			said = r.proxy.Mirrors(action, "--mirror", r.mirror, "--topic", topic)
		}
		rows := r.describe(topic)
		good := len(rows) == plan.partitions
		for _, row := range rows {
			good = good && row.State == state
		}
		if good {
			return nil
		}
		if err := r.failed(topic); err != nil {
			return err
		}
		if err := exactPause(ctx); err != nil {
			return fmt.Errorf("%s does not bring %s: %+v: %v: %w", action, state, rows, said, err)
		}
	}
}

// describe are the rows of a topic, not older than a second. A proxy that is away has none.
func (r *exactRun) describe(topic string) (rows []partitionRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.looked) > time.Second {
		r.rows, _ = r.proxy.Describe(r.mirror)
		r.looked = time.Now()
		now := map[string]time.Time{}
		for _, row := range r.rows {
			if row.State == "FAILED" {
				if now[row.Topic] = r.failing[row.Topic]; now[row.Topic].IsZero() {
					now[row.Topic] = r.looked
				}
			}
		}
		r.failing = now
	}
	for _, row := range r.rows {
		if row.Topic == topic {
			rows = append(rows, row)
		}
	}
	return rows
}

// failed is the reason of a partition that has been FAILED for long.
func (r *exactRun) failed(topic string) error {
	for _, row := range r.describe(topic) {
		r.mu.Lock()
		since := r.failing[topic]
		r.mu.Unlock()
		if row.State == "FAILED" && !since.IsZero() && time.Since(since) > exactFailed {
			return fmt.Errorf("partition %d is FAILED: %s", row.Partition, row.ErrorMessage)
		}
	}
	return nil
}

// shrink looks for a smaller plan that fails too, without kills.
func (r *exactRun) shrink(f exactFailure) {
	deadline, tries := time.Now().Add(exactShrinking), 0
	fails := func(p exactPlan) bool {
		tries++
		failures := r.run([]exactPlan{p}, 0)
		if len(failures) == 0 {
			return false
		}
		f = failures[0]
		return true
	}
	if !fails(f.plan) {
		r.t.Logf("%s did not fail again by itself", f.plan.name)
		return
	}
search:
	for {
		for _, smaller := range f.plan.shorter() {
			if time.Now().After(deadline) {
				break search
			}
			if fails(smaller) {
				continue search
			}
		}
		break
	}
	r.t.Errorf("the smallest of %d tries that fails:\n%v\n%v", tries, f.plan, f.err)
}

// check compares all topics whose mirroring came to its end.
func (r *exactRun) check(plans []exactPlan, results []error) (failures []exactFailure) {
	t := r.t
	var topics []string
	byTopic := map[string]exactPlan{}
	for i, plan := range plans {
		if results[i] != nil {
			failures = append(failures, exactFailure{plan, results[i]})
			continue
		}
		topics = append(topics, r.topic(plan))
		byTopic[r.topic(plan)] = plan
	}
	if len(topics) == 0 {
		return failures
	}
	found := map[string]error{}
	for topic, err := range r.verify(topics) {
		found[topic] = errors.Join(found[topic], err)
	}
	original := readExact(t, source.Kafka(t).Bootstrap(), topics, kgo.ReadCommitted(), found)
	for isolation, level := range map[string]kgo.IsolationLevel{"read_committed": kgo.ReadCommitted(), "read_uncommitted": kgo.ReadUncommitted()} {
		copied := readExact(t, r.proxy.Bootstrap(), topics, level, found)
		for _, topic := range topics {
			for partition := range byTopic[topic].partitions {
				if text := original.difference(copied, exactPartition{topic, int32(partition)}, byTopic[topic].compacted()); text != "" {
					found[topic] = errors.Join(found[topic], fmt.Errorf("partition %d, %s by way of the proxy: %s", partition, isolation, text))
				}
			}
		}
	}
	compareListedOffsets(r, original, byTopic, found)
	for _, topic := range topics {
		if found[topic] != nil {
			failures = append(failures, exactFailure{byTopic[topic], found[topic]})
		}
	}
	return failures
}

// verify runs the command by way of the proxy.
func (r *exactRun) verify(topics []string) map[string]error {
	t := r.t
	found := map[string]error{}
	report := runVerify(t, source.Kafka(t).Bootstrap(), r.proxy.Bootstrap(), topics...)
	for _, p := range report.Partitions {
		if p.Difference != "" {
			found[p.Topic] = errors.Join(found[p.Topic], fmt.Errorf("verify: partition %d: %s", p.Partition, p.Difference))
		}
	}
	direct := runVerify(t, source.Kafka(t).Bootstrap(), destination.Kafka(t).Bootstrap(), topics...)
	var records, filler, lone, identical, batches int64
	for _, p := range direct.Partitions {
		if p.Difference != "" {
			found[p.Topic] = errors.Join(found[p.Topic], fmt.Errorf("verify around the proxy: partition %d: %s", p.Partition, p.Difference))
		}
		records, filler, lone = records+p.Records, filler+p.Batches.Filler, lone+p.OneSided
		identical, batches = identical+p.Batches.Identical, batches+p.Batches.Source
	}
	t.Logf("verify: %d equal records in %d partitions, %d offsets of filler, %d records compacted away on one side, %d of %d batches identical",
		records, len(direct.Partitions), filler, lone, identical, batches)
	return found
}
