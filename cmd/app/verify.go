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

// Verify is the verify command. It returns the exit code: 0 equal, 1 different, 2 could not compare.
func Verify(ctx context.Context, args []string, out, errs io.Writer, readFile func(string) ([]byte, error)) int {
	cfg, asJSON, err := verifyConfig(args, out, readFile)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	var report verify.Report
	if err == nil {
		defer cfg.Source.Close()
		defer cfg.Destination.Close()
		report, err = verify.Compare(ctx, cfg)
	}
	if err != nil {
		fmt.Fprintln(errs, "kafka-mirror-proxy verify:", err)
		return 2
	}
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		err = e.Encode(report)
	} else {
		_, err = io.WriteString(out, report.String())
	}
	switch {
	case err != nil:
		return 2
	case !report.Equal():
		return 1
	}
	return 0
}

func verifyConfig(args []string, out io.Writer, readFile func(string) ([]byte, error)) (verify.Config, bool, error) {
	set := pflag.NewFlagSet("verify", pflag.ContinueOnError)
	set.SortFlags = false
	set.SetOutput(out)
	source := set.String("source", "", "HOST:PORT,... of the source cluster")
	sourceConfig := set.String("source-config", "", "properties file with Kafka client configs for the source")
	destination := set.String("destination", "", "HOST:PORT,... of the destination, by way of the proxy or not")
	destinationConfig := set.String("destination-config", "", "properties file with Kafka client configs for the destination")
	topics := set.StringSlice("topic", nil, "topic to compare; may be given several times")
	patience := set.Duration("patience", 30*time.Second, "how long the destination is waited for when it is behind")
	output := set.String("output", "text", "text or json")
	if err := set.Parse(args); err != nil {
		return verify.Config{}, false, err
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
		return verify.Config{}, false, err
	}
	return verify.Config{Source: s, Destination: d, Topics: *topics, Patience: *patience}, *output == "json", nil
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
