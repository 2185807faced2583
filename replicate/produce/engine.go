package produce

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/replicate/connect"
)

const (
	// maxPicks is the most partitions in one request.
	maxPicks = 512
	// answerSlack is how much longer an answer may take than the broker itself may wait.
	answerSlack = 5 * time.Second
	// sendBytesPerSecond is how slow the way to a broker may be: a large request gets more time.
	sendBytesPerSecond = 1 << 20
)

// Config sets up an Engine. The zero value of a number or duration stands for the default.
type Config struct {
	Client *kgo.Client // of the destination, for control calls
	Dial   Dial        // of the destination, for produce connections
	// Lease says that this process may write to mirror topics at this moment.
	Lease func() bool
	Now   func() time.Time
	// ConnectionsPerBroker is how many produce connections a broker gets; 2: more of them make smaller requests
	ConnectionsPerBroker int
	// RequestBytes is how many bytes of batches a request holds before no more are added; 4 MiB.
	RequestBytes int
	// RequestTimeout is how long a broker may wait for its followers; 15 s.
	RequestTimeout time.Duration
	// CheckToSend is the most time between reading where a log ends, or the last append, and
	// sending the next batch; 30 s.
	CheckToSend time.Duration
	// WrongOffsets counts the batches that a broker has appended at another offset than theirs; may be nil.
	WrongOffsets *atomic.Int64
	// SettleTimeout is how long Align waits for followers to catch up with the leader; 15 s.
	SettleTimeout time.Duration
	// FactsAge is how old what is known of a broker's configs may be; 30 s.
	FactsAge time.Duration
}

// Engine writes to one destination cluster. Safe for concurrent use.
type Engine struct {
	cfg     Config
	cluster *connect.Cluster

	mu      sync.Mutex
	lanes   map[laneKey]*lane
	brokers map[int32]*brokerFacts
	running context.Context // of Run; nil when it does not run
	group   sync.WaitGroup
}

type laneKey struct {
	broker int32
	index  int
}

// New makes an Engine; streams move once Run runs.
func New(cfg Config) (*Engine, error) {
	if cfg.Client == nil || cfg.Dial == nil || cfg.Lease == nil || cfg.Now == nil {
		return nil, errors.New("produce engine: Client, Dial, Lease and Now are needed")
	}
	setDefault(&cfg.ConnectionsPerBroker, 2)
	setDefault(&cfg.RequestBytes, 4<<20)
	setDefault(&cfg.RequestTimeout, 15*time.Second)
	setDefault(&cfg.CheckToSend, 30*time.Second)
	setDefault(&cfg.SettleTimeout, 15*time.Second)
	setDefault(&cfg.FactsAge, 30*time.Second)
	if cfg.WrongOffsets == nil {
		cfg.WrongOffsets = new(atomic.Int64)
	}
	return &Engine{cfg: cfg, cluster: connect.NewCluster(cfg.Client, cfg.Now), lanes: map[laneKey]*lane{}, brokers: map[int32]*brokerFacts{}}, nil
}

func setDefault[T int | time.Duration](value *T, standard T) {
	if *value == 0 {
		*value = standard
	}
}

// Run carries streams until ctx ends, and returns when all connections are closed.
func (e *Engine) Run(ctx context.Context) {
	e.mu.Lock()
	e.running = ctx
	for _, l := range e.lanes {
		e.start(l)
	}
	e.group.Go(func() { e.keepFacts(ctx) })
	e.mu.Unlock()
	<-ctx.Done()
	e.mu.Lock()
	e.lanes = map[laneKey]*lane{}
	e.mu.Unlock()
	e.group.Wait()
}

// start runs a lane. Called with mu held.
func (e *Engine) start(l *lane) {
	ctx := e.running
	e.group.Go(func() { l.run(ctx) })
}

// Open begins a stream; see StreamConfig for what must have happened before.
func (e *Engine) Open(cfg StreamConfig) *Stream {
	facts := e.facts(cfg.Leader)
	// A partition's place is fixed by its id, and the partitions of a topic spread evenly.
	index := (uint64(binary.BigEndian.Uint32(cfg.Target.TopicID[:4])) + uint64(cfg.Target.Partition)) % uint64(e.cfg.ConnectionsPerBroker)
	key := laneKey{broker: cfg.Leader, index: int(index)}
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.lanes[key]
	if l == nil {
		l = newLane(e, cfg.Leader)
		e.lanes[key] = l
		if e.running != nil && e.running.Err() == nil {
			e.start(l)
		}
	}
	return newStream(cfg, l, facts)
}
