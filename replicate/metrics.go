package replicate

import (
	"math"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"kafka-mirror-proxy/state"
)

// The metrics of KIP-1279 under their JMX names, as wire.md section 7 spells them for
// Prometheus, and ours with the prefix kafka_mirror_proxy_. They are read from the view and the
// board when they are asked for. A lag that is not known has no sample, and MaxLag is NaN while
// a partition that should be copied has none: dead replication never reads 0.
var (
	partitionLabels = []string{"mirror", "topic", "partition"}

	fetcherManager = prometheus.Labels{"clientid": "MirrorReplica"}

	maxLagDesc       = prometheus.NewDesc("kafka_server_mirror_mirrorfetchermanager_maxlag", "Largest lag in records; NaN while one is not known.", nil, fetcherManager)
	failedCountDesc  = prometheus.NewDesc("kafka_server_mirror_mirrorfetchermanager_failedpartitionscount", "Partitions that are FAILED.", nil, fetcherManager)
	deadThreadsDesc  = prometheus.NewDesc("kafka_server_mirror_mirrorfetchermanager_deadthreadcount", "Fetchers that have died; they do not, so this is 0.", nil, fetcherManager)
	consumerLagDesc  = prometheus.NewDesc("kafka_server_fetcherlagmetrics_consumerlag", "Lag in records of a partition that is being copied.", []string{"clientid", "topic", "partition"}, nil)
	fetchBytesDesc   = prometheus.NewDesc("kafka_server_fetcherstats_bytespersec_total", "Bytes of record batches fetched.", []string{"clientid", "brokerhost", "brokerport"}, nil)
	fetchCountDesc   = prometheus.NewDesc("kafka_server_fetcherstats_requestspersec_total", "Fetch requests.", []string{"clientid", "brokerhost", "brokerport"}, nil)
	sourceErrorDesc  = prometheus.NewDesc("kafka_mirror_proxy_source_error", "1 while the source of a mirror cannot be used.", []string{"mirror"}, nil)
	gapDesc          = prometheus.NewDesc("kafka_mirror_proxy_gap_records", "Records that the source has deleted before they were copied, before which a partition stands FAILED.", partitionLabels, nil)
	skippedDesc      = prometheus.NewDesc("kafka_mirror_proxy_gap_skipped_records_total", "Offsets of records that the source had deleted before they were copied, filled by mirror.gap.policy=skip.", partitionLabels, nil)
	bufferedDesc     = prometheus.NewDesc("kafka_mirror_proxy_replication_buffered_bytes", "Bytes fetched, or being fetched, and not yet written.", nil, nil)
	ownerDesc        = prometheus.NewDesc("kafka_mirror_proxy_owner", "1 while this process owns the mirrors.", nil, nil)
	guardedDesc      = prometheus.NewDesc("kafka_mirror_proxy_guarded_partitions", "Partitions in MIRRORING at whose log end the destination refuses what the mirror did not mean to append there.", nil, nil)
	unguardedDesc    = prometheus.NewDesc("kafka_mirror_proxy_unguarded_partitions", "Partitions in MIRRORING where a record at a wrong offset could only be found afterwards.", nil, nil)
	wrongOffsetsDesc = prometheus.NewDesc("kafka_mirror_proxy_wrong_offsets_total", "Batches that the destination appended at another offset than theirs; their partitions are FAILED.", nil, nil)
	countedStatuses  = []state.Status{state.Preparing, state.Mirroring, state.Pausing, state.Paused, state.Stopping, state.Stopped, state.Failed}
	partitionsByName = map[state.Status]*prometheus.Desc{
		state.Preparing: statusDesc("preparing"), state.Mirroring: statusDesc("mirroring"), state.Pausing: statusDesc("pausing"), state.Paused: statusDesc("paused"),
		state.Stopping: statusDesc("stopping"), state.Stopped: statusDesc("stopped"), state.Failed: statusDesc("failed"),
	}
)

func statusDesc(name string) *prometheus.Desc {
	return prometheus.NewDesc("kafka_server_mirror_mirrormetadatamanager_"+name+"partitionstate", "Partitions that are "+name+".", nil, nil)
}

// Describe implements prometheus.Collector.
func (r *Replicator) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{maxLagDesc, failedCountDesc, deadThreadsDesc, consumerLagDesc, fetchBytesDesc, fetchCountDesc, sourceErrorDesc, gapDesc, skippedDesc, bufferedDesc, ownerDesc,
		guardedDesc, unguardedDesc, wrongOffsetsDesc} {
		out <- desc
	}
	for _, status := range countedStatuses {
		out <- partitionsByName[status]
	}
}

// Collect implements prometheus.Collector.
func (r *Replicator) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	t := r.current()
	gauge(ownerDesc, boolValue(t != nil))
	gauge(bufferedDesc, float64(r.budget.Used()))
	gauge(deadThreadsDesc, 0)
	out <- prometheus.MustNewConstMetric(wrongOffsetsDesc, prometheus.CounterValue, float64(r.wrongOffsets.Load()))
	if t == nil {
		return // the owner reports the mirrors
	}
	view := r.cfg.Store.View()
	counts := map[state.Status]int{}
	guards := map[string]int{}
	nowMs := r.cfg.Clock().UnixMilli()
	maxLag := 0.0
	for _, mirror := range view.Mirrors() {
		gauge(sourceErrorDesc, boolValue(r.cfg.Live.MirrorError(mirror.Name) != ""), mirror.Name)
		for _, topic := range view.TopicsOf(mirror.Name) {
			for i := range topic.Partitions {
				id := state.PartitionID{Topic: topic.ID, Partition: i}
				status := view.Partition(id).Status
				counts[status]++
				r.collectGaps(out, view, topic, id)
				if live, ok := r.cfg.Live.Get(id); ok && status == state.Mirroring {
					guards[live.Guard(nowMs)]++
				}
				if topic.Desired != state.DesiredMirroring {
					continue
				}
				lag, known := r.lag(id)
				if known = known && status == state.Mirroring; known {
					gauge(consumerLagDesc, lag, t.fetcherID(id), topic.Name, strconv.Itoa(int(i)))
					maxLag = max(maxLag, lag) // NaN stays NaN
				} else {
					maxLag = math.NaN()
				}
			}
		}
	}
	gauge(maxLagDesc, maxLag)
	gauge(guardedDesc, float64(guards[state.GuardSequence]))
	gauge(unguardedDesc, float64(guards[state.GuardDetection]))
	gauge(failedCountDesc, float64(counts[state.Failed]))
	for _, status := range countedStatuses {
		gauge(partitionsByName[status], float64(counts[status]))
	}
	t.collectFetchers(out)
}

// collectGaps reports the records of a partition that the source deleted before they were copied.
func (r *Replicator) collectGaps(out chan<- prometheus.Metric, view *state.View, topic *state.Topic, id state.PartitionID) {
	labels := []string{topic.Mirror, topic.Name, strconv.Itoa(int(id.Partition))}
	if live, ok := r.cfg.Live.Get(id); ok && live.GapRecords.Load() > 0 && view.Partition(id).Status == state.Failed {
		out <- prometheus.MustNewConstMetric(gapDesc, prometheus.GaugeValue, float64(live.GapRecords.Load()), labels...)
	}
	if skipped := view.Progress(id).Skipped.Records; skipped > 0 {
		out <- prometheus.MustNewConstMetric(skippedDesc, prometheus.CounterValue, float64(skipped), labels...)
	}
}

// lag is source end minus destination end, when both are known.
func (r *Replicator) lag(id state.PartitionID) (float64, bool) {
	live, ok := r.cfg.Live.Get(id)
	if !ok {
		return 0, false
	}
	source, destination := live.SourceOffset.Load(), live.DestinationOffset.Load()
	return float64(max(source-destination, 0)), source >= 0 && destination >= 0
}

func (t *tenure) collectFetchers(out chan<- prometheus.Metric) {
	for _, f := range t.fetchers() {
		host, port := f.address()
		out <- prometheus.MustNewConstMetric(fetchBytesDesc, prometheus.CounterValue, float64(f.bytes.Load()), f.clientID(), host, port)
		out <- prometheus.MustNewConstMetric(fetchCountDesc, prometheus.CounterValue, float64(f.requests.Load()), f.clientID(), host, port)
	}
}

func (t *tenure) fetchers() []*fetcher {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*fetcher
	for _, s := range t.sources {
		s.mu.Lock()
		for _, f := range s.fetchers {
			all = append(all, f)
		}
		s.mu.Unlock()
	}
	return all
}

// fetcherID names the fetcher that a partition was last given to.
func (t *tenure) fetcherID(id state.PartitionID) string {
	t.mu.Lock()
	p := t.partitions[id]
	t.mu.Unlock()
	if p == nil {
		return ""
	}
	if name := p.fetcherID.Load(); name != nil {
		return *name
	}
	return ""
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
