package app

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/state"
)

// clusters owns the proxy's own clients: one of the destination, one of each mirror's source. They are shared by the
// mirror APIs and the replicator.
type clusters struct {
	destination    *kgo.Client
	secrets        *secrets
	requestTimeout time.Duration // of sources that do not say their own
	log            zerolog.Logger

	mu      sync.Mutex
	sources map[string]*source // by mirror
}

type source struct {
	revision int64
	configs  map[string]string // as stored: secrets are sealed
	client   *kgo.Client
}

func newClusters(destination *kgo.Client, secrets *secrets, requestTimeout time.Duration, log zerolog.Logger) *clusters {
	return &clusters{destination: destination, secrets: secrets, requestTimeout: requestTimeout, log: log, sources: map[string]*source{}}
}

// Destination returns the client of the destination.
func (c *clusters) Destination() *kgo.Client { return c.destination }

// Source returns the client of a mirror's source. An altered mirror gets a new one, and the old one is closed: whoever
// uses it sees its requests end and asks again. Who asks with an older revision than the client's gets the newer client.
func (c *clusters) Source(_ context.Context, m *state.Mirror) (*kgo.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.sources[m.Name]; ok {
		if s.revision >= m.Revision || maps.Equal(s.configs, m.Configs) {
			s.revision = max(s.revision, m.Revision)
			return s.client, nil
		}
		delete(c.sources, m.Name)
		go s.client.Close() // waits for the client's goroutines
	}
	opts, _, err := connect.Options(withRequestTimeout(m.Configs, c.requestTimeout), c.secrets.resolve)
	if err != nil {
		return nil, fmt.Errorf("source of mirror %s: %w", m.Name, err)
	}
	client, err := kgo.NewClient(append(opts, kgo.WithLogger(connect.Logger(c.log.With().Str("mirror", m.Name).Logger())))...)
	if err != nil {
		return nil, fmt.Errorf("source of mirror %s: %w", m.Name, err)
	}
	c.sources[m.Name] = &source{revision: m.Revision, configs: m.Configs, client: client}
	return client, nil
}

// withRequestTimeout is configs with the proxy's own request.timeout.ms where they have none.
func withRequestTimeout(configs map[string]string, timeout time.Duration) map[string]string {
	const key = "request.timeout.ms"
	if configs[key] != "" {
		return configs
	}
	all := map[string]string{key: strconv.FormatInt(timeout.Milliseconds(), 10)}
	maps.Copy(all, configs)
	return all
}

// CheckConfigs says what is wrong with the configs of a mirror's source. A reference is resolved only when a connection
// is made, so that where there is one, what is said about security waits until then too.
func (c *clusters) CheckConfigs(configs map[string]string) error {
	for _, value := range configs {
		if c.secrets.IsReference(value) {
			configs = withoutSecurity(configs)
			break
		}
	}
	_, _, err := connect.Parse(configs, c.secrets.resolve)
	return err
}

func withoutSecurity(configs map[string]string) map[string]string {
	rest := maps.Clone(configs)
	maps.DeleteFunc(rest, func(key, _ string) bool {
		return strings.HasPrefix(key, "sasl.") || strings.HasPrefix(key, "ssl.") || key == "security.protocol"
	})
	return rest
}

// ignored lists the keys of a mirror's configs that have no effect here. It goes by the keys alone.
func (c *clusters) ignored(configs map[string]string) []string {
	_, ignored, _ := connect.Parse(configs, func(value string) (string, error) { return value, nil })
	return ignored
}

// forget closes the clients of mirrors that are gone.
func (c *clusters) forget(view *state.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, s := range c.sources {
		if _, ok := view.Mirror(name); !ok {
			delete(c.sources, name)
			go s.client.Close()
		}
	}
}

func (c *clusters) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sources {
		s.client.Close()
	}
	c.destination.Close()
}
