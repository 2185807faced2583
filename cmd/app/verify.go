package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/cmd/config"
	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/replicate/verify"
)

// verifySettings are the flags of the verify command.
type verifySettings struct {
	verify.Config
	json        bool
	follow      bool
	adminListen string
}

// Verify is the verify command. It returns the exit code: 0 equal, 1 different, 2 could not compare. With --follow it goes
// on until ctx ends; the exit code is then that of the worst round that could be made.
func Verify(ctx context.Context, args []string, out, errs io.Writer, readFile func(string) ([]byte, error)) int {
	s, err := verifyFlags(args, out, readFile)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err == nil {
		defer s.Source.Close()
		defer s.Destination.Close()
		if s.follow {
			return followVerify(ctx, s, out, errs)
		}
		var report verify.Report
		if report, err = verify.Compare(ctx, s.Config); err == nil {
			err = s.print(out, report)
		}
		if err == nil && !report.Equal() {
			return 1
		}
	}
	if err != nil {
		fmt.Fprintln(errs, "kafka-mirror-proxy verify:", err)
		return 2
	}
	return 0
}

// print writes a report in the format that was asked for.
func (s *verifySettings) print(out io.Writer, report verify.Report) error {
	if !s.json {
		_, err := io.WriteString(out, report.String())
		return err
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

func verifyFlags(args []string, out io.Writer, readFile func(string) ([]byte, error)) (*verifySettings, error) {
	set := pflag.NewFlagSet("verify", pflag.ContinueOnError)
	set.SortFlags = false
	set.SetOutput(out)
	source := set.String("source", "", "HOST:PORT,... of the source cluster")
	sourceConfig := set.String("source-config", "", "properties file with Kafka client configs for the source")
	destination := set.String("destination", "", "HOST:PORT,... of the destination, by way of the proxy or not")
	destinationConfig := set.String("destination-config", "", "properties file with Kafka client configs for the destination")
	topics := set.StringSlice("topic", nil, "topic to compare; may be given several times")
	patience := set.Duration("patience", 30*time.Second, "how long the destination is waited for when it is behind")
	sample := set.Float64("sample", 1, "share of the offsets to compare, in ranges of 10000 offsets; 0.05 is a twentieth")
	seed := set.Uint64("seed", 1, "chooses the ranges of a sample; with --follow every round takes the next one")
	follow := set.Bool("follow", false, "compare again and again until interrupted; a difference is logged")
	maxBytes := set.Int64("max-bytes-per-second", 0, "bound for what is read from both clusters together; 0 is none")
	adminListen := set.String("admin-listen", "", "HOST:PORT of /metrics and /healthz with --follow; empty is none")
	output := set.String("output", "text", "text or json")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	var problems []error
	if set.NArg() > 0 {
		problems = append(problems, fmt.Errorf("unexpected argument %q", set.Arg(0)))
	}
	if len(*topics) == 0 {
		problems = append(problems, errors.New("--topic must be given"))
	}
	if *output != "text" && *output != "json" {
		problems = append(problems, fmt.Errorf("--output must be text or json, got %q", *output))
	}
	if !(*sample > 0 && *sample <= 1) {
		problems = append(problems, fmt.Errorf("--sample must be above 0 and at most 1, got %v", *sample))
	}
	if *maxBytes < 0 {
		problems = append(problems, fmt.Errorf("--max-bytes-per-second must not be negative, got %d", *maxBytes))
	}
	if *adminListen != "" && !*follow {
		problems = append(problems, errors.New("--admin-listen needs --follow"))
	}
	s, err := verifyClient("source", *source, *sourceConfig, readFile)
	problems = append(problems, err)
	d, err := verifyClient("destination", *destination, *destinationConfig, readFile)
	problems = append(problems, err)
	if err := errors.Join(problems...); err != nil {
		for _, c := range []*kgo.Client{s, d} {
			if c != nil {
				c.Close()
			}
		}
		return nil, err
	}
	return &verifySettings{
		Config: verify.Config{Source: s, Destination: d, Topics: *topics, Patience: *patience, Sample: *sample, Seed: *seed, MaxBytesPerSecond: *maxBytes},
		json:   *output == "json", follow: *follow, adminListen: *adminListen,
	}, nil
}

func verifyClient(side, servers, file string, readFile func(string) ([]byte, error)) (*kgo.Client, error) {
	configs := map[string]string{}
	if file != "" {
		b, err := readFile(file)
		if err != nil {
			return nil, fmt.Errorf("--%s-config: %w", side, err)
		}
		if configs, err = config.Properties(b); err != nil {
			return nil, fmt.Errorf("--%s-config: %w", side, err)
		}
	}
	if servers != "" {
		configs["bootstrap.servers"] = servers
	}
	if configs["bootstrap.servers"] == "" {
		return nil, fmt.Errorf("--%s must be given", side)
	}
	opts, _, err := connect.Options(configs, func(v string) (string, error) { return v, nil })
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", side, err)
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", side, err)
	}
	return client, nil
}
