package connect

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

// dialTimeout bounds connecting, TLS and SASL together.
const dialTimeout = 10 * time.Second

// Settings are how one cluster is reached. They hold secrets in clear text and are not kept
// longer than the connections made with them.
type Settings struct {
	Bootstrap []string // host:port
	ClientID  string

	requestTimeout time.Duration // 0: the client's default
	tls            *tls.Config   // nil: plaintext
	mechanism      sasl.Mechanism
}

// Parse reads Kafka client configs. resolve turns a value into the secret it refers to (see
// design.md section 4) and is asked for every value that is used. ignored are the keys, sorted,
// that have no effect here; keys that start with "mirror." are not connection configs and are
// not among them. The error joins everything that is wrong, each part naming its key.
func Parse(configs map[string]string, resolve func(string) (string, error)) (*Settings, []string, error) {
	r := &reader{configs: configs, resolve: resolve, used: map[string]bool{}}
	s := &Settings{ClientID: "kafka-mirror-proxy"}
	if id := r.get("client.id"); id != "" {
		s.ClientID = id
	}
	s.Bootstrap = r.bootstrap()
	if text := r.get("request.timeout.ms"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			r.fail("request.timeout.ms", "%q is not a number of milliseconds above 0", text)
		}
		s.requestTimeout = time.Duration(ms) * time.Millisecond
	}
	r.security(s)
	for _, key := range unsupported {
		if value, ok := configs[key]; ok && value != "" {
			r.fail(key, "not supported")
		}
	}
	return s, r.ignored(), errors.Join(r.errs...)
}

// unsupported are configs that would change how a connection is made or trusted; silently
// leaving them out would connect in another way than was asked for.
var unsupported = []string{
	"sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class", "sasl.kerberos.service.name",
	"ssl.keystore.location", "ssl.truststore.location", "ssl.key.password", "ssl.engine.factory.class",
}

// Options is Parse for a kgo client.
func Options(configs map[string]string, resolve func(string) (string, error)) (opts []kgo.Opt, ignored []string, err error) {
	s, ignored, err := Parse(configs, resolve)
	if err != nil {
		return nil, nil, err
	}
	return s.Options(), ignored, nil
}

// Options are the options for a kgo client. They carry no logger.
func (s *Settings) Options() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(s.Bootstrap...),
		kgo.ClientID(s.ClientID),
		kgo.DialTimeout(dialTimeout),
		kgo.DisableClientMetrics(), // else the client pushes its own telemetry to the cluster
	}
	if s.requestTimeout > 0 {
		opts = append(opts, kgo.RequestTimeoutOverhead(s.requestTimeout))
	}
	if s.tls != nil {
		opts = append(opts, kgo.DialTLSConfig(s.tls.Clone()))
	}
	if s.mechanism != nil {
		opts = append(opts, kgo.SASL(s.mechanism))
	}
	return opts
}

// reader collects what is read from configs and what is wrong with it.
type reader struct {
	configs map[string]string
	resolve func(string) (string, error)
	used    map[string]bool
	errs    []error
}

func (r *reader) fail(key, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
}

// get is the resolved value, "" when it is absent or cannot be resolved.
func (r *reader) get(key string) string {
	r.used[key] = true
	value, ok := r.configs[key]
	if !ok {
		return ""
	}
	resolved, err := r.resolve(value)
	if err != nil {
		r.fail(key, "%v", err)
		return ""
	}
	return strings.TrimSpace(resolved)
}

func (r *reader) bootstrap() []string {
	var servers []string
	for _, server := range strings.Split(r.get("bootstrap.servers"), ",") {
		server = strings.TrimSpace(server)
		if server == "" {
			continue
		}
		host, port, err := net.SplitHostPort(server)
		if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || n == 0 || host == "" {
			r.fail("bootstrap.servers", "%q is not host:port", server)
			continue
		}
		servers = append(servers, server)
	}
	if len(servers) == 0 && len(r.errs) == 0 {
		r.fail("bootstrap.servers", "names no server")
	}
	return servers
}

func (r *reader) ignored() []string {
	var keys []string
	for key := range r.configs {
		if !r.used[key] && !strings.HasPrefix(key, "mirror.") && !slices.Contains(unsupported, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
