// Package config reads the settings of kafka-mirror-proxy from flags and a
// YAML file. Both use the same names; a flag wins over the file. Reading is
// strict: unknown names and every wrong value are reported together, so that
// a config is mended in one go.
package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
)

// Config is every setting of one proxy, checked.
type Config struct {
	Listen         string // HOST:PORT of the bootstrap listener
	AdvertisedHost string // host that clients are sent to; never empty after Parse
	NodePorts      map[int32]int
	Destination    []string // HOST:PORT of destination brokers
	AdminListen    string   // HOST:PORT, "" = off

	Dialect           string
	ReadOnlyErrorCode int16
	MaxConnections    int

	ReplicationMemoryBytes int64
	SecretKeyFile          string
	AllowEnv, AllowFiles   []string
	AcceptMissingState     bool
	TrustClients           bool
	LogLevel               zerolog.Level
	LogFormat              string
	DrainTimeout           time.Duration

	StatePartitions        int32
	StateReplicationFactor int16
	Fetchers               int
	MetadataRefresh        time.Duration
	FetchBackoff           time.Duration
	FetchMaxBytes          int32
	FetchResponseMaxBytes  int32
	FetchMaxWait           time.Duration
	RequestTimeout         time.Duration

	// DestinationClient holds Kafka's client configs for the proxy's own
	// connections to the destination: what was given as destination.NAME.
	DestinationClient map[string]string
}

const destinationPrefix = "destination."

// ErrHelp is returned by Parse when help was asked for and printed.
var ErrHelp = errors.New("help was printed")

// Parse reads the arguments after "serve". readFile reads the file named by
// --config. Help goes to out.
func Parse(args []string, readFile func(string) ([]byte, error), out io.Writer) (*Config, error) {
	given, file, err := flags(args, out)
	if err != nil {
		return nil, err
	}
	var problems []error
	values := map[string]string{}
	if file != "" {
		fromFile, errs := readYAML(file, readFile)
		problems = append(problems, errs...)
		maps.Copy(values, fromFile)
	}
	maps.Copy(values, given) // a flag wins over the file
	c := &Config{DestinationClient: map[string]string{}}
	problems = append(problems, c.apply(values)...)
	problems = append(problems, c.check()...)
	if len(problems) > 0 {
		return nil, &Invalid{Problems: problems}
	}
	return c, nil
}

// Invalid lists everything that is wrong with the settings.
type Invalid struct{ Problems []error }

func (e *Invalid) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = "  " + p.Error()
	}
	slices.Sort(lines)
	return "wrong settings:\n" + strings.Join(lines, "\n")
}

// flags returns the values given as flags and the name of the YAML file.
// destination.NAME takes any Kafka client config, so those flags are not in
// the table and are read before pflag sees the rest.
func flags(args []string, out io.Writer) (map[string]string, string, error) {
	given := map[string]string{}
	var rest []string
	for i := 0; i < len(args); i++ {
		name, ok := strings.CutPrefix(args[i], "--"+destinationPrefix)
		if !ok {
			rest = append(rest, args[i])
			continue
		}
		name, value, has := strings.Cut(name, "=")
		if !has {
			if i+1 == len(args) {
				return nil, "", fmt.Errorf("flag needs an argument: --%s%s", destinationPrefix, name)
			}
			i++
			value = args[i]
		}
		given[destinationPrefix+name] = value
	}
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	set.SortFlags = false
	set.SetOutput(out)
	set.Usage = func() {
		fmt.Fprintf(out, "Usage: kafka-mirror-proxy serve [flags]\n\n%s\n      --destination.NAME VALUE   a Kafka client config for the proxy's own connections to the destination\n", set.FlagUsages())
	}
	file := set.String("config", "", "YAML file with the same names as these flags")
	for _, o := range options() {
		set.String(o.name, o.value, o.help)
	}
	for alias, name := range aliases() {
		set.String(alias, "", "same as "+name)
		_ = set.MarkHidden(alias)
	}
	if err := set.Parse(rest); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil, "", ErrHelp
		}
		return nil, "", err
	}
	if set.NArg() > 0 {
		return nil, "", fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	set.Visit(func(f *pflag.Flag) {
		if f.Name != "config" {
			given[f.Name] = f.Value.String()
		}
	})
	return given, *file, nil
}

// readYAML flattens the file: a list is joined by commas, a map (node-ports)
// becomes ID=PORT pairs, as the flags write them.
func readYAML(file string, readFile func(string) ([]byte, error)) (map[string]string, []error) {
	b, err := readFile(file)
	if err != nil {
		return nil, []error{fmt.Errorf("read config: %w", err)}
	}
	var raw yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(b, &raw, yaml.UseOrderedMap()); err != nil {
		return nil, []error{fmt.Errorf("read config %s: %w", file, err)}
	}
	values := map[string]string{}
	var problems []error
	for _, item := range raw {
		name := fmt.Sprint(item.Key)
		v, err := flatten(item.Value)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
			continue
		}
		values[name] = v
	}
	return values, problems
}

func flatten(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case bool, int, int64, uint64:
		return fmt.Sprint(v), nil
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			s, err := flatten(e)
			if err != nil {
				return "", err
			}
			parts[i] = s
		}
		return strings.Join(parts, ","), nil
	case yaml.MapSlice:
		parts := make([]string, len(v))
		for i, e := range v {
			s, err := flatten(e.Value)
			if err != nil {
				return "", err
			}
			parts[i] = fmt.Sprint(e.Key) + "=" + s
		}
		return strings.Join(parts, ","), nil
	}
	return "", fmt.Errorf("a value of type %T does not fit here", v)
}

// apply sets defaults, then what was given, and returns every problem.
func (c *Config) apply(values map[string]string) []error {
	var problems []error
	known := map[string]option{}
	for _, o := range options() {
		known[o.name] = o
		if err := o.set(c, o.value); err != nil {
			problems = append(problems, fmt.Errorf("default of %s: %w", o.name, err))
		}
	}
	for name, v := range values {
		if key, ok := strings.CutPrefix(name, destinationPrefix); ok {
			c.DestinationClient[key] = v
			continue
		}
		if to, ok := aliases()[name]; ok {
			if _, both := values[to]; both {
				problems = append(problems, fmt.Errorf("%s: given together with %s, which is the same setting", name, to))
				continue
			}
			name = to
		}
		if why, ok := refused()[name]; ok {
			problems = append(problems, fmt.Errorf("%s: %s", name, why))
			continue
		}
		o, ok := known[name]
		if !ok {
			problems = append(problems, fmt.Errorf("%s: unknown setting", name))
			continue
		}
		if err := o.set(c, v); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	return problems
}

// check holds what no single setting can know.
func (c *Config) check() []error {
	var problems []error
	if len(c.Destination) == 0 {
		problems = append(problems, errors.New("destination: required, the HOST:PORT of one or more destination brokers"))
	}
	if _, ok := c.DestinationClient["bootstrap.servers"]; ok {
		problems = append(problems, errors.New("destination.bootstrap.servers: use destination instead"))
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return problems // said already
	}
	if c.AdvertisedHost == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			problems = append(problems, fmt.Errorf("advertised-host: required when listen is %s, since clients cannot connect to that host", c.Listen))
		}
		c.AdvertisedHost = host
	}
	listen, _ := strconv.Atoi(port)
	taken := map[int]string{listen: "listen"}
	if _, admin, err := net.SplitHostPort(c.AdminListen); err == nil {
		n, _ := strconv.Atoi(admin)
		if n == listen {
			problems = append(problems, fmt.Errorf("admin-listen: port %d is taken by listen", n))
		}
		taken[n] = "admin-listen"
	}
	for id, p := range c.NodePorts {
		if by, ok := taken[p]; ok {
			problems = append(problems, fmt.Errorf("node-ports: port %d of node %d is taken by %s", p, id, by))
		}
		taken[p] = fmt.Sprintf("node %d", id)
	}
	return problems
}
