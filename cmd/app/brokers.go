package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/proxy"
)

const (
	// brokersInterval is how often the destination is asked who its brokers are. Relayed answers tell of new ones at once.
	brokersInterval = 2 * time.Second
	// brokersTimeout is how long one try may take.
	brokersTimeout = 5 * time.Second
)

// brokerWatch keeps the proxy's listeners in step with the destination's brokers.
type brokerWatch struct {
	destination *kgo.Client
	set         func([]proxy.Broker) error
	log         zerolog.Logger
	problem     atomic.Pointer[string] // why the brokers are not known, nil when they are
}

// run asks until ctx ends. The destination may be down: that is said once, and asked on.
func (w *brokerWatch) run(ctx context.Context) error {
	tick := time.NewTicker(brokersInterval)
	defer tick.Stop()
	for {
		w.note(w.ask(ctx))
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *brokerWatch) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, brokersTimeout)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{}
	response, err := request.RequestWith(ctx, w.destination)
	if err != nil {
		return fmt.Errorf("destination: no broker answers: %w", err)
	}
	if len(response.Brokers) == 0 {
		return fmt.Errorf("destination: it names no brokers yet")
	}
	brokers := make([]proxy.Broker, len(response.Brokers))
	for i, b := range response.Brokers {
		brokers[i] = proxy.Broker{ID: b.NodeID, Host: b.Host, Port: b.Port}
	}
	return w.set(brokers)
}

// note logs a change for better or worse, not every try.
func (w *brokerWatch) note(err error) {
	was := w.problem.Load()
	if err == nil {
		if was != nil {
			w.log.Info().Msg("the destination's brokers are known")
		}
		w.problem.Store(nil)
		return
	}
	text := err.Error()
	if was == nil || *was != text {
		w.log.Error().Err(err).Msg("cannot serve the destination's brokers; trying on")
	}
	w.problem.Store(&text)
}

func (w *brokerWatch) problems() []string {
	if p := w.problem.Load(); p != nil {
		return []string{*p}
	}
	return nil
}
