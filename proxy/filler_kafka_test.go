package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// mirroredLog is a topic of one partition on a real broker, written as a mirror writes.
type mirroredLog struct {
	topic  string
	end    int64
	data   []int64 // offsets of the records that are not filler
	direct *kgo.Client
	id     state.TopicID
}

// stock is a real broker with a proxy before it, to which every topic made by log is a mirror topic.
type stock struct {
	t      *testing.T
	direct *kgo.Client
	store  *state.Memory
	server *runningServer
}

func newStock(t *testing.T) *stock {
	t.Helper()
	kafka := testenv.RequireKafka(t, testenv.KafkaConfig{})
	direct, err := kgo.NewClient(kgo.SeedBrokers(kafka.Bootstrap()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(direct.Close)
	host, port, err := net.SplitHostPort(kafka.Bootstrap()[0])
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	store := state.NewMemory()
	if err := store.Do(t.Context(), state.CreateMirror{Name: "dr"}); err != nil {
		t.Fatal(err)
	}
	return &stock{t: t, direct: direct, store: store, server: startServer(t, store.View, nil, Broker{ID: 1, Host: host, Port: int32(number)})}
}

// log makes a topic and writes its parts in order: n > 0 is n records of filler, n < 0 is -n records of data, 0 is a batch
// that mixes both.
func (s *stock) log(topic string, parts ...int) *mirroredLog {
	s.t.Helper()
	created, err := kadm.NewClient(s.direct).CreateTopic(s.t.Context(), 1, 1, nil, topic)
	if err != nil {
		s.t.Fatal(err)
	}
	l := &mirroredLog{topic: topic, direct: s.direct, id: state.TopicID(created.ID)}
	if err := s.store.Do(s.t.Context(), state.AddTopic{Mirror: "dr", Name: topic, ID: l.id, Partitions: 1}); err != nil {
		s.t.Fatal(err)
	}
	for _, n := range parts {
		var raw []byte
		switch {
		case n > 0:
			raw = fillerBatch(s.t, 0, n)
		case n < 0:
			raw = dataBatch(0, -n, mirrorProducer)
			for i := range int64(-n) {
				l.data = append(l.data, l.end+i)
			}
		default:
			raw = mixedBatch(s.t, 0)
			l.data = append(l.data, l.end, l.end+3)
		}
		batch.SetProducer(raw, mirrorProducer, 0, batch.SequenceOf(l.end))
		s.append(l, raw)
	}
	return l
}

func (s *stock) append(l *mirroredLog, raw []byte) {
	s.t.Helper()
	request := produceRequest(9, -1, 0, part{l.topic, l.id})
	request.Topics[0].Partitions[0].Records = raw
	response, err := s.direct.Broker(1).Request(s.t.Context(), request)
	if err != nil {
		s.t.Fatal(err)
	}
	answer := response.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil || answer.BaseOffset != l.end {
		s.t.Fatalf("append at %d: %v, base offset %d", l.end, err, answer.BaseOffset)
	}
	l.end += int64(batch.Batch(raw).LastOffsetDelta()) + 1
}

// consume reads from an offset to the end of the log. It returns the offsets of the records and the offset behind the last
// batch, data or not.
func (s *stock) consume(l *mirroredLog, from int64, control bool, opts ...kgo.Opt) (got []int64) {
	s.t.Helper()
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(s.server.Addr()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: {0: kgo.NewOffset().At(from)}}),
	}, opts...)
	if control {
		opts = append(opts, kgo.KeepControlRecords())
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	last := l.data[len(l.data)-1]
	if control {
		last = l.end - 1
	}
	for len(got) == 0 || got[len(got)-1] < last {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			s.t.Fatalf("from %d: %v after %v", from, err, got)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if string(r.Key) == batch.FillerKey {
				s.t.Fatalf("filler at offset %d is seen", r.Offset)
			}
			got = append(got, r.Offset)
		})
	}
	return got
}

func TestFillerOnKafka(t *testing.T) {
	s := newStock(t)
	t.Run("consumers", func(t *testing.T) { consumersPassFiller(t, s) })
	t.Run("share groups", func(t *testing.T) { shareGroupsPassFiller(t, s) })
}

// From wherever a consumer starts, and however little it asks for at once, it sees the data and gets to the end of the log.
func consumersPassFiller(t *testing.T, s *stock) {
	l := s.log("filled", 1000, -5, batch.MaxFillerRecords, -3, 0, -2, batch.MaxFillerRecords, 7)
	for _, from := range []int64{0, 300, 999, 1002, 1005, 50_000, l.end - 100_000, l.end - 1} {
		for _, isolation := range []kgo.IsolationLevel{kgo.ReadUncommitted(), kgo.ReadCommitted()} {
			for _, maxBytes := range []int32{1, 200_000, 50 << 20} {
				var want []int64
				for _, offset := range l.data {
					if offset >= from {
						want = append(want, offset)
					}
				}
				opts := []kgo.Opt{kgo.FetchIsolationLevel(isolation), kgo.FetchMaxBytes(maxBytes), kgo.FetchMaxPartitionBytes(maxBytes)}
				if len(want) > 0 {
					if got := s.consume(l, from, false, opts...); !slices.Equal(got, want) {
						t.Errorf("from %d, %v, %d bytes at once: %v, want %v", from, isolation, maxBytes, got, want)
					}
				}
				// The end of the log is reached: a marker stands for its last offset.
				got := s.consume(l, from, true, opts...)
				if last := got[len(got)-1]; last != l.end-1 {
					t.Errorf("from %d, %v, %d bytes at once: got to %d of %d", from, isolation, maxBytes, last, l.end)
				}
			}
		}
	}
}

// shareGroup makes a share group start at the beginning of its topics.
func (s *stock) shareGroup(group string) {
	s.t.Helper()
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = 32, group // GROUP
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "share.auto.offset.reset", kmsg.StringPtr("earliest")
	resource.Configs = append(resource.Configs, config)
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(s.t.Context(), s.direct)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := kerr.ErrorForCode(response.Resources[0].ErrorCode); err != nil {
		s.t.Fatal(err)
	}
}

// shareLag is how many offsets a share group has not done with. (Its start offset is stored only with its next change.)
func (s *stock) shareLag(group string) (int64, error) {
	request := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	asked := kmsg.NewDescribeShareGroupOffsetsRequestGroup()
	asked.GroupID = group
	request.Groups = append(request.Groups, asked)
	response, err := request.RequestWith(s.t.Context(), s.direct)
	if err != nil {
		return 0, err
	}
	for _, topic := range response.Groups[0].Topics {
		for _, p := range topic.Partitions {
			return p.Lag, kerr.ErrorForCode(p.ErrorCode)
		}
	}
	return 0, errors.New("the group has no offset")
}

// A broker hands out a batch of filler whole, although its 100,000 records are more than it locks at once
// (group.share.partition.max.record.locks is 2,000), and clients acknowledge as gaps what they are not given: they get past
// it wherever it is, also at the end.
func shareGroupsPassFiller(t *testing.T, s *stock) {
	l := s.log("shared", batch.MaxFillerRecords, -5, batch.MaxFillerRecords, 0, -3, 1000, 1000, 1000, -2, batch.MaxFillerRecords)
	s.shareGroup("kgo")
	client, err := kgo.NewClient(kgo.SeedBrokers(s.server.Addr()), kgo.ShareGroup("kgo"), kgo.ConsumeTopics(l.topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	var got []int64
	poll := func(ctx context.Context) {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { got = append(got, r.Offset) })
	}
	for len(got) < len(l.data) && ctx.Err() == nil {
		poll(ctx)
	}
	testenv.Eventually(t, 3*patience, "the group is done with the filler at the end", func() error {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		poll(short)
		lag, err := s.shareLag("kgo")
		if err == nil && lag != 0 {
			err = fmt.Errorf("lag %d", lag)
		}
		return err
	})
	if !slices.Equal(got, l.data) {
		t.Errorf("records at %v, want %v", got, l.data)
	}
}
