package sim

import (
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
)

// passing are errors of a produce for which nothing was appended.
var passing = []int16{kerr.NotLeaderForPartition.Code, kerr.NotEnoughReplicas.Code, kerr.OutOfOrderSequenceNumber.Code,
	kerr.CorruptMessage.Code, kerr.KafkaStorageError.Code, kerr.UnknownTopicID.Code}

// answer carries a request out; nil closes the connection.
func (c *cluster) answer(request kmsg.Request, broker int32, f fault) kmsg.Response {
	answer := request.ResponseKind()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	switch r := request.(type) {
	case *kmsg.ApiVersionsRequest:
		c.apiVersions(answer.(*kmsg.ApiVersionsResponse))
	case *kmsg.MetadataRequest:
		c.metadata(r, answer.(*kmsg.MetadataResponse))
	case *kmsg.ListOffsetsRequest:
		c.listOffsets(r, answer.(*kmsg.ListOffsetsResponse), broker)
	case *kmsg.FetchRequest:
		c.fetch(r, answer.(*kmsg.FetchResponse), broker)
	case *kmsg.OffsetForLeaderEpochRequest:
		c.epochEnds(r, answer.(*kmsg.OffsetForLeaderEpochResponse), broker)
	case *kmsg.DescribeConfigsRequest:
		c.describeConfigs(r, answer.(*kmsg.DescribeConfigsResponse))
	case *kmsg.IncrementalAlterConfigsRequest:
		c.alterConfigs(r, answer.(*kmsg.IncrementalAlterConfigsResponse))
	case *kmsg.ProduceRequest:
		c.produce(r, answer.(*kmsg.ProduceResponse), broker, f.refusal)
	case *kmsg.DescribeProducersRequest:
		c.describeProducers(r, answer.(*kmsg.DescribeProducersResponse), broker)
	case *kmsg.DeleteRecordsRequest:
		c.deleteRecords(r, answer.(*kmsg.DeleteRecordsResponse), broker)
	case *kmsg.WriteTxnMarkersRequest:
		c.writeMarkers(r, answer.(*kmsg.WriteTxnMarkersResponse), broker)
	default:
		return nil
	}
	return answer
}

func (c *cluster) apiVersions(answer *kmsg.ApiVersionsResponse) {
	for key, version := range map[kmsg.Key]int16{kmsg.ApiVersions: 3, kmsg.Metadata: 12, kmsg.ListOffsets: 7, kmsg.Fetch: 13, kmsg.OffsetForLeaderEpoch: 4,
		kmsg.DescribeConfigs: 4, kmsg.IncrementalAlterConfigs: 1, kmsg.Produce: 13, kmsg.DescribeProducers: 0, kmsg.DeleteRecords: 2, kmsg.WriteTxnMarkers: 1} {
		answer.ApiKeys = append(answer.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key.Int16(), MaxVersion: version})
	}
}

func (c *cluster) metadata(r *kmsg.MetadataRequest, answer *kmsg.MetadataResponse) {
	answer.ClusterID = kmsg.StringPtr(c.name)
	for id := range c.brokers {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = id, c.host(id), 9092
		answer.Brokers = append(answer.Brokers, b)
	}
	for _, asked := range r.Topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic = asked.Topic
		if asked.Topic == nil || *asked.Topic != c.topic {
			t.ErrorCode = kerr.UnknownTopicOrPartition.Code
		} else {
			t.TopicID = c.topicID
			for i := int32(0); c.log(i) != nil; i++ {
				p := kmsg.NewMetadataResponseTopicPartition()
				p.Partition, p.Leader, p.LeaderEpoch = i, c.log(i).leader, c.log(i).epoch
				t.Partitions = append(t.Partitions, p)
			}
		}
		answer.Topics = append(answer.Topics, t)
	}
}

// led is a partition's log where the broker leads it, and the error code where not.
func (c *cluster) led(topic string, id [16]byte, partition, broker int32) (*partitionLog, int16) {
	switch l := c.log(partition); {
	case l == nil || topic != c.topic && id != c.topicID:
		return nil, kerr.UnknownTopicOrPartition.Code
	case l.leader != broker:
		return nil, kerr.NotLeaderForPartition.Code
	default:
		return l, 0
	}
}

func (c *cluster) listOffsets(r *kmsg.ListOffsetsRequest, answer *kmsg.ListOffsetsResponse, broker int32) {
	for _, t := range r.Topics {
		at := kmsg.NewListOffsetsResponseTopic()
		at.Topic = t.Topic
		for _, p := range t.Partitions {
			ap := kmsg.NewListOffsetsResponseTopicPartition()
			ap.Partition = p.Partition
			l, code := c.led(t.Topic, [16]byte{}, p.Partition, broker)
			ap.ErrorCode = code
			if code == 0 {
				ap.Offset = l.hw
				if p.Timestamp == -2 {
					ap.Offset = l.start
				}
			}
			at.Partitions = append(at.Partitions, ap)
		}
		answer.Topics = append(answer.Topics, at)
	}
}

func (c *cluster) fetch(r *kmsg.FetchRequest, answer *kmsg.FetchResponse, broker int32) {
	deadline := time.Now().Add(time.Duration(r.MaxWaitMillis) * time.Millisecond)
	for {
		answer.Topics = nil
		ready := false
		var changed []chan struct{}
		left := int(r.MaxBytes)
		for _, t := range r.Topics {
			at := kmsg.NewFetchResponseTopic()
			at.Topic, at.TopicID = t.Topic, t.TopicID
			for i := range t.Partitions {
				ap := c.fetchPartition(&t, &t.Partitions[i], broker, r.IsolationLevel == 1, left)
				left = max(left-len(ap.RecordBatches), 0)
				ready = ready || len(ap.RecordBatches) > 0 || ap.ErrorCode != 0 || ap.DivergingEpoch.Epoch >= 0
				at.Partitions = append(at.Partitions, ap)
				if l := c.log(t.Partitions[i].Partition); l != nil {
					changed = append(changed, l.changed)
				}
			}
			answer.Topics = append(answer.Topics, at)
		}
		wait := time.Until(deadline)
		if ready || wait <= 0 || c.closed || len(changed) == 0 {
			return
		}
		if len(changed) > 1 {
			wait = min(wait, 100*time.Millisecond) // the change of another partition is seen then
		}
		c.await(changed[0], wait)
	}
}

// await lets go of mu until something changes.
func (c *cluster) await(changed chan struct{}, most time.Duration) {
	c.mu.Unlock()
	defer c.mu.Lock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

func (c *cluster) fetchPartition(t *kmsg.FetchRequestTopic, p *kmsg.FetchRequestTopicPartition, broker int32, committed bool, left int) kmsg.FetchResponseTopicPartition {
	ap := kmsg.NewFetchResponseTopicPartition()
	ap.Partition, ap.HighWatermark = p.Partition, -1
	l, code := c.led(t.Topic, t.TopicID, p.Partition, broker)
	if ap.ErrorCode = code; code != 0 {
		return ap
	}
	end := l.hw
	if len(c.sources) > 0 {
		ap.LastStableOffset = c.sources[p.Partition].stable()
		if committed {
			end = ap.LastStableOffset
		}
	}
	if p.LastFetchedEpoch >= 0 {
		known, epochEnd := l.epochEnd(p.LastFetchedEpoch)
		switch {
		case known < 0:
			ap.ErrorCode = kerr.OffsetOutOfRange.Code
			return ap
		case known < p.LastFetchedEpoch || epochEnd < p.FetchOffset:
			ap.DivergingEpoch.Epoch, ap.DivergingEpoch.EndOffset = known, epochEnd
			ap.HighWatermark, ap.LogStartOffset = l.hw, l.start
			return ap
		}
	}
	if p.FetchOffset < l.start || p.FetchOffset > l.end {
		ap.ErrorCode = kerr.OffsetOutOfRange.Code
		return ap
	}
	ap.HighWatermark, ap.LogStartOffset = l.hw, l.start
	if left > 0 {
		ap.RecordBatches = l.read(p.FetchOffset, end, min(int(p.PartitionMaxBytes), left))
	}
	if committed && len(c.sources) > 0 {
		ap.AbortedTransactions = c.sources[p.Partition].aborted(p.FetchOffset, end)
	}
	return ap
}

func (c *cluster) epochEnds(r *kmsg.OffsetForLeaderEpochRequest, answer *kmsg.OffsetForLeaderEpochResponse, broker int32) {
	for _, t := range r.Topics {
		at := kmsg.NewOffsetForLeaderEpochResponseTopic()
		at.Topic = t.Topic
		for _, p := range t.Partitions {
			ap := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			ap.Partition = p.Partition
			l, code := c.led(t.Topic, [16]byte{}, p.Partition, broker)
			if code == 0 && p.CurrentLeaderEpoch >= 0 && p.CurrentLeaderEpoch != l.epoch {
				code = kerr.FencedLeaderEpoch.Code
				if p.CurrentLeaderEpoch > l.epoch {
					code = kerr.UnknownLeaderEpoch.Code
				}
			}
			if ap.ErrorCode = code; code == 0 {
				ap.LeaderEpoch, ap.EndOffset = l.epochEnd(p.LeaderEpoch)
			}
			at.Partitions = append(at.Partitions, ap)
		}
		answer.Topics = append(answer.Topics, at)
	}
}

func (c *cluster) describeConfigs(r *kmsg.DescribeConfigsRequest, answer *kmsg.DescribeConfigsResponse) {
	for _, resource := range r.Resources {
		ar := kmsg.NewDescribeConfigsResponseResource()
		ar.ResourceType, ar.ResourceName = resource.ResourceType, resource.ResourceName
		for _, name := range resource.ConfigNames {
			value, known := c.configs[name]
			set, altered := c.configs["set "+name]
			if altered {
				value = set
			}
			if resource.ResourceType == kmsg.ConfigResourceTypeBroker && resource.ResourceName == "" && !altered || !known && !altered {
				continue
			}
			config := kmsg.NewDescribeConfigsResponseResourceConfig()
			config.Name, config.Value, config.Source = name, &value, kmsg.ConfigSourceDefaultConfig
			if altered {
				config.Source = kmsg.ConfigSourceDynamicDefaultBrokerConfig
			}
			ar.Configs = append(ar.Configs, config)
		}
		answer.Resources = append(answer.Resources, ar)
	}
}

func (c *cluster) alterConfigs(r *kmsg.IncrementalAlterConfigsRequest, answer *kmsg.IncrementalAlterConfigsResponse) {
	for _, resource := range r.Resources {
		for _, config := range resource.Configs {
			if config.Op == 0 && config.Value != nil {
				c.configs["set "+config.Name] = *config.Value
			} else {
				delete(c.configs, "set "+config.Name)
			}
		}
		ar := kmsg.NewIncrementalAlterConfigsResponseResource()
		ar.ResourceType, ar.ResourceName = resource.ResourceType, resource.ResourceName
		answer.Resources = append(answer.Resources, ar)
	}
}

const expirationConfig = "producer.id.expiration.ms"

// expirationMs is the destination's producer.id.expiration.ms. Called with mu held.
func (c *cluster) expirationMs() int64 {
	value := c.configs[expirationConfig]
	if set, ok := c.configs["set "+expirationConfig]; ok {
		value = set
	}
	ms, _ := strconv.ParseInt(value, 10, 64)
	return ms
}

func (c *cluster) produce(r *kmsg.ProduceRequest, answer *kmsg.ProduceResponse, broker int32, refusal int16) {
	deadline := time.Now().Add(time.Duration(r.TimeoutMillis) * time.Millisecond)
	type waiting struct {
		to    *kmsg.ProduceResponseTopicPartition
		d     *destination
		epoch int32
		end   int64
	}
	var waits []waiting
	for _, t := range r.Topics {
		at := kmsg.NewProduceResponseTopic()
		at.Topic, at.TopicID = t.Topic, t.TopicID
		at.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(t.Partitions))
		for i, p := range t.Partitions {
			ap := &at.Partitions[i]
			*ap = kmsg.NewProduceResponseTopicPartition()
			ap.Partition, ap.BaseOffset = p.Partition, -1
			if _, ap.ErrorCode = c.led(t.Topic, t.TopicID, p.Partition, broker); ap.ErrorCode == 0 {
				ap.ErrorCode = refusal
			}
			if ap.ErrorCode != 0 {
				continue
			}
			d := c.destinations[p.Partition]
			var appended bool
			ap.ErrorCode, ap.BaseOffset, ap.LogAppendTime, appended = d.append(p.Records)
			if ap.ErrorCode != 0 {
				continue
			}
			end := ap.BaseOffset + int64(batch.Batch(p.Records).Count())
			if appended {
				c.replicate(d, end)
			}
			waits = append(waits, waiting{to: ap, d: d, epoch: d.epoch, end: end})
		}
		answer.Topics = append(answer.Topics, at)
	}
	if r.Acks != -1 {
		return
	}
	for _, w := range waits {
		for w.d.hw < w.end && w.d.epoch == w.epoch && time.Now().Before(deadline) && !c.closed {
			c.await(w.d.changed, time.Until(deadline))
		}
		switch { // with an error the base offset is not told
		case w.d.epoch != w.epoch:
			w.to.ErrorCode, w.to.BaseOffset = kerr.NotLeaderForPartition.Code, -1
		case w.d.hw < w.end:
			w.to.ErrorCode, w.to.BaseOffset = kerr.RequestTimedOut.Code, -1
		}
	}
}

// replicate brings the end of a log to its followers after a while. Called with mu held.
func (c *cluster) replicate(d *destination, end int64) {
	epoch, lag := d.epoch, time.Duration(c.random.Int64N(int64(d.followerLag)+1))
	if c.chance(c.trouble.stuck) {
		lag += time.Duration(c.random.Int64N(int64(25 * time.Second)))
	}
	if lag == 0 {
		d.caughtUp(end, epoch)
		return
	}
	time.AfterFunc(lag, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		d.caughtUp(end, epoch)
	})
}

func (c *cluster) describeProducers(r *kmsg.DescribeProducersRequest, answer *kmsg.DescribeProducersResponse, broker int32) {
	for _, t := range r.Topics {
		at := kmsg.NewDescribeProducersResponseTopic()
		at.Topic = t.Topic
		for _, partition := range t.Partitions {
			ap := kmsg.NewDescribeProducersResponseTopicPartition()
			ap.Partition = partition
			if _, ap.ErrorCode = c.led(t.Topic, [16]byte{}, partition, broker); ap.ErrorCode == 0 {
				for id, p := range c.destinations[partition].producers {
					active := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
					active.ProducerID, active.ProducerEpoch, active.LastSequence, active.LastTimestamp = id, int32(p.epoch), p.last, p.timestampMs
					ap.ActiveProducers = append(ap.ActiveProducers, active)
				}
			}
			at.Partitions = append(at.Partitions, ap)
		}
		answer.Topics = append(answer.Topics, at)
	}
}

func (c *cluster) deleteRecords(r *kmsg.DeleteRecordsRequest, answer *kmsg.DeleteRecordsResponse, broker int32) {
	for _, t := range r.Topics {
		at := kmsg.NewDeleteRecordsResponseTopic()
		at.Topic = t.Topic
		for _, p := range t.Partitions {
			ap := kmsg.NewDeleteRecordsResponseTopicPartition()
			ap.Partition = p.Partition
			l, code := c.led(t.Topic, [16]byte{}, p.Partition, broker)
			if code == 0 && p.Offset > l.hw {
				code = kerr.OffsetOutOfRange.Code
			}
			if ap.ErrorCode = code; code == 0 {
				c.destinations[p.Partition].deleteTo(p.Offset)
				ap.LowWatermark = l.start
			}
			at.Partitions = append(at.Partitions, ap)
		}
		answer.Topics = append(answer.Topics, at)
	}
}

func (c *cluster) writeMarkers(r *kmsg.WriteTxnMarkersRequest, answer *kmsg.WriteTxnMarkersResponse, broker int32) {
	for _, m := range r.Markers {
		am := kmsg.NewWriteTxnMarkersResponseMarker()
		am.ProducerID = m.ProducerID
		for _, t := range m.Topics {
			at := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			at.Topic = t.Topic
			for _, partition := range t.Partitions {
				ap := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				ap.Partition = partition
				if _, ap.ErrorCode = c.led(t.Topic, [16]byte{}, partition, broker); ap.ErrorCode == 0 {
					d := c.destinations[partition]
					ap.ErrorCode = d.mark(m.ProducerID, m.ProducerEpoch, time.Now().UnixMilli())
					c.replicate(d, d.end)
				}
				at.Partitions = append(at.Partitions, ap)
			}
			am.Topics = append(am.Topics, at)
		}
		answer.Markers = append(answer.Markers, am)
	}
}
