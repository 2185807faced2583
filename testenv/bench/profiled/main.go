// Command profiled is "kafka-mirror-proxy serve" with a CPU profile of the whole run: the
// product has no profiler of its own.
//
//	profiled FILE --destination HOST:PORT [flags of serve]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"

	"kafka-mirror-proxy/cmd/app"
	"kafka-mirror-proxy/cmd/config"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "profiled:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	if len(args) == 0 {
		return errors.New("want the file for the profile, then the flags of serve")
	}
	cfg, err := config.Parse(args[1:], os.ReadFile, os.Stdout)
	if err != nil {
		return err
	}
	file, err := os.Create(args[0])
	if err != nil {
		return fmt.Errorf("write the profile: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := pprof.StartCPUProfile(file); err != nil {
		return fmt.Errorf("write the profile: %w", err)
	}
	defer pprof.StopCPUProfile() // before the file is closed
	return app.Serve(ctx, cfg, app.World{ReadFile: os.ReadFile, LookupEnv: os.LookupEnv, Err: os.Stderr})
}
