// Command kafka-mirrors creates and steers cluster mirrors through a kafka-mirror-proxy.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/cmd/cli"
	"kafka-mirror-proxy/cmd/version"
	"kafka-mirror-proxy/replicate/connect"
)

// timeout is that of Kafka's admin client (default.api.timeout.ms).
const timeout = time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	exit := cli.Run(ctx, os.Args[1:], cli.Env{
		Out: os.Stdout, Err: os.Stderr, Version: version.String(), ReadFile: os.ReadFile,
		ClientOptions: func(configs map[string]string) ([]kgo.Opt, error) {
			opts, _, err := connect.Options(configs, func(v string) (string, error) { return v, nil })
			return opts, err
		},
	})
	cancel()
	stop()
	os.Exit(exit)
}
