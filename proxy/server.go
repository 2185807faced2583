package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"kafka-mirror-proxy/enforce"
)

// Config is what a Server is made of.
type Config struct {
	// Listen is the bootstrap listener's host:port. Broker n listens on port + 1 + n.
	Listen string
	// AdvertisedHost is the host that clients are told. Default: the host of Listen.
	AdvertisedHost string
	// NodePorts overrides the port of a broker by its id.
	NodePorts map[int32]int
	// Dialer connects to a broker at host:port. Default: TCP.
	Dialer func(ctx context.Context, addr string) (net.Conn, error)
	Policy *enforce.Policy
	Gate   *enforce.Gate
	Local  LocalHandler
	// Dialect is handed to the LocalHandler as it is; with DialectNone the mirror APIs are
	// neither offered nor answered.
	Dialect string
	Limits  Limits
	Log     zerolog.Logger
	Metrics *Metrics
}

// Broker is one broker of the destination and where the proxy reaches it.
type Broker struct {
	ID   int32
	Host string
	Port int32
}

// bootstrapNode stands for no broker in particular.
const bootstrapNode int32 = -1

// Server is the proxy's data plane: a bootstrap listener and one listener a destination
// broker. Its methods may be called by any goroutine; Run is called once and owns every goroutine.
type Server struct {
	cfg      Config
	limits   Limits
	topology *topology
	shared   *shared
	engine   *netEngine
	turn     atomic.Uint32 // of the broker that the next bootstrap connection tries first
	open     atomic.Int64
	acceptor acceptLog

	// draining ends when no more is accepted, hard when connections are cut.
	draining, hard         context.Context
	stopAccepting, cutHard context.CancelFunc
	started                chan struct{} // closed by Run
	running                sync.WaitGroup
}

// New checks the config and binds the bootstrap listener. Nothing is accepted before Run, so that
// SetBrokers can bind the brokers' listeners first. A server that is never run is closed by Close.
func New(cfg Config) (*Server, error) {
	if cfg.Policy == nil || cfg.Gate == nil || cfg.Local == nil || cfg.Metrics == nil {
		return nil, errors.New("proxy: policy, gate, local handler and metrics are needed")
	}
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen address %q: %w", cfg.Listen, err)
	}
	if cfg.AdvertisedHost == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			return nil, fmt.Errorf("listen address %q names no host that clients can dial: give the advertised host", cfg.Listen)
		}
		cfg.AdvertisedHost = host
	}
	if cfg.Dialer == nil {
		var dialer net.Dialer
		cfg.Dialer = func(ctx context.Context, addr string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) }
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("bind the bootstrap listener: %w", err)
	}
	s := &Server{cfg: cfg, limits: cfg.Limits.WithDefaults(), started: make(chan struct{})}
	s.acceptor = acceptLog{refused: rate.Sometimes{Interval: acceptLogInterval}, failed: rate.Sometimes{Interval: acceptLogInterval},
		closes: rate.NewLimiter(closeLogsPerSecond, closeLogsBurst)}
	s.draining, s.stopAccepting = context.WithCancel(context.Background())
	s.hard, s.cutHard = context.WithCancel(context.Background())
	if s.shared, err = newShared(cfg.Policy, cfg.Gate, s.limits, cfg.Metrics); err != nil {
		listener.Close()
		return nil, fmt.Errorf("proxy: %w", err)
	}
	s.shared.observe = func(nodeID int32, host string, port int32) (string, int32) {
		s.Observe(nodeID, host, port)
		return s.Address(nodeID)
	}
	s.shared.address = func(nodeID int32, _ string, _ int32) (string, int32) { return s.Address(nodeID) }
	s.shared.hold = newHolds(s.draining, cfg.Policy.Ready, s.limits).hold
	s.engine = newNetEngine(s.draining, s.limits, cfg.Local, cfg.Metrics)
	port := listener.Addr().(*net.TCPAddr).Port
	s.topology = newTopology(addresses{host: cfg.AdvertisedHost, basePort: port, nodePorts: cfg.NodePorts}, host, s.serveListener)
	s.serveListener(bootstrapNode, listener)
	return s, nil
}

// Addr is the bootstrap listener's host:port as clients are told.
func (s *Server) Addr() string {
	return net.JoinHostPort(s.topology.host, strconv.Itoa(s.topology.basePort))
}

// SetBrokers says which brokers the destination has now: listeners of new ones are bound, of
// gone ones closed, and new connections to one that moved dial its new address. The error
// joins what could not be bound; that is tried again by Run.
func (s *Server) SetBrokers(brokers []Broker) error { return s.topology.set(brokers) }

// Observe adds or moves one broker seen in a relayed answer. It takes none away.
func (s *Server) Observe(nodeID int32, host string, port int32) {
	s.topology.observe(Broker{ID: nodeID, Host: host, Port: port})
}

// Address is what clients are told about a broker; "" and -1 for node ids below 0.
func (s *Server) Address(nodeID int32) (host string, port int32) { return s.topology.address(nodeID) }

// Problems says in sentences why the server cannot serve all brokers, none when it can.
func (s *Server) Problems() []string {
	brokers, err := s.topology.all()
	var problems []string
	if len(brokers) == 0 {
		problems = append(problems, "no broker of the destination is known yet")
	}
	if err != nil {
		problems = append(problems, strings.Split(err.Error(), "\n")...)
	}
	return problems
}

// bindRetryInterval is how often Run tries to bind what could not be bound.
const bindRetryInterval = 2 * time.Second

// Run serves until ctx ends, then drains: nothing more is accepted or taken from clients, answers
// that are due are given, and after Limits.Drain what is left is cut. It returns when every
// connection is closed.
func (s *Server) Run(ctx context.Context) error {
	close(s.started)
	ticker := time.NewTicker(bindRetryInterval)
	defer ticker.Stop()
	patrol := time.NewTicker(patrolInterval)
	defer patrol.Stop()
	for {
		select {
		case <-ticker.C:
			s.topology.retry()
		case now := <-patrol.C:
			s.engine.patrol(s.cfg.Gate, now)
		case <-ctx.Done():
			s.Close()
			return nil
		}
	}
}

// Close drains as Run does at its end.
func (s *Server) Close() {
	s.stopAccepting()
	s.topology.close()
	cut := time.AfterFunc(s.limits.Drain, s.cutHard)
	s.running.Wait()
	cut.Stop()
	s.cutHard()
}

// dialFor returns how a connection of a listener gets to its broker.
func (s *Server) dialFor(nodeID int32) func(context.Context) (net.Conn, error) {
	if nodeID == bootstrapNode {
		return s.dialAny
	}
	return func(ctx context.Context) (net.Conn, error) {
		broker, ok := s.topology.broker(nodeID)
		if !ok {
			return nil, fmt.Errorf("broker %d is not in the destination cluster", nodeID)
		}
		return s.cfg.Dialer(ctx, broker.dialAddress())
	}
}

// dialAny connects to the brokers in turn until one answers.
func (s *Server) dialAny(ctx context.Context) (net.Conn, error) {
	brokers, _ := s.topology.all()
	if len(brokers) == 0 {
		return nil, errors.New("no broker of the destination is known yet")
	}
	first := int(s.turn.Add(1))
	var errs []error
	for i := range brokers {
		// A broker that swallows the connect must not use up the time of the others.
		attempt, cancel := context.WithTimeout(ctx, s.limits.Dial/time.Duration(min(len(brokers), 3)))
		conn, err := s.cfg.Dialer(attempt, brokers[(first+i)%len(brokers)].dialAddress())
		cancel()
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}
