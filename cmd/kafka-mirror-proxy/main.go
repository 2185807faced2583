// Command kafka-mirror-proxy puts a proxy in front of a stock Kafka cluster that makes it a mirror destination.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"kafka-mirror-proxy/cmd/app"
	"kafka-mirror-proxy/cmd/config"
	"kafka-mirror-proxy/cmd/version"
)

const usage = `Usage:
  kafka-mirror-proxy serve --destination HOST:PORT [flags]    run the proxy (serve --help lists the flags)
  kafka-mirror-proxy verify --source HOST:PORT --destination HOST:PORT --topic NAME [flags]
                                                              compare a mirrored topic with its source, record by record
                                                              (verify --help lists the flags)
  kafka-mirror-proxy version
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "serve":
		return serve(ctx, args[1:])
	case "verify":
		return app.Verify(ctx, args[1:], os.Stdout, os.Stderr, os.ReadFile)
	case "version", "--version":
		fmt.Println(version.String())
		return 0
	case "help", "--help", "-h":
		fmt.Print(usage)
		return 0
	}
	fmt.Fprint(os.Stderr, usage)
	return 2
}

func serve(ctx context.Context, args []string) int {
	cfg, err := config.Parse(args, os.ReadFile, os.Stdout)
	if errors.Is(err, config.ErrHelp) {
		return 0
	}
	if err == nil {
		err = app.Serve(ctx, cfg, app.World{ReadFile: os.ReadFile, LookupEnv: os.LookupEnv, Err: os.Stderr})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kafka-mirror-proxy:", err)
		return 1
	}
	return 0
}
