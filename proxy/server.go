package proxy

import (
	"context"
	"errors"
	"net"

	"github.com/rs/zerolog"

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
	// Dialer connects to a broker. Default: net.Dialer.
	Dialer func(ctx context.Context, addr string) (net.Conn, error)
	Policy *enforce.Policy
	Gate   *enforce.Gate
	Local  LocalHandler
	// Dialect is handed to the LocalHandler as it is.
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

// Server is the proxy's data plane: a bootstrap listener and one listener a destination broker.
type Server struct {
	cfg Config
}

// New checks the config and binds the bootstrap listener.
func New(cfg Config) (*Server, error) {
	if cfg.Policy == nil || cfg.Gate == nil || cfg.Local == nil || cfg.Metrics == nil {
		return nil, errors.New("proxy: policy, gate, local handler and metrics are needed")
	}
	return &Server{cfg: cfg}, nil
}

// Run serves until ctx ends, then drains.
func (s *Server) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// SetBrokers says which brokers the destination has now: listeners of new ones are bound, of
// gone ones closed, and new connections to one that moved dial its new address. The error
// joins what could not be bound; those are tried again by Run.
func (s *Server) SetBrokers(brokers []Broker) error { return nil }

// Observe adds or moves one broker seen in a relayed answer. It takes none away.
func (s *Server) Observe(nodeID int32, host string, port int32) {}

// Address is what clients are told about a broker; "" and -1 for node ids below 0.
func (s *Server) Address(nodeID int32) (host string, port int32) { return "", -1 }

// Problems says in sentences why the server cannot serve all brokers, none when it can.
func (s *Server) Problems() []string { return nil }
