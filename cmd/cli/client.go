package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/cmd/config"
	"kafka-mirror-proxy/protocol/mirrormsg"
)

// readProperties reads a file in Java's properties format. References in it are resolved by the proxy, not by this tool.
func readProperties(file string, readFile func(string) ([]byte, error)) (map[string]string, error) {
	b, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("read properties: %w", err)
	}
	configs, err := config.Properties(b)
	if err != nil {
		return nil, fmt.Errorf("read properties %s: %w", file, err)
	}
	return configs, nil
}

// client talks to the proxy, and only to it.
type client struct {
	kafka   *kgo.Client
	dialect *mirrormsg.Dialect
	servers string
}

// newClient connects to the bootstrap servers and makes sure that the mirror APIs are there: their numbers mean other
// things to brokers of later Kafka releases, so they must not be sent to just anybody.
func newClient(ctx context.Context, env Env, o *options) (*client, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.bootstrapServers...), kgo.ClientID("kafka-mirrors"),
		kgo.MaxVersions(mirrormsg.VersionsWithMirrors()), kgo.RequestRetries(3), kgo.RetryTimeout(10 * time.Second),
	}
	if o.commandConfig != "" {
		configs, err := readProperties(o.commandConfig, env.ReadFile)
		if err != nil {
			return nil, err
		}
		configs["bootstrap.servers"] = strings.Join(o.bootstrapServers, ",") // the flag's, whatever the file has
		more, err := env.ClientOptions(configs)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.commandConfig, err)
		}
		opts = append(opts, more...)
	}
	kafka, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-server: %w", err)
	}
	c := &client{kafka: kafka, dialect: &mirrormsg.Seed, servers: strings.Join(o.bootstrapServers, ",")}
	if err := c.checkServer(ctx); err != nil {
		kafka.Close()
		return nil, err
	}
	return c, nil
}

func (c *client) checkServer(ctx context.Context) error {
	request := kmsg.NewPtrApiVersionsRequest()
	request.ClientSoftwareName, request.ClientSoftwareVersion = "kafka-mirrors", "1"
	response, err := request.RequestWith(ctx, c.kafka)
	if err != nil {
		if ctx.Err() == nil && (errors.Is(err, io.EOF) || errors.Is(err, kgo.ErrClientClosed)) {
			return fmt.Errorf("%s closed the connection: is it a Kafka listener of kafka-mirror-proxy, is the destination up (the proxy's /readyz tells), and does the security match --command-config? (%w)", c.servers, err)
		}
		return fmt.Errorf("cannot reach kafka-mirror-proxy at %s: %w", c.servers, err)
	}
	offered := map[int16]bool{}
	for _, k := range response.ApiKeys {
		offered[k.ApiKey] = true
	}
	for _, row := range c.dialect.Keys {
		if !offered[row.Key] {
			return fmt.Errorf("%s does not offer cluster mirroring (API %s is missing): point --bootstrap-server at kafka-mirror-proxy", c.servers, row.API)
		}
	}
	return nil
}

// serverError is an error code that the proxy answered with.
type serverError struct {
	code    mirrormsg.ErrorCode
	message string
}

func (e *serverError) Error() string {
	if e.message != "" {
		return e.message
	}
	if m := e.code.Message(); m != "" {
		return m
	}
	if err := kerr.ErrorForCode(int16(e.code)); err != nil {
		return err.Error()
	}
	return e.code.String()
}

func statusError(s *mirrormsg.Status) error {
	if s.ErrorCode == mirrormsg.NoError {
		return nil
	}
	e := &serverError{code: s.ErrorCode}
	if s.ErrorMessage != nil {
		e.message = *s.ErrorMessage
	}
	return e
}

// call sends a mirror request, and again while the proxy says that its state is still loading. The answer's top-level
// code becomes an error.
func call[R mirrormsg.Response](ctx context.Context, c *client, to kmsg.Requestor, req mirrormsg.Request) (R, error) {
	for {
		response, err := mirrormsg.Do[R](ctx, to, c.dialect, req)
		if err != nil {
			return response, fmt.Errorf("%s at %s: %w", req.API(), c.servers, err)
		}
		status := response.TopLevel()
		if status.ErrorCode != mirrormsg.CoordinatorLoadInProgress && status.ErrorCode != mirrormsg.CoordinatorNotAvailable {
			return response, statusError(status)
		}
		select {
		case <-ctx.Done():
			return response, fmt.Errorf("%s at %s: gave up: %w", req.API(), c.servers, statusError(status))
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// extended asks for the reasons that only our tagged fields carry.
func extended() mirrormsg.Marker { return mirrormsg.Marker{Extended: true} }
