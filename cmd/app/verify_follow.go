package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"kafka-mirror-proxy/replicate/verify"
)

// roundPause is between two rounds of verify --follow: small topics are not read without a break.
const roundPause = 10 * time.Second

// followVerify compares until ctx ends. Reports go to out, what a person has to know of to errs, as log lines.
func followVerify(ctx context.Context, s *verifySettings, out, errs io.Writer) int {
	log := zerolog.New(zerolog.SyncWriter(errs)).With().Timestamp().Logger()
	metrics, registry := newVerifyMetrics()
	if s.adminListen != "" {
		listener, err := net.Listen("tcp", s.adminListen)
		if err != nil {
			fmt.Fprintln(errs, "kafka-mirror-proxy verify: admin-listen:", err)
			return 2
		}
		stopped := make(chan struct{})
		admin, cancel := context.WithCancel(ctx)
		go func() {
			defer close(stopped)
			if err := serveAdmin(admin, listener, adminHandler(registry, func() []string { return nil })); err != nil {
				log.Error().Err(err).Msg("metrics are not served any more")
			}
		}()
		defer func() { cancel(); <-stopped }()
		log.Info().Str("admin_listen", listener.Addr().String()).Msg("comparing again and again")
	}
	exit := 0
	verify.Follow(ctx, s.Config, roundPause, func(report verify.Report, err error) {
		metrics.observe(report, err)
		if err != nil {
			log.Error().Err(err).Msg("could not compare; trying again")
			return
		}
		for _, p := range report.Differing() {
			exit = 1
			log.Error().Str("topic", p.Topic).Int32("partition", p.Partition).Str("difference", p.Difference).
				Msg("the destination differs from the source")
		}
		if err := s.print(out, report); err != nil {
			log.Error().Err(err).Msg("the report could not be written")
		}
	})
	return exit
}

// verifyMetrics say how the rounds went. A partition's gauge is that of the last round that could be made.
type verifyMetrics struct {
	different               *prometheus.GaugeVec
	last, share             prometheus.Gauge
	rounds, errors          prometheus.Counter
	records, offsets, found prometheus.Counter
}

func newVerifyMetrics() (*verifyMetrics, *prometheus.Registry) {
	const prefix = "kafka_mirror_proxy_verify_"
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	}
	m := &verifyMetrics{
		different: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "different", Help: "1 when the partition differed in the last round, 0 when it was equal.",
		}, []string{"topic", "partition"}),
		last:    gauge("last_round_timestamp_seconds", "When the last round that could be made ended."),
		share:   gauge("compared_share", "Share of the offsets that the last round compared."),
		rounds:  counter("rounds_total", "Rounds that could be made."),
		errors:  counter("errors_total", "Rounds that could not be made."),
		records: counter("records_total", "Records found equal."),
		offsets: counter("compared_offsets_total", "Offsets compared."),
		found:   counter("differences_total", "Partitions found different, each round anew."),
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.different, m.last, m.share, m.rounds, m.errors, m.records, m.offsets, m.found)
	return m, registry
}

func (m *verifyMetrics) observe(report verify.Report, err error) {
	if err != nil {
		m.errors.Inc()
		return
	}
	m.different.Reset() // a topic may have fewer partitions than before
	for _, p := range report.Partitions {
		m.offsets.Add(float64(p.Compared))
		different := 0.0
		if p.Difference != "" {
			different = 1
			m.found.Inc()
		}
		m.different.WithLabelValues(p.Topic, strconv.Itoa(int(p.Partition))).Set(different)
	}
	m.records.Add(float64(report.Records()))
	m.share.Set(report.Share())
	m.last.SetToCurrentTime()
	m.rounds.Inc()
}
