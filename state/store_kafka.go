package state

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaConfig configures a store in the topic __mirror_state. Zero values of numbers and durations mean the defaults.
type KafkaConfig struct {
	// Opts reach the destination cluster: seed brokers, security. No consumer or producer options.
	Opts []kgo.Opt
	// Partitions and ReplicationFactor of __mirror_state when it is created: 50, and 3 or the number of brokers where there
	// are fewer. An existing topic is taken with the partitions that it has.
	Partitions        int32
	ReplicationFactor int16
	// InstanceID tells this process from the others; Address is where clients find it (host:port).
	InstanceID, Address string
	// HeartbeatInterval (1 s) is how often the owner says that it lives, LeaseDuration (4 s) how long it may act on one
	// heartbeat, TakeoverAfter (8 s) how long another waits without having seen one.
	HeartbeatInterval, LeaseDuration, TakeoverAfter time.Duration
	// AcceptMissing takes a __mirror_state that lost its content as empty. Everything that was mirrored becomes writable.
	AcceptMissing bool
	Log           zerolog.Logger
}

// Kafka is a Store in the compacted topic __mirror_state on the destination.
type Kafka struct {
	cfg  KafkaConfig
	view atomic.Pointer[View]
	subscribers
}

// OpenKafka checks the configuration. Nothing is loaded before Run.
func OpenKafka(cfg KafkaConfig) (*Kafka, error) {
	if cfg.InstanceID == "" {
		return nil, errors.New("open the state store: an instance id is needed")
	}
	k := &Kafka{cfg: cfg}
	k.view.Store(newDraft().view())
	return k, nil
}

// View implements Store.
func (k *Kafka) View() *View { return k.view.Load() }

// Run loads the state and follows it until ctx ends.
func (k *Kafka) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Do implements Store.
func (k *Kafka) Do(ctx context.Context, commands ...Command) error {
	return refuse(CodeNotLoaded, "The state of the mirrors is not loaded yet.")
}

// Lease implements Store.
func (k *Kafka) Lease() bool { return false }

// Generation implements Store.
func (k *Kafka) Generation() int64 { return 0 }

var (
	_ Store = (*Kafka)(nil)
	_ Store = (*Memory)(nil)
)
