package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/testenv"
)

// process is one Kafka store that runs, as in a proxy of its own. Its hook stands before each transaction of the owner.
type process struct {
	*Kafka
	end  context.CancelFunc
	done chan struct{}

	transactions atomic.Int64 // that the hook let pass
	hookMu       sync.Mutex
	frozen       chan struct{} // transactions wait for it to be closed, unless it is nil
	failure      error         // of the next transaction
	crashed      chan struct{} // closed: every transaction fails
}

// cluster is where a test's stores live.
type cluster struct {
	bootstrap []string
	// used: the cluster had mirrors in another test, so the first store of this one has to accept that they are gone.
	used bool
}

var fastConfig = KafkaConfig{
	Partitions: 6, HeartbeatInterval: 50 * time.Millisecond, LeaseDuration: 400 * time.Millisecond, TakeoverAfter: 1200 * time.Millisecond,
}

// start runs a store until the test ends.
func start(t *testing.T, c *cluster, instance string, change func(*KafkaConfig)) *process {
	t.Helper()
	return startChanged(t, c, instance, func(k *Kafka) {
		if change != nil {
			change(&k.cfg)
		}
	})
}

func startChanged(t *testing.T, c *cluster, instance string, change func(*Kafka)) *process {
	t.Helper()
	cfg := fastConfig
	cfg.Opts = []kgo.Opt{kgo.SeedBrokers(c.bootstrap...)}
	cfg.InstanceID, cfg.Address = instance, instance+":9094"
	cfg.AcceptMissing, c.used = c.used, false
	cfg.Log = zerolog.Nop()
	if testing.Verbose() {
		cfg.Log = zerolog.New(os.Stderr).With().Str("instance", instance).Timestamp().Logger()
	}
	k, err := OpenKafka(cfg)
	if err != nil {
		t.Fatal(err)
	}
	change(k)
	running, end := context.WithCancel(context.Background())
	p := &process{Kafka: k, end: end, done: make(chan struct{}), crashed: make(chan struct{})}
	k.beforeTransaction = p.hook
	go func() {
		defer close(p.done)
		_ = k.Run(running)
	}()
	t.Cleanup(p.stop)
	return p
}

func (p *process) hook(context.Context) error {
	p.hookMu.Lock()
	frozen, failure := p.frozen, p.failure
	p.failure = nil
	p.hookMu.Unlock()
	if frozen != nil {
		select {
		case <-frozen:
		case <-p.crashed:
		}
	}
	select {
	case <-p.crashed:
		return errors.New("crashed by the test")
	default:
	}
	p.transactions.Add(1)
	return failure
}

// stop ends the store as SIGTERM does, kill as SIGKILL does: nothing more is written.
func (p *process) stop() {
	p.thaw()
	p.end()
	<-p.done
}

func (p *process) kill() {
	close(p.crashed)
	p.end()
	<-p.done
}

// freeze blocks every transaction until thaw, as SIGSTOP does.
func (p *process) freeze() {
	p.hookMu.Lock()
	defer p.hookMu.Unlock()
	p.frozen = make(chan struct{})
}

func (p *process) thaw() {
	p.hookMu.Lock()
	defer p.hookMu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

func (p *process) failNext(err error) {
	p.hookMu.Lock()
	defer p.hookMu.Unlock()
	p.failure = err
}

const patience = 60 * time.Second

func (p *process) awaitOwner(t *testing.T) *process {
	t.Helper()
	testenv.Eventually(t, patience, p.cfg.InstanceID+" to own the mirrors", func() error {
		if p.Generation() == 0 || !p.Lease() {
			return fmt.Errorf("generation %d, lease %v, %s", p.Generation(), p.Lease(), p.Problem())
		}
		return nil
	})
	return p
}

func (p *process) awaitLoaded(t *testing.T, want bool) {
	t.Helper()
	testenv.Eventually(t, patience, fmt.Sprintf("Loaded of %s to be %v", p.cfg.InstanceID, want), func() error {
		if p.View().Loaded() != want {
			return fmt.Errorf("problem: %q", p.Problem())
		}
		return nil
	})
}

func (p *process) awaitMirror(t *testing.T, name string) {
	t.Helper()
	testenv.Eventually(t, patience, "mirror "+name, func() error {
		if _, ok := p.View().Mirror(name); !ok {
			return errors.New("not there")
		}
		return nil
	})
}

// fakeCluster is an in-process cluster of two brokers.
func fakeCluster(t *testing.T) *cluster {
	t.Helper()
	fake, err := testenv.StartFake(testenv.FakeConfig{Brokers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fake.Close() })
	return &cluster{bootstrap: fake.ListenAddrs()}
}

func TestKafkaOnFake(t *testing.T) {
	testStore(t, func(t *testing.T) Store {
		return start(t, fakeCluster(t), "a", nil).awaitOwner(t)
	})
	t.Run("Ownership", func(t *testing.T) {
		testOwnership(t, fakeCluster)
	})
}

func TestKafkaWithoutDestination(t *testing.T) {
	ports, err := testenv.ReservePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	defer ports.Close()
	p := start(t, &cluster{bootstrap: []string{ports.Addr(0)}}, "a", nil)
	awaitProblem(t, p, "refused")
	if err := p.Do(t.Context(), CreateMirror{Name: "m"}); code(err) != CodeNotLoaded || !strings.Contains(err.Error(), "refused") {
		t.Errorf("Do: %v", err)
	}
	if p.View().Loaded() || p.Lease() || p.Generation() != 0 {
		t.Error("a store without a destination claims to know something")
	}
}

// TestKafkaDestinationDies: the owner finds out, callers get an answer, and nothing hangs.
func TestKafkaDestinationDies(t *testing.T) {
	fake, err := testenv.StartFake(testenv.FakeConfig{Brokers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	a := startChanged(t, &cluster{bootstrap: fake.ListenAddrs()}, "a", func(k *Kafka) { k.transactionTimeout = time.Second }).awaitOwner(t)
	fake.Close()
	ended := make(chan error, 1)
	go func() { ended <- a.Do(context.Background(), CreateMirror{Name: "m"}) }()
	select {
	case err := <-ended:
		if !errors.Is(err, ErrOutcomeUnknown) && code(err) != CodeNotOwner {
			t.Errorf("Do: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Do hangs")
	}
	testenv.Eventually(t, patience, "the ownership to end", func() error {
		if a.Lease() || a.Generation() != 0 {
			return errors.New("it goes on")
		}
		return nil
	})
	if !a.View().Loaded() {
		t.Error("what is read-only was forgotten with the destination")
	}
}

func TestKafkaConfigIsChecked(t *testing.T) {
	for name, cfg := range map[string]KafkaConfig{
		"no instance id":           {},
		"negative partitions":      {InstanceID: "a", Partitions: -1},
		"lease below heartbeat":    {InstanceID: "a", HeartbeatInterval: 5 * time.Second},
		"take-over within a lease": {InstanceID: "a", TakeoverAfter: 3 * time.Second},
		"negative heartbeat":       {InstanceID: "a", HeartbeatInterval: -1},
		"negative replication":     {InstanceID: "a", ReplicationFactor: -1},
	} {
		if _, err := OpenKafka(cfg); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, err := OpenKafka(KafkaConfig{InstanceID: "a"}); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

// testOwnership is what several stores on one cluster have to do. Each call of cluster gives one without __mirror_state.
func testOwnership(t *testing.T, newCluster func(t *testing.T) *cluster) {
	t.Run("RestartKeepsState", func(t *testing.T) {
		c := newCluster(t)
		a := start(t, c, "a", nil).awaitOwner(t)
		fill(t, a)
		before := contents(a.View())
		generation := a.Generation()
		a.stop()
		if a.Lease() || a.Generation() != 0 {
			t.Error("a stopped store still owns the mirrors")
		}
		a = start(t, c, "a", nil).awaitOwner(t)
		if diff := diffContents(before, contents(a.View())); diff != "" {
			t.Error(diff)
		}
		if a.Generation() <= generation {
			t.Errorf("generation went from %d to %d", generation, a.Generation())
		}
		a.kill()
		a = start(t, c, "a", nil).awaitOwner(t)
		if diff := diffContents(before, contents(a.View())); diff != "" {
			t.Error("after a crash: " + diff)
		}
	})
	t.Run("StandbyFollowsAndRefuses", func(t *testing.T) {
		c := newCluster(t)
		a := start(t, c, "a", nil).awaitOwner(t)
		b := start(t, c, "b", nil)
		b.awaitLoaded(t, true)
		do(t, a, CreateMirror{Name: "m"})
		b.awaitMirror(t, "m")
		err := b.Do(t.Context(), CreateMirror{Name: "n"})
		if code(err) != CodeNotOwner || err.Error() != "The mirrors are owned by the proxy at a:9094; ask that one." {
			t.Errorf("Do on a standby: %v", err)
		}
		if b.Lease() || b.Generation() != 0 {
			t.Error("a standby has the lease")
		}
	})
	t.Run("CleanReleaseIsTakenAtOnce", func(t *testing.T) {
		c := newCluster(t)
		a := start(t, c, "a", nil).awaitOwner(t)
		never := func(c *KafkaConfig) { c.TakeoverAfter = time.Hour }
		b := start(t, c, "b", never)
		b.awaitLoaded(t, true)
		a.stop()
		b.awaitOwner(t)
	})
	t.Run("DeadOwnerIsReplaced", func(t *testing.T) {
		c := newCluster(t)
		a := start(t, c, "a", nil).awaitOwner(t)
		generation := a.Generation()
		b := start(t, c, "b", nil)
		b.awaitLoaded(t, true)
		a.kill()
		if a.Lease() {
			t.Error("a dead store has the lease")
		}
		b.awaitOwner(t)
		if b.Generation() <= generation {
			t.Errorf("generation went from %d to %d", generation, b.Generation())
		}
		do(t, b, CreateMirror{Name: "m"})
	})
	t.Run("LivingOwnerIsLeftAlone", func(t *testing.T) {
		c := newCluster(t)
		a := start(t, c, "a", nil).awaitOwner(t)
		b := start(t, c, "b", nil)
		b.awaitLoaded(t, true)
		first := a.transactions.Load()
		testenv.Eventually(t, patience, "heartbeats over more than the time after which b would take over", func() error {
			if b.Generation() != 0 {
				t.Fatal("b took over from a living owner")
			}
			if n := a.transactions.Load() - first; n < 40 {
				return fmt.Errorf("%d heartbeats", n)
			}
			return nil
		})
		do(t, a, CreateMirror{Name: "m"})
	})
	t.Run("StaleConclusionFencesNobody", func(t *testing.T) {
		a := start(t, newCluster(t), "a", nil).awaitOwner(t)
		generation := a.Generation()
		reader := a.ownership.Load().tail
		observed, _, moved := reader.lastOwner()
		receive(t, moved)
		// As a standby that was stopped with SIGSTOP would, which has missed heartbeats but not yet read that it did.
		testenv.Eventually(t, patience, "a heartbeat", func() error { return notErr(reader.checkOwner(observed)) })
		if o, err := a.takeOver(t.Context(), reader, observed); !errors.Is(err, errOwnerChanged) {
			t.Errorf("take-over on an old conclusion: %v, %v", o, err)
		}
		before := a.transactions.Load()
		testenv.Eventually(t, patience, "more heartbeats", func() error {
			if n := a.transactions.Load() - before; n < 5 {
				return fmt.Errorf("%d", n)
			}
			return nil
		})
		if a.Generation() != generation || !a.Lease() {
			t.Errorf("the owner of generation %d was disturbed: generation %d, lease %v", generation, a.Generation(), a.Lease())
		}
	})
	t.Run("FrozenOwnerIsFenced", func(t *testing.T) {
		c := newCluster(t)
		a := start(t, c, "a", nil).awaitOwner(t)
		b := start(t, c, "b", nil)
		b.awaitLoaded(t, true)
		a.freeze()
		late := make(chan error, 1)
		go func() { late <- a.Do(context.Background(), CreateMirror{Name: "late"}) }()
		b.awaitOwner(t)
		if a.Lease() {
			t.Fatal("two stores have the lease")
		}
		generation := b.Generation()
		do(t, b, CreateMirror{Name: "m"})
		a.thaw()
		if err := <-late; err == nil {
			t.Error("a fenced owner stored a change")
		}
		testenv.Eventually(t, patience, "a to give up", func() error {
			if a.Generation() != 0 {
				return errors.New("it still has a generation")
			}
			return nil
		})
		a.awaitMirror(t, "m")
		if err := a.Do(t.Context(), CreateMirror{Name: "n"}); code(err) != CodeNotOwner {
			t.Errorf("Do on a fenced owner: %v", err)
		}
		if b.Generation() != generation {
			t.Errorf("the rightful owner lost its generation %d to %d", generation, b.Generation())
		}
		do(t, b, CreateMirror{Name: "o"})
		if _, ok := b.View().Mirror("late"); ok {
			t.Error("the late change took effect")
		}
	})
	t.Run("OwnerComesBackAfterAFailedTransaction", func(t *testing.T) {
		c := newCluster(t)
		never := func(c *KafkaConfig) { c.TakeoverAfter = time.Hour }
		a := start(t, c, "a", never).awaitOwner(t)
		generation := a.Generation()
		a.failNext(errors.New("broken by the test"))
		testenv.Eventually(t, patience, "a new generation", func() error {
			if g := a.Generation(); g <= generation {
				return fmt.Errorf("generation %d", g)
			}
			return nil
		})
		do(t, a, CreateMirror{Name: "m"})
	})
	t.Run("DeletedTopicFailsClosed", func(t *testing.T) {
		c := newCluster(t)
		a := start(t, c, "a", nil).awaitOwner(t)
		do(t, a, CreateMirror{Name: "m"})
		deleteStateTopic(t, c.bootstrap)
		a.awaitLoaded(t, false)
		testenv.Eventually(t, patience, "the ownership to end", func() error {
			if a.Lease() || a.Generation() != 0 {
				return errors.New("it goes on")
			}
			return nil
		})
		if err := a.Do(t.Context(), CreateMirror{Name: "n"}); code(err) != CodeNotLoaded {
			t.Errorf("Do: %v", err)
		}
		b := start(t, c, "b", nil)
		awaitProblem(t, b, "had mirrors once")
		if b.View().Loaded() {
			t.Fatal("a lost state was taken as empty")
		}
		// Somebody makes the topic by hand: it is still not the state that was lost.
		createStateTopic(t, c.bootstrap, "compact")
		third := start(t, c, "c", nil)
		awaitProblem(t, third, "had mirrors once")
		d := start(t, c, "d", func(cfg *KafkaConfig) { cfg.AcceptMissing = true })
		for _, p := range []*process{a, b, third, d} { // it is a new log now, for all of them
			p.awaitLoaded(t, true)
			if n := len(p.View().Mirrors()); n != 0 {
				t.Errorf("%d mirrors in an accepted empty state", n)
			}
		}
	})
	t.Run("TopicThatIsNotCompactedIsRefused", func(t *testing.T) {
		c := newCluster(t)
		createStateTopic(t, c.bootstrap, "compact,delete")
		a := start(t, c, "a", nil)
		awaitProblem(t, a, "cleanup.policy=compact,delete")
		// It is kept from clients all the same, also from those that name it by its id.
		if _, ok := a.View().StateTopicID(); !ok || a.View().Loaded() {
			t.Errorf("the topic's id is known: %v, loaded: %v", ok, a.View().Loaded())
		}
	})
	t.Run("NewerRecordIsRefused", func(t *testing.T) {
		c := newCluster(t)
		a := start(t, c, "a", nil).awaitOwner(t)
		produceRaw(t, c.bootstrap, placePartition("m", 6), []byte("\x00\x64\x00\x01m"), []byte("\x00\x01\x00"))
		awaitProblem(t, a, "newer version of this proxy")
		a.awaitLoaded(t, false)
		if a.Lease() {
			t.Error("the lease was kept")
		}
	})
	t.Run("MorePartitionsAreRefused", func(t *testing.T) {
		c := newCluster(t)
		a := start(t, c, "a", nil).awaitOwner(t)
		fill(t, a)
		admin, done := adminClient(t, c.bootstrap)
		defer done()
		if _, err := admin.UpdatePartitions(t.Context(), 13, stateTopic); err != nil {
			t.Fatal(err)
		}
		awaitProblem(t, a, "number of partitions")
	})
}

func notErr(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return nil
}

// fill stores something of each kind.
func fill(t *testing.T, s Store) {
	t.Helper()
	value := "v"
	do(t, s,
		CreateMirror{Name: "m", Configs: map[string]string{"bootstrap.servers": "x:1", "k": ""}},
		CreateMirror{Name: "empty"},
		SetSourceCluster{"m", "cluster"},
		RememberSourceID{"later", TopicID{8}},
		KeepBrokerConfig{"unset", nil}, KeepBrokerConfig{"set", &value},
		AddTopic{Mirror: "m", Name: "t1", ID: TopicID{1}, SourceID: TopicID{2}, Partitions: 3, Engine: "produce", HandBack: map[string]*string{"a": nil, "b": &value}},
		ConfirmTopic{TopicID{1}},
		MovePartition{Partition: PartitionID{TopicID{1}, 2}, To: Failed, LastMirroredOffset: 7, Error: "why", Retriable: true, Attempt: 3},
		SetProgress{PartitionID{TopicID{1}, 0}, Progress{1, 2, 3, 4, 7, []EpochRun{{5, 6}}, 8, Skipped{1, 2, 3, "s"}}},
		AddTopic{Mirror: "m", Name: "t2", ID: TopicID{3}, Partitions: 1},
	)
}

// content is what a view shows, in a form that can be compared.
type content struct {
	Mirrors    []*Mirror
	Topics     []*Topic
	Partitions map[string]Partition
	Progress   map[string]Progress
	ReadOnly   []string
	SourceIDs  map[string]TopicID
	Former     map[TopicID]string
	Fillers    uint64
	Configs    map[string]*string
}

func contents(v *View) content {
	c := content{Mirrors: v.Mirrors(), Partitions: map[string]Partition{}, Progress: map[string]Progress{}, SourceIDs: map[string]TopicID{},
		Former: map[TopicID]string{}, Fillers: v.Fillers(), Configs: map[string]*string{}}
	maps.Copy(c.Former, v.former)
	c.Topics = v.sortedTopics(func(*Topic) bool { return true })
	for _, t := range c.Topics {
		for i := range t.Partitions {
			p := PartitionID{t.ID, i}
			c.Partitions[p.String()] = v.Partition(p)
			c.Progress[p.String()] = v.Progress(p)
		}
		if _, ok := v.ReadOnlyName([]byte(t.Name)); ok {
			c.ReadOnly = append(c.ReadOnly, t.Name)
		}
		if _, ok := v.ReadOnlyID(t.ID); ok {
			c.ReadOnly = append(c.ReadOnly, t.ID.String())
		}
	}
	for name, id := range v.sourceIDs {
		c.SourceIDs[name] = id
	}
	for name := range v.brokerConfigs {
		c.Configs[name], _ = v.KeptBrokerConfig(name)
	}
	return c
}

func awaitProblem(t *testing.T, p *process, text string) {
	t.Helper()
	testenv.Eventually(t, patience, "the problem "+text, func() error {
		if !strings.Contains(p.Problem(), text) {
			return fmt.Errorf("problem: %q", p.Problem())
		}
		return nil
	})
}

func adminClient(t *testing.T, bootstrap []string) (*kadm.Client, func()) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	return kadm.NewClient(client), client.Close
}

func deleteStateTopic(t *testing.T, bootstrap []string) {
	t.Helper()
	admin, done := adminClient(t, bootstrap)
	defer done()
	if _, err := admin.DeleteTopic(t.Context(), stateTopic); err != nil {
		t.Fatal(err)
	}
}

func createStateTopic(t *testing.T, bootstrap []string, policy string) {
	t.Helper()
	admin, done := adminClient(t, bootstrap)
	defer done()
	testenv.Eventually(t, patience, "the topic to be created", func() error {
		_, err := admin.CreateTopic(t.Context(), 6, 1, map[string]*string{"cleanup.policy": &policy}, stateTopic)
		return err
	})
}

func produceRaw(t *testing.T, bootstrap []string, partition int32, key, value []byte) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r := &kgo.Record{Topic: stateTopic, Partition: partition, Key: key, Value: value}
	if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func diffContents(want, got content) string {
	return cmp.Diff(want, got, cmp.AllowUnexported(Topic{}))
}
