package replicate

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// mirroring is a rig with a running mirror of a topic of which n records per partition were copied.
func mirroring(t *testing.T, topic string, partitions int32, n int) (*rig, *testenv.Fake, *testenv.Fake, state.TopicID) {
	t.Helper()
	r, source, destination := fakeRig(t)
	r.watchReservations(destination)
	r.createTopic(topic, partitions, nil)
	for i := range partitions {
		r.produce(topic, i, 0, n, []byte("v"))
	}
	r.start()
	id := r.add(topic, partitions)
	r.awaitStatus(id, partitions, state.Mirroring)
	r.awaitCaughtUp(topic, partitions)
	return r, source, destination, id
}

func TestSourceIsTheDestination(t *testing.T) {
	r, _, _ := fakeRig(t)
	r.clusters.sourceClient, r.clusters.source = r.clusters.client, r.clusters.destination
	r.source = client(t, r.clusters.destination)
	if _, err := kadm.NewClient(r.source).CreateTopic(context.Background(), 1, 1, nil, "loop"); err != nil {
		t.Fatal(err)
	}
	r.start()
	id := r.add("loop", 1)
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), "is the destination itself")
}

// The id of the source cluster is stored at first contact; another cluster at the same address
// is not copied from.
func TestSourceIsAnotherCluster(t *testing.T) {
	r, _, _, id := mirroring(t, "moved", 1, 10)
	mirror, _ := r.store.View().Mirror("m")
	if mirror.SourceClusterID == "" {
		t.Fatal("no cluster id was stored")
	}
	r.stop()
	other, err := testenv.StartFake(testenv.FakeConfig{Topics: map[string]int32{"moved": 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	// kfake clusters share one id unless told otherwise.
	other.ControlKey(int16(kmsg.Metadata), func(request kmsg.Request) (kmsg.Response, error, bool) {
		other.KeepControl()
		answer := request.ResponseKind().(*kmsg.MetadataResponse)
		answer.ClusterID = kmsg.StringPtr("another")
		host, port := splitAddr(t, other.Bootstrap()[0])
		answer.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 0, Host: host, Port: port}}
		for _, asked := range request.(*kmsg.MetadataRequest).Topics {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.TopicID, topic.ErrorCode = asked.Topic, asked.TopicID, kerr.UnknownTopicOrPartition.Code
			answer.Topics = append(answer.Topics, topic)
		}
		return answer, nil, true
	})
	r.clusters.sourceClient = client(t, other.Bootstrap())
	r.start()
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), "expected cluster id "+mirror.SourceClusterID, "got another")
}

func splitAddr(t *testing.T, addr string) (host string, port int32) {
	t.Helper()
	if _, err := fmt.Sscanf(strings.Replace(addr, ":", " ", 1), "%s %d", &host, &port); err != nil {
		t.Fatal(err)
	}
	return host, port
}

// With the source dead the lag is unknown, never 0; the reason shows; and a failover works.
func TestSourceDies(t *testing.T) {
	r, source, _, id := mirroring(t, "dead", 2, 10)
	r.stop()
	r.settings.FailAfter = 2
	r.start()
	r.awaitCaughtUp("dead", 2)
	testenv.Eventually(t, patience, "a lag of 0", func() error {
		if lag := metric(t, r.replicator, "maxlag"); lag != 0 {
			return fmt.Errorf("max lag %v", lag)
		}
		return nil
	})
	source.Close()
	r.awaitStatus(id, 2, state.Failed)
	if lag := metric(t, r.replicator, "maxlag"); !math.IsNaN(lag) {
		t.Errorf("max lag %v", lag)
	}
	if n := metric(t, r.replicator, "consumerlag"); !math.IsNaN(n) {
		t.Errorf("there is a lag for a dead source: %v", n)
	}
	if n := metric(t, r.replicator, "failedpartitionscount"); n != 2 {
		t.Errorf("%v partitions are FAILED", n)
	}
	if r.live.MirrorError("m") == "" || metric(t, r.replicator, "source_error") != 1 {
		t.Errorf("the mirror shows no error: %q", r.live.MirrorError("m"))
	}
	r.do(state.RemoveTopic{Mirror: "m", Name: "dead"})
	r.awaitStatus(id, 2, state.Stopped)
	if got := r.partition(id, 0).LastMirroredOffset; got != 10 {
		t.Errorf("last mirrored offset %d, want 10", got)
	}
}

// metric is the value of the one sample whose name contains part, NaN when there is none.
func metric(t *testing.T, c prometheus.Collector, part string) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if strings.Contains(family.GetName(), part) {
			if counter := family.GetMetric()[0].GetCounter(); counter != nil {
				return counter.GetValue()
			}
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return math.NaN()
}

// A topic can be removed before anything was mirrored, with the source never reached.
func TestStopFromUnknown(t *testing.T) {
	r, source, _ := fakeRig(t)
	r.createTopic("never", 2, nil)
	id := r.add("never", 2)
	source.Close()
	r.do(state.RemoveTopic{Mirror: "m", Name: "never"})
	r.start()
	r.awaitStatus(id, 2, state.Stopped)
}

func TestPauseBeforeMirroring(t *testing.T) {
	r, _, _ := fakeRig(t)
	r.createTopic("early", 2, nil)
	r.produce("early", 0, 0, 10, nil)
	id := r.add("early", 2)
	r.do(state.PauseTopic{Mirror: "m", Name: "early"})
	r.start()
	r.awaitStatus(id, 2, state.Paused)
	if _, logEnds := ends(t, r.destination, "early"); logEnds["early"][0].Offset != 0 {
		t.Error("a paused topic was copied")
	}
}

// Records that the source deleted before they were copied: never silently skipped.
func TestGap(t *testing.T) {
	r, _, _, id := mirroring(t, "gap", 1, 10)
	r.do(state.PauseTopic{Mirror: "m", Name: "gap"})
	r.awaitStatus(id, 1, state.Paused)
	r.produce("gap", 0, 10, 100, nil)
	deleteRecords(t, r.source, "gap", 0, 50)
	r.do(state.ResumeTopic{Mirror: "m", Name: "gap"})
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), "gap-0", "ends at offset 10", "begins at 50")
}

func TestForeignWriteIsNoticed(t *testing.T) {
	r, _, _, id := mirroring(t, "foreign", 2, 10)
	write(t, r, "foreign", 1)
	r.produce("foreign", 1, 10, 5, nil)
	r.produce("foreign", 0, 10, 5, nil)
	testenv.Eventually(t, patience, "partition 1 to be FAILED", func() error {
		if p := r.partition(id, 1); p.Status != state.Failed || p.Retriable {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
	wantError(t, r.partition(id, 1), "foreign-1", "offsets 10 to 14", "at offset 11")
	testenv.Eventually(t, patience, "partition 0 to go on", func() error {
		if _, logEnds := ends(t, r.destination, "foreign"); logEnds["foreign"][0].Offset != 15 {
			return fmt.Errorf("%v", logEnds)
		}
		return nil
	})
}

func TestDestinationTopicGone(t *testing.T) {
	r, _, _, id := mirroring(t, "gone", 1, 10)
	if _, err := kadm.NewClient(r.destination).DeleteTopic(context.Background(), "gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := kadm.NewClient(r.destination).CreateTopic(context.Background(), 1, 1, nil, "gone"); err != nil {
		t.Fatal(err)
	}
	r.produce("gone", 0, 10, 10, nil)
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), "the destination topic gone was recreated")
	if _, logEnds := ends(t, r.destination, "gone"); logEnds["gone"][0].Offset != 0 {
		t.Errorf("the new topic was written to: %v", logEnds)
	}
	r.do(state.RemoveTopic{Mirror: "m", Name: "gone"})
	r.awaitStatus(id, 1, state.Stopped)
}

// Configs are given back in one request, before the topic is STOPPED.
func TestConfigsAreHandedBack(t *testing.T) {
	r, _, destination := fakeRig(t)
	r.createTopic("configs", 3, map[string]*string{"retention.ms": kmsg.StringPtr("-1"), "compression.type": kmsg.StringPtr("producer")})
	id := topicID(t, r.destination, "configs")
	r.do(state.AddTopic{Mirror: "m", Name: "configs", ID: id, SourceID: topicID(t, r.source, "configs"), Partitions: 3, Engine: "produce",
		HandBack: map[string]*string{"retention.ms": kmsg.StringPtr("1000"), "compression.type": nil}}, state.ConfirmTopic{ID: id})
	requests, refusals := 0, 1
	destination.ControlKey(int16(kmsg.IncrementalAlterConfigs), func(request kmsg.Request) (kmsg.Response, error, bool) {
		destination.KeepControl()
		requests++
		if view := r.store.View(); view.Partition(state.PartitionID{Topic: id}).Status == state.Stopped {
			t.Error("STOPPED came first")
		}
		if refusals--; refusals < 0 {
			return nil, nil, false
		}
		answer := request.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
		resource := kmsg.NewIncrementalAlterConfigsResponseResource()
		resource.ErrorCode = kerr.RequestTimedOut.Code
		answer.Resources = append(answer.Resources, resource)
		return answer, nil, true
	})
	r.start()
	r.awaitStatus(id, 3, state.Mirroring)
	r.do(state.RemoveTopic{Mirror: "m", Name: "configs"})
	r.awaitStatus(id, 3, state.Stopped)
	if requests != 2 {
		t.Errorf("%d requests, want one that failed and one that did not", requests)
	}
	configs, err := kadm.NewClient(r.destination).DescribeTopicConfigs(context.Background(), "configs")
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range configs[0].Configs {
		if config.Key == "retention.ms" && config.MaybeValue() != "1000" {
			t.Errorf("retention.ms is %s", config.MaybeValue())
		}
	}
}

// Where the marker is not permitted, the stop waits and says so.
func TestFenceForbidden(t *testing.T) {
	r, _, destination, id := mirroring(t, "forbidden", 1, 10)
	r.store.lost.Store(true)
	r.stop()
	r.store.generation.Add(1)
	r.store.lost.Store(false)
	destination.ControlKey(int16(kmsg.WriteTxnMarkers), func(request kmsg.Request) (kmsg.Response, error, bool) {
		destination.KeepControl()
		answer := request.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
		marker, topic, partition := kmsg.NewWriteTxnMarkersResponseMarker(), kmsg.NewWriteTxnMarkersResponseMarkerTopic(), kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
		partition.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		topic.Topic, topic.Partitions = "forbidden", append(topic.Partitions, partition)
		marker.Topics = append(marker.Topics, topic)
		answer.Markers = append(answer.Markers, marker)
		return answer, nil, true
	})
	r.do(state.RemoveTopic{Mirror: "m", Name: "forbidden"})
	r.start()
	r.awaitStatus(id, 1, state.Stopped)
	wantError(t, r.partition(id, 0), "does not permit the closing marker", "waited")
}

// Altering a mirror makes new connections and loses nothing.
func TestAlterReconnects(t *testing.T) {
	r, _, _, id := mirroring(t, "altered", 2, 10)
	for i := range 5 {
		r.do(state.AlterMirror{Name: "m", Set: map[string]string{"client.id": fmt.Sprint(i)}})
		r.produce("altered", int32(i%2), 10, 20, nil)
	}
	r.awaitCaughtUp("altered", 2)
	r.awaitStatus(id, 2, state.Mirroring)
	r.compare("altered", 2)
}

func TestDeletedMirrorEndsItsRunners(t *testing.T) {
	r, _, _, id := mirroring(t, "last", 1, 10)
	r.do(state.RemoveTopic{Mirror: "m", Name: "last"})
	r.awaitStatus(id, 1, state.Stopped)
	r.do(state.DeleteMirror{Name: "m"})
	testenv.Eventually(t, patience, "the board to be cleared", func() error {
		if _, ok := r.live.Get(state.PartitionID{Topic: id}); ok {
			return fmt.Errorf("partition is still there")
		}
		return nil
	})
}
