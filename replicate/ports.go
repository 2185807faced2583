package replicate

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/state"
)

// Clusters gives access to the clusters. Clients are shared and belong to the giver.
type Clusters interface {
	// Destination is the client for control calls.
	Destination() *kgo.Client
	// DialDestination opens a connection to a broker of the destination on which Kafka requests
	// may be sent at once (TLS and SASL done).
	DialDestination(ctx context.Context, addr string) (net.Conn, error)
	// Source is the client of a mirror's source, made with the configs of this revision. An
	// error says what is wrong with the configs.
	Source(ctx context.Context, m *state.Mirror) (*kgo.Client, error)
}

// Clock is the time, with its monotonic reading.
type Clock func() time.Time

// Settings bound what replication takes. The zero value of a field stands for the default.
type Settings struct {
	// BudgetBytes is how much may be fetched and not yet written; 256 MiB.
	BudgetBytes int64
	// Fetchers is how many fetchers a mirror has for each broker of its source (mirror.num.replica.fetchers); 1.
	Fetchers int
	// FetchBytes is how much a fetch asks for (replica.fetch.response.max.bytes); 10 MiB.
	FetchBytes int32
	// FetchPartitionBytes is how much of one partition (replica.fetch.max.bytes); 1 MiB.
	FetchPartitionBytes int32
	// FetchWait is how long a source broker may wait for data (replica.fetch.wait.max.ms); 500 ms.
	FetchWait time.Duration
	// QueueBytes is how much of one partition may wait to be written before no more is fetched; 2 MiB.
	QueueBytes int
	// Backoff is the pause before the first retry, doubled up to BackoffMax; 1 s and 5 min.
	Backoff, BackoffMax time.Duration
	// FailAfter is how many tries in a row must go wrong before a partition with a passing
	// trouble is FAILED; 6.
	FailAfter int
	// MetadataRefresh is how often the topics of both clusters are looked at while they are mirrored
	// (mirror.metadata.refresh.interval.ms); 30 s.
	MetadataRefresh time.Duration
	// DeletedPause is the pause between the looks that confirm that a source topic is gone; 2 s.
	DeletedPause time.Duration
	// ExpirationLook is how often the brokers' producer expiration is compared with what it should be, beside each change of
	// the view; 1 min.
	ExpirationLook time.Duration
	// FenceWait is how long STOPPED is put off where the closing marker is not permitted; 30 s.
	FenceWait time.Duration
	// DrainTimeout bounds the wait for answers to what is in flight; 25 s.
	DrainTimeout time.Duration
	// ConnectionsPerBroker and RequestBytes are the produce engine's.
	ConnectionsPerBroker, RequestBytes int
	// CheckToSend is the produce engine's.
	CheckToSend time.Duration
}

func (s *Settings) setDefaults() {
	setDefault(&s.BudgetBytes, 256<<20)
	setDefault(&s.Fetchers, 1)
	setDefault(&s.FetchBytes, 10<<20)
	setDefault(&s.FetchPartitionBytes, 1<<20)
	setDefault(&s.FetchWait, 500*time.Millisecond)
	setDefault(&s.QueueBytes, 2<<20)
	setDefault(&s.Backoff, time.Second)
	setDefault(&s.BackoffMax, 5*time.Minute)
	setDefault(&s.FailAfter, 6)
	setDefault(&s.MetadataRefresh, 30*time.Second)
	setDefault(&s.DeletedPause, 2*time.Second)
	setDefault(&s.ExpirationLook, time.Minute)
	setDefault(&s.FenceWait, 30*time.Second)
	setDefault(&s.DrainTimeout, 25*time.Second)
}

func setDefault[T int | int32 | int64 | time.Duration](value *T, standard T) {
	if *value == 0 {
		*value = standard
	}
}

// Config sets up a Replicator.
type Config struct {
	Store    state.Store
	Live     *state.Live
	Clusters Clusters
	Settings Settings
	Clock    Clock // nil: time.Now
	Log      zerolog.Logger
}

func (c *Config) check() error {
	if c.Store == nil || c.Live == nil || c.Clusters == nil {
		return errors.New("replicator: Store, Live and Clusters are needed")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	c.Settings.setDefaults()
	return nil
}
