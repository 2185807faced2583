package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/testenv"
)

// pollInterval leaves the cores to what is measured.
const pollInterval = 50 * time.Millisecond

// front is one way for clients to reach the one-broker cluster: directly, through a relay, or
// through the proxy.
type front struct {
	bootstrap string
	// broker is the address that serves the broker itself.
	broker string
	// dial leads the addresses that the broker gave somewhere else; nil dials them as they are.
	dial func(ctx context.Context, network, host string) (net.Conn, error)
	// process is what is between client and broker; nil for nothing.
	process *child
	ports   *testenv.PortBlock
}

func (f *front) client(opts ...kgo.Opt) (*kgo.Client, error) {
	opts = append(opts, kgo.SeedBrokers(f.bootstrap))
	if f.dial != nil {
		opts = append(opts, kgo.Dialer(f.dial))
	}
	return kgo.NewClient(opts...)
}

func (f *front) close() error {
	if f.process == nil {
		return nil
	}
	return errors.Join(f.process.stop(), f.ports.Close())
}

func directFront(k *testenv.Kafka) *front {
	addr := k.BrokerAddr(1)
	return &front{bootstrap: addr, broker: addr}
}

// relayFront runs this program again as a plain TCP relay, so that the relay's CPU time is its
// own. The relay rewrites nothing, hence clients dial it whatever address the broker gives them.
func relayFront(ctx context.Context, b *bench) (*front, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start relay: %w", err)
	}
	ports, err := testenv.ReservePorts(1)
	if err != nil {
		return nil, fmt.Errorf("start relay: %w", err)
	}
	addr := ports.Addr(0)
	process, err := startChild("relay", filepath.Join(b.dir, "relay.log"), self, relayCommand, addr, b.destination.BrokerAddr(1))
	if err != nil {
		return nil, errors.Join(err, ports.Close())
	}
	f := &front{bootstrap: addr, broker: addr, process: process, ports: ports}
	f.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = process.await(ctx, func() error {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// startTimeout bounds the start of a relay or proxy; it includes the making of the proxy's
// state topic.
const startTimeout = time.Minute

// proxyFront runs the proxy. Kafka's only node has id 1 and is served at the listen port + 2.
func proxyFront(ctx context.Context, b *bench) (*front, error) {
	ports, err := testenv.ReservePorts(4)
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	listen, broker, admin := ports.Addr(0), ports.Addr(2), ports.Addr(3)
	command := "serve"
	if b.profile != "" {
		command = b.nextProfile()
	}
	args := []string{command, "--listen", listen, "--destination", b.destination.BrokerAddr(1), "--admin-listen", admin, "--log-level", "warn"}
	process, err := startChild("kafka-mirror-proxy", filepath.Join(b.dir, "proxy.log"), b.proxyProgram, args...)
	if err != nil {
		return nil, errors.Join(err, ports.Close())
	}
	f := &front{bootstrap: listen, broker: broker, process: process, ports: ports}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := process.await(ctx, func() error { return checkReady(ctx, "http://"+admin+"/readyz") }); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func checkReady(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return err
}
