package replicate

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// forgetful makes a cluster say so many times more, in Metadata, that it has no such topic.
func forgetful(fake *testenv.Fake, topic string) (times *atomic.Int64) {
	times = &atomic.Int64{}
	fake.ControlKey(int16(kmsg.Metadata), func(request kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		asked := request.(*kmsg.MetadataRequest).Topics
		if len(asked) != 1 || asked[0].Topic == nil || *asked[0].Topic != topic || times.Add(-1) < 0 {
			return nil, nil, false
		}
		answer := request.ResponseKind().(*kmsg.MetadataResponse)
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.ErrorCode = &topic, kerr.UnknownTopicOrPartition.Code
		answer.Topics = append(answer.Topics, t)
		return answer, nil, true
	})
	return times
}

// The source was dead for a while, and at the failover a broker of the destination that has just
// started does not know the topic yet: that is not enough to believe that the topic is gone.
func TestStopDoesNotBelieveOneMissingLook(t *testing.T) {
	const topic = "flake"
	r, source, destination := fakeRig(t)
	r.createTopic(topic, 1, nil)
	r.produce(topic, 0, 0, 10, nil)
	r.settings.FailAfter = 2
	r.start()
	id := r.add(topic, 1)
	r.awaitCaughtUp(topic, 1)
	source.Close()
	r.awaitStatus(id, 1, state.Failed)

	forgetful(destination, topic).Store(1)
	r.do(state.RemoveTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, 1, state.Stopped)
	if p := r.partition(id, 0); p.LastMirroredOffset != 10 || p.Error != "" {
		t.Errorf("%+v", p)
	}
}

// A topic that was STOPPED without a look at its log may hold anybody's records.
func TestNotMirroredAgainBehindAnUnknownEnd(t *testing.T) {
	const topic = "unknown-end"
	r, _, destination, id := mirroring(t, topic, 1, 10)
	times := forgetful(destination, topic)
	times.Store(1 << 30)
	r.do(state.RemoveTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, 1, state.Stopped)
	wantError(t, r.partition(id, 0), "is gone")
	times.Store(0)
	r.add(topic, 1)
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), topic+"-0", "not known where the mirror's records end", "ends at offset 10")
}

// The same flake when the configs are given back.
func TestHandBackDoesNotBelieveOneMissingLook(t *testing.T) {
	const topic = "flake"
	r, _, destination := fakeRig(t)
	r.createTopic(topic, 1, map[string]*string{"retention.ms": kmsg.StringPtr("-1")})
	id := topicID(t, r.destination, topic)
	r.do(state.AddTopic{Mirror: "m", Name: topic, ID: id, SourceID: topicID(t, r.source, topic), Partitions: 1, Engine: "produce",
		HandBack: map[string]*string{"retention.ms": kmsg.StringPtr("1000")}}, state.ConfirmTopic{ID: id})
	r.start()
	r.awaitStatus(id, 1, state.Mirroring)
	times := &atomic.Int64{}
	times.Store(1)
	destination.ControlKey(int16(kmsg.IncrementalAlterConfigs), func(request kmsg.Request) (kmsg.Response, error, bool) {
		destination.KeepControl()
		if times.Add(-1) < 0 {
			return nil, nil, false
		}
		answer := request.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
		resource := kmsg.NewIncrementalAlterConfigsResponseResource()
		resource.ResourceType, resource.ResourceName, resource.ErrorCode = kmsg.ConfigResourceTypeTopic, topic, kerr.UnknownTopicOrPartition.Code
		answer.Resources = append(answer.Resources, resource)
		return answer, nil, true
	})
	r.do(state.RemoveTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, 1, state.Stopped)
	if got := topicConfig(t, r, topic, "retention.ms"); got != "1000" {
		t.Errorf("retention.ms is %s", got)
	}
}

// A topic that was recreated is somebody else's: it does not get the configs of the old one.
func TestHandBackNotToARecreatedTopic(t *testing.T) {
	const topic = "recreated"
	r, _, _ := fakeRig(t)
	own := map[string]*string{"retention.ms": kmsg.StringPtr("5000")}
	r.createTopic(topic, 1, own)
	id := topicID(t, r.destination, topic)
	r.do(state.AddTopic{Mirror: "m", Name: topic, ID: id, SourceID: topicID(t, r.source, topic), Partitions: 1, Engine: "produce",
		HandBack: map[string]*string{"retention.ms": kmsg.StringPtr("1000")}}, state.ConfirmTopic{ID: id})
	r.start()
	r.awaitStatus(id, 1, state.Mirroring)
	admin := kadm.NewClient(r.destination)
	if _, err := admin.DeleteTopic(context.Background(), topic); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(context.Background(), 1, 1, own, topic); err != nil {
		t.Fatal(err)
	}
	r.do(state.RemoveTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, 1, state.Stopped)
	if got := topicConfig(t, r, topic, "retention.ms"); got != "5000" {
		t.Errorf("retention.ms is %s", got)
	}
}

func topicConfig(t *testing.T, r *rig, topic, key string) string {
	t.Helper()
	configs, err := kadm.NewClient(r.destination).DescribeTopicConfigs(context.Background(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range configs[0].Configs {
		if config.Key == key {
			return config.MaybeValue()
		}
	}
	return ""
}
