package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports are taken from below Linux's ephemeral range (32768 and up). A port of that range can
// become the local end of any outgoing connection as soon as its broker is down, and a client
// redialling the dead broker can even connect to itself, so that the restarted broker finds
// its port in use.
const (
	lowestPort  = 10240
	highestPort = 32767
)

// PortBlock is a run of consecutive TCP ports of 127.0.0.1 that no other test process which
// asks this package gets until Close. Nothing listens on them.
type PortBlock struct {
	// First is the lowest port of the block.
	First int
	// claims holds one abstract unix socket a port: the kernel drops them with the process,
	// so that a killed test leaves no stale claim.
	claims []net.Listener
}

// ReservePorts finds count consecutive free ports. The proxy needs them consecutive: it
// listens on its port, and for node n on port + 1 + n.
func ReservePorts(count int) (*PortBlock, error) {
	if count < 1 || count > highestPort-lowestPort {
		return nil, fmt.Errorf("reserve %d ports: want between 1 and %d", count, highestPort-lowestPort)
	}
	var lastErr error
	for range 200 {
		first := lowestPort + rand.IntN(highestPort-lowestPort-count+2)
		block, err := claimPorts(first, count)
		if err == nil {
			return block, nil
		}
		lastErr = err
	}
	return nil, fmt.Errorf("reserve %d consecutive ports: %w", count, lastErr)
}

func claimPorts(first, count int) (*PortBlock, error) {
	block := &PortBlock{First: first}
	for port := first; port < first+count; port++ {
		claim, err := net.Listen("unix", fmt.Sprintf("@kafka-mirror-proxy-testenv-%d", port))
		if err != nil {
			return nil, errors.Join(err, block.Close())
		}
		block.claims = append(block.claims, claim)
		probe, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return nil, errors.Join(err, block.Close())
		}
		if err := probe.Close(); err != nil {
			return nil, errors.Join(err, block.Close())
		}
	}
	return block, nil
}

// Addr is "127.0.0.1:port" of the i-th port of the block, counting from 0.
func (b *PortBlock) Addr(i int) string {
	return fmt.Sprintf("127.0.0.1:%d", b.First+i)
}

// Close gives the ports back.
func (b *PortBlock) Close() error {
	var errs []error
	for _, claim := range b.claims {
		errs = append(errs, claim.Close())
	}
	b.claims = nil
	return errors.Join(errs...)
}

// FreePorts reserves count consecutive ports for the length of the test and returns the first.
func FreePorts(tb testing.TB, count int) int {
	tb.Helper()
	block, err := ReservePorts(count)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := block.Close(); err != nil {
			tb.Errorf("give back ports: %v", err)
		}
	})
	return block.First
}
