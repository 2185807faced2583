package config

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// An option is one setting: the same name as a flag and as a key of the YAML
// file. The table in options is the only list of settings there is: flags,
// file, help and the documented example are all made from it.
type option struct {
	name  string
	value string // default, as a user would write it
	help  string
	set   func(*Config, string) error
}

func options() []option {
	return []option{
		{"listen", "127.0.0.1:9094", "HOST:PORT clients bootstrap from; broker n is served on PORT+1+n",
			func(c *Config, v string) (err error) { c.Listen, err = hostPort(v); return }},
		{"advertised-host", "", "host name that clients are told to connect to (default: the host of listen)",
			func(c *Config, v string) error { c.AdvertisedHost = v; return nil }},
		{"node-ports", "", "ports of single brokers where listen+1+n does not suit: ID=PORT,ID=PORT",
			func(c *Config, v string) (err error) { c.NodePorts, err = nodePorts(v); return }},
		{"destination", "", "HOST:PORT,... of the destination cluster (required)",
			func(c *Config, v string) (err error) { c.Destination, err = hostPorts(v); return }},
		{"admin-listen", "127.0.0.1:9093", "HOST:PORT of /metrics, /healthz and /readyz; empty switches them off",
			func(c *Config, v string) (err error) {
				if v == "" {
					c.AdminListen = ""
					return nil
				}
				c.AdminListen, err = hostPort(v)
				return
			}},
		{"dialect", "seed", "mirror APIs offered to clients: seed (KIP-1279, keys 94-104) or none",
			func(c *Config, v string) error { c.Dialect = v; return oneOf(v, "seed", "none") }},
		{"read-only-error-code", "134", "error code of a refused produce; 44 where clients must see a name they know",
			func(c *Config, v string) error {
				n, err := strconv.ParseInt(v, 10, 16)
				c.ReadOnlyErrorCode = int16(n)
				if err != nil || n < 1 {
					return fmt.Errorf("want a Kafka error code from 1 to %d", math.MaxInt16)
				}
				return nil
			}},
		{"max-connections", "20000", "client connections served at the same time; more are closed at once",
			func(c *Config, v string) (err error) { c.MaxConnections, err = positive(v); return }},
		{"replication-memory-bytes", "268435456", "bytes of mirrored batches held in memory at the same time, over all mirrors",
			func(c *Config, v string) (err error) { c.ReplicationMemoryBytes, err = positive64(v, 16<<20); return }},
		{"secret-key-file", "", "file whose content (at least 16 bytes) is the key that encrypts secrets given as values in mirror configs",
			func(c *Config, v string) error { c.SecretKeyFile = v; return nil }},
		{"allow-env", "", "names that ${env:NAME} references in mirror configs may read, comma separated",
			func(c *Config, v string) error { c.AllowEnv = list(v); return nil }},
		{"allow-files", "", "paths that ${file:PATH:KEY} references in mirror configs may read, comma separated",
			func(c *Config, v string) error { c.AllowFiles = list(v); return nil }},
		{"accept-missing-state", "false", "start empty although this cluster once had a __mirror_state topic",
			func(c *Config, v string) (err error) { c.AcceptMissingState, err = boolean(v); return }},
		{"trust-clients", "false", "serve the mirror APIs to every client that reaches the proxy although the destination has an authorizer: rights on mirrors are not checked yet",
			func(c *Config, v string) (err error) { c.TrustClients, err = boolean(v); return }},
		{"log-level", "info", "trace, debug, info, warn or error",
			func(c *Config, v string) error {
				var err error
				c.LogLevel, err = zerolog.ParseLevel(v)
				if err != nil || v == "" {
					return oneOf(v, "trace", "debug", "info", "warn", "error")
				}
				return nil
			}},
		{"log-format", "json", "json or text",
			func(c *Config, v string) error { c.LogFormat = v; return oneOf(v, "json", "text") }},
		{"drain-timeout-ms", "10000", "how long open answers may take to finish at SIGTERM",
			func(c *Config, v string) (err error) { c.DrainTimeout, err = millis(v); return }},

		// The broker-level configs of KIP-1279 under their Kafka names (wire.md section 6).
		{"mirror.topic.num.partitions", "50", "partitions of __mirror_state, when it is created",
			func(c *Config, v string) error {
				n, err := positive(v)
				c.StatePartitions = int32(min(n, math.MaxInt32))
				return err
			}},
		{"mirror.topic.replication.factor", "3", "replication factor of __mirror_state, when it is created; fewer brokers: their number",
			func(c *Config, v string) error {
				n, err := positive(v)
				c.StateReplicationFactor = int16(min(n, math.MaxInt16))
				return err
			}},
		{"mirror.num.replica.fetchers", "1", "fetchers per mirror and source broker",
			func(c *Config, v string) (err error) { c.Fetchers, err = positive(v); return }},
		{"mirror.metadata.refresh.interval.ms", "30000", "how often the source's topics are looked at",
			func(c *Config, v string) (err error) { c.MetadataRefresh, err = millis(v); return }},
		{"mirror.fetch.backoff.ms", "1000", "wait before a failed fetch is tried again",
			func(c *Config, v string) (err error) { c.FetchBackoff, err = millis(v); return }},
		{"replica.fetch.max.bytes", "1048576", "bytes of one partition in one fetch from the source",
			func(c *Config, v string) (err error) { c.FetchMaxBytes, err = int32Bytes(v); return }},
		{"replica.fetch.response.max.bytes", "10485760", "bytes of one fetch from the source",
			func(c *Config, v string) (err error) { c.FetchResponseMaxBytes, err = int32Bytes(v); return }},
		{"replica.fetch.wait.max.ms", "500", "how long the source may wait for data before it answers a fetch",
			func(c *Config, v string) (err error) { c.FetchMaxWait, err = millis(v); return }},
		{"request.timeout.ms", "30000", "how long a request to a source or destination broker may take",
			func(c *Config, v string) (err error) { c.RequestTimeout, err = millis(v); return }},
	}
}

// aliases are the other spellings of the KIP's pages (design.md section 5).
func aliases() map[string]string {
	return map[string]string{
		"mirror.state.topic.num.partitions":     "mirror.topic.num.partitions",
		"mirror.state.topic.replication.factor": "mirror.topic.replication.factor",
	}
}

// refused are settings of the KIP that this version cannot give an effect; taking them in silence would promise one.
func refused() map[string]string {
	return map[string]string{
		"mirror.replication.throttled.rate": "can only be set while running (KIP-1279), which this version cannot do yet",
		"mirror.truncation.backoff.ms":      "has no effect: a stock destination cannot be truncated",
	}
}

func hostPort(v string) (string, error) {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return "", fmt.Errorf("want HOST:PORT, got %q", v)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("port %q is not between 1 and 65535", port)
	}
	return net.JoinHostPort(host, port), nil
}

func hostPorts(v string) ([]string, error) {
	var all []string
	for _, s := range list(v) {
		hp, err := hostPort(s)
		if err != nil {
			return nil, err
		}
		all = append(all, hp)
	}
	return all, nil
}

func nodePorts(v string) (map[int32]int, error) {
	ports := map[int32]int{}
	for _, s := range list(v) {
		id, port, ok := strings.Cut(s, "=")
		n, err := strconv.ParseInt(strings.TrimSpace(id), 10, 32)
		p, perr := strconv.Atoi(strings.TrimSpace(port))
		switch {
		case !ok || err != nil || n < 0:
			return nil, fmt.Errorf("want ID=PORT, got %q", s)
		case perr != nil || p < 1 || p > 65535:
			return nil, fmt.Errorf("port %q of node %d is not between 1 and 65535", port, n)
		}
		if _, twice := ports[int32(n)]; twice {
			return nil, fmt.Errorf("node %d has two ports", n)
		}
		ports[int32(n)] = p
	}
	return ports, nil
}

func list(v string) []string {
	var all []string
	for s := range strings.SplitSeq(v, ",") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all
}

func positive(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("want a whole number from 1 up, got %q", v)
	}
	return n, nil
}

func positive64(v string, atLeast int64) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < atLeast {
		return 0, fmt.Errorf("want a whole number from %d up, got %q", atLeast, v)
	}
	return n, nil
}

func int32Bytes(v string) (int32, error) {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 1024 {
		return 0, fmt.Errorf("want bytes from 1024 to %d, got %q", math.MaxInt32, v)
	}
	return int32(n), nil
}

func millis(v string) (time.Duration, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64/int64(time.Millisecond) {
		return 0, fmt.Errorf("want milliseconds from 1 up, got %q", v)
	}
	return time.Duration(n) * time.Millisecond, nil
}

func boolean(v string) (bool, error) {
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("want true or false, got %q", v)
	}
	return b, nil
}

func oneOf(v string, allowed ...string) error {
	for _, a := range allowed {
		if v == a {
			return nil
		}
	}
	return fmt.Errorf("want one of %s, got %q", strings.Join(allowed, ", "), v)
}
