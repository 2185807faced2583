package proxy

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"kafka-mirror-proxy/protocol"
)

// countedKeys is how many API keys have a counter of their own; higher ones share one.
const countedKeys = 128

// Metrics are the proxy's counters. All children are resolved at start or when a listener is
// bound, so that the path of a frame does an atomic add and nothing else.
type Metrics struct {
	requests          [countedKeys + 1]prometheus.Counter
	closes            [causes]prometheus.Counter
	refusedPartitions prometheus.Counter
	dialFailures      prometheus.Counter
	acceptFailures    prometheus.Counter
	open              *prometheus.GaugeVec
	accepted          *prometheus.CounterVec
	// written by the two halves of all connections; read at a scrape
	requestBytes, responseBytes atomic.Int64
	heldBytes                   atomic.Int64
	cachedBytes, hiddenBatches  atomic.Int64
}

// NewMetrics makes the collectors and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		refusedPartitions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kafka_mirror_proxy_refused_partitions_total", Help: "Partitions whose produce was refused because the topic is read-only or the proxy's own."}),
		dialFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kafka_mirror_proxy_dial_failures_total", Help: "Failed connects to brokers."}),
		acceptFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kafka_mirror_proxy_accept_failures_total", Help: "Failed accepts, most often for want of file descriptors."}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kafka_mirror_proxy_connections_open", Help: "Client connections open now."}, []string{"listener"}),
		accepted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kafka_mirror_proxy_connections_total", Help: "Client connections accepted."}, []string{"listener"}),
	}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kafka_mirror_proxy_requests_total", Help: "Requests by API key."}, []string{"api"})
	closes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kafka_mirror_proxy_closes_total", Help: "Client connections that ended, by cause."}, []string{"cause"})
	for key := range m.requests {
		name := protocol.KeyName(int16(key))
		if key == countedKeys {
			name = "other"
		}
		m.requests[key] = requests.WithLabelValues(name)
	}
	for cause := range causes {
		m.closes[cause] = closes.WithLabelValues(cause.String())
	}
	collectors := []prometheus.Collector{
		m.refusedPartitions, m.dialFailures, m.acceptFailures, m.open, m.accepted, requests, closes,
		counterOf("kafka_mirror_proxy_request_bytes_total", "Bytes passed from clients to brokers.", &m.requestBytes),
		counterOf("kafka_mirror_proxy_response_bytes_total", "Bytes passed from brokers to clients.", &m.responseBytes),
		counterOf("kafka_mirror_proxy_hidden_batches_total", "Batches of filler, or with filler in them, that consumers were given in another form.", &m.hiddenBatches),
		gaugeOf("kafka_mirror_proxy_held_bytes", "Bytes of frames that are held whole beyond a window.", &m.heldBytes),
		gaugeOf("kafka_mirror_proxy_filler_cached_bytes", "Bytes that are remembered of batches that were looked into for filler.", &m.cachedBytes),
	}
	for _, collector := range collectors {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("register the proxy's metrics: %w", err)
		}
	}
	return m, nil
}

func counterOf(name, help string, value *atomic.Int64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
		func() float64 { return float64(value.Load()) })
}

func gaugeOf(name, help string, value *atomic.Int64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
		func() float64 { return float64(value.Load()) })
}

func (m *Metrics) request(key int16) {
	if key < 0 || key >= countedKeys {
		key = countedKeys
	}
	m.requests[key].Inc()
}

func (m *Metrics) refused(partitions int) { m.refusedPartitions.Add(float64(partitions)) }

func (m *Metrics) close(cause Cause) { m.closes[cause].Inc() }

// listenerMetrics are the children of one listener.
type listenerMetrics struct {
	open     prometheus.Gauge
	accepted prometheus.Counter
}

// listener resolves the children of a broker's listener, -1 for the bootstrap listener.
func (m *Metrics) listener(nodeID int32) listenerMetrics {
	name := "bootstrap"
	if nodeID >= 0 {
		name = strconv.Itoa(int(nodeID))
	}
	return listenerMetrics{open: m.open.WithLabelValues(name), accepted: m.accepted.WithLabelValues(name)}
}
