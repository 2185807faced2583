// Package app puts the program together: settings become objects, which are
// started in order and drained in the opposite one.
package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/cmd/config"
	"kafka-mirror-proxy/cmd/version"
	"kafka-mirror-proxy/enforce"
	"kafka-mirror-proxy/mirrorapi"
	"kafka-mirror-proxy/proxy"
	"kafka-mirror-proxy/replicate"
	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/state"
)

// Serve runs the proxy until ctx ends, then drains it.
func Serve(ctx context.Context, cfg *config.Config, world World) error {
	log := newLogger(cfg, world.Err)
	parts, closeAll, err := assemble(cfg, world, log)
	if err != nil {
		return err
	}
	defer closeAll()
	log.Info().Str("version", version.String()).Str("listen", cfg.Listen).Strs("destination", cfg.Destination).Msg("serving")
	err = runParts(ctx, parts)
	log.Info().Err(err).Msg("stopped")
	return err
}

func newLogger(cfg *config.Config, out io.Writer) zerolog.Logger {
	if cfg.LogFormat == "text" {
		out = zerolog.ConsoleWriter{Out: out, NoColor: true, TimeFormat: time.RFC3339}
	}
	return zerolog.New(zerolog.SyncWriter(out)).Level(cfg.LogLevel).With().Timestamp().Logger()
}

// assemble makes everything, in the order in which it is started.
func assemble(cfg *config.Config, world World, log zerolog.Logger) (parts []part, closeAll func(), err error) {
	secrets, err := newSecrets(cfg, world)
	if err != nil {
		return nil, nil, err
	}
	settings, client, err := openDestination(cfg, secrets, log)
	if err != nil {
		return nil, nil, err
	}
	both := newClusters(client, secrets, cfg.RequestTimeout, log)
	defer func() {
		if err != nil {
			both.close()
		}
	}()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	store, err := state.OpenKafka(state.KafkaConfig{
		Opts: settings.Options(), Partitions: cfg.StatePartitions, ReplicationFactor: cfg.StateReplicationFactor,
		InstanceID: rand.Text(), Address: advertised(cfg), AcceptMissing: cfg.AcceptMissingState, Log: log,
	})
	if err != nil {
		return nil, nil, err
	}
	live := state.NewLive()
	gate := enforce.NewGate()

	var server *proxy.Server // answers the handler about addresses, and is given the handler: neither asks before it runs
	handler, err := mirrorapi.New(mirrorapi.Config{
		Store: store, Live: live, Clusters: both, Gate: gate, Secrets: secrets, Ignored: both.ignored,
		Address:      func(id int32) (string, int32) { return server.Address(id) },
		TrustClients: cfg.TrustClients,
		Clock:        time.Now, Log: log,
	})
	if err != nil {
		return nil, nil, err
	}
	if cfg.TrustClients {
		log.Warn().Msg("trust-clients: every client that reaches this proxy may create, change and stop mirrors, whatever the destination's ACLs say")
	}
	replicator, err := replicate.New(replicate.Config{
		Store: store, Live: live, Clusters: replicatorClusters{both, settings.Dial}, Log: log,
		Settings: replicate.Settings{
			BudgetBytes: cfg.ReplicationMemoryBytes, FetchBytes: cfg.FetchResponseMaxBytes, FetchPartitionBytes: cfg.FetchMaxBytes,
			FetchWait: cfg.FetchMaxWait, Backoff: cfg.FetchBackoff, Fetchers: cfg.Fetchers, MetadataRefresh: cfg.MetadataRefresh,
		},
	})
	if err != nil {
		return nil, nil, err
	}
	if err := registry.Register(replicator); err != nil {
		return nil, nil, fmt.Errorf("register the replication's metrics: %w", err)
	}
	if server, err = newServer(cfg, store, gate, handler, registry, log); err != nil {
		return nil, nil, err
	}
	brokers := &brokerWatch{destination: client, set: server.SetBrokers, log: log}
	problems := func() []string {
		all := append(brokers.problems(), server.Problems()...)
		switch {
		case !store.View().Loaded():
			all = append(all, "state: "+store.Problem())
		case !store.Fresh():
			all = append(all, "state: __mirror_state has not been read up to its end for some seconds")
		}
		return all
	}
	if cfg.AdminListen != "" {
		listener, err := net.Listen("tcp", cfg.AdminListen)
		if err != nil {
			return nil, nil, fmt.Errorf("admin-listen: %w", err)
		}
		parts = append(parts, part{"admin endpoints", func(ctx context.Context) error {
			return serveAdmin(ctx, listener, adminHandler(registry, problems))
		}})
	}
	parts = append(parts,
		part{"state", store.Run},
		part{"destination's brokers", brokers.run},
		part{"replication", replicator.Run},
		part{"ownership", func(ctx context.Context) error { return followState(ctx, store, handler, both, log) }},
		part{"proxy", server.Run},
	)
	return parts, both.close, nil
}

func openDestination(cfg *config.Config, secrets *secrets, log zerolog.Logger) (*connect.Settings, *kgo.Client, error) {
	configs := maps.Clone(cfg.DestinationClient)
	configs["bootstrap.servers"] = strings.Join(cfg.Destination, ",")
	settings, ignored, err := connect.Parse(withRequestTimeout(configs, cfg.RequestTimeout), secrets.resolve)
	if err != nil {
		return nil, nil, fmt.Errorf("destination: %w", err)
	}
	if len(ignored) > 0 {
		log.Warn().Strs("ignored", ignored).Msg("client configs of the destination that have no effect here")
	}
	client, err := kgo.NewClient(append(settings.Options(), kgo.WithLogger(connect.Logger(log)))...)
	if err != nil {
		return nil, nil, fmt.Errorf("destination: %w", err)
	}
	return settings, client, nil
}

func newServer(cfg *config.Config, store *state.Kafka, gate *enforce.Gate, handler *mirrorapi.Handler, registry *prometheus.Registry, log zerolog.Logger) (*proxy.Server, error) {
	metrics, err := proxy.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	return proxy.New(proxy.Config{
		Listen: cfg.Listen, AdvertisedHost: cfg.AdvertisedHost, NodePorts: cfg.NodePorts, Dialect: cfg.Dialect,
		Policy: enforce.NewPolicy(store.FreshView, gate, cfg.ReadOnlyErrorCode), Gate: gate, Local: localHandler{handler},
		Limits: proxy.Limits{Connections: cfg.MaxConnections, Drain: cfg.DrainTimeout}, Log: log, Metrics: metrics,
	})
}

// localHandler lets the mirror APIs answer the proxy without either knowing the other.
type localHandler struct{ *mirrorapi.Handler }

func (h localHandler) Handle(ctx context.Context, r proxy.LocalRequest) ([]byte, error) {
	return h.Handler.Handle(ctx, mirrorapi.Request(r))
}

// replicatorClusters adds the replicator's own connections to the shared clients.
type replicatorClusters struct {
	*clusters
	dial func(context.Context, string) (net.Conn, error)
}

// DialDestination connects to a broker of the destination.
func (c replicatorClusters) DialDestination(ctx context.Context, addr string) (net.Conn, error) {
	return c.dial(ctx, addr)
}

// advertised is where clients, and other proxies, find this one.
func advertised(cfg *config.Config) string {
	_, port, _ := net.SplitHostPort(cfg.Listen)
	return net.JoinHostPort(cfg.AdvertisedHost, port)
}

// rollbackPause is the wait before leftovers that could not be rolled back are tried again.
const rollbackPause = time.Second

// followState does what a change of the state asks of the program as a whole: an owner rolls back what the one before
// left half done, and clients of mirrors that are gone are closed.
func followState(ctx context.Context, store state.Store, handler *mirrorapi.Handler, both *clusters, log zerolog.Logger) error {
	changed, cancel := store.Subscribe()
	defer cancel()
	var generation int64 // whose leftovers were rolled back
	for {
		var again <-chan time.Time
		if now := store.Generation(); now != 0 && now != generation {
			if err := handler.RollbackLeftovers(ctx); err != nil {
				log.Error().Err(err).Msg("topics whose add was not finished by the last owner could not be rolled back; trying again")
				again = time.After(rollbackPause)
			} else {
				generation = now
			}
		}
		both.forget(store.View())
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-again:
		}
	}
}
