package acceptance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/testenv"
)

// strictTimes are the limits of timestamps that many clusters have: a day back, an hour ahead.
var strictTimes = map[string]string{"message.timestamp.before.max.ms": "86400000", "message.timestamp.after.max.ms": "3600000"}

// strictBrokers gives all brokers of the destination strictTimes as their own until the returned function is called.
func strictBrokers(t *testing.T) (undo func()) {
	t.Helper()
	admin := kadm.NewClient(newClient(t, destination.Kafka(t).Bootstrap()))
	alter := func(op kadm.IncrementalOp) {
		t.Helper()
		var configs []kadm.AlterConfig
		for name, value := range strictTimes {
			configs = append(configs, kadm.AlterConfig{Op: op, Name: "log." + name, Value: &value})
		}
		altered, err := admin.AlterBrokerConfigs(within(t), configs)
		if err == nil && len(altered) > 0 {
			err = altered[0].Err
		}
		if err != nil {
			t.Fatalf("set the brokers' limits of timestamps: %v", err)
		}
	}
	alter(kadm.SetConfig)
	return func() { alter(kadm.DeleteConfig) }
}

// createWith creates a topic of one partition with configs.
func createWith(t *testing.T, cluster *testenv.SharedKafka, topic string, configs map[string]string) {
	t.Helper()
	set := map[string]*string{}
	for name, value := range configs {
		set[name] = &value
	}
	if _, err := kadm.NewClient(newClient(t, cluster.Kafka(t).Bootstrap())).CreateTopic(within(t), 1, 1, set, topic); err != nil {
		t.Fatalf("create %s: %v", topic, err)
	}
	offsets(t, cluster, topic)
}

// wantConfigs waits until a topic of the destination has these configs: brokers learn of them a moment later.
func wantConfigs(t *testing.T, when, topic string, want map[string]string) {
	t.Helper()
	admin := kadm.NewClient(newClient(t, destination.Kafka(t).Bootstrap()))
	testenv.Eventually(t, callTimeout, "the configs "+when, func() error {
		described, err := admin.DescribeTopicConfigs(within(t), topic)
		if err != nil {
			return err
		}
		for _, config := range described[0].Configs {
			if value, ok := want[config.Key]; ok && config.MaybeValue() != value {
				err = errors.Join(err, fmt.Errorf("%s of %s is %s, want %s", config.Key, topic, config.MaybeValue(), value))
			}
		}
		return err
	})
}

// timestampsOf are the timestamps, in ms, of the records of partition 0 from its start, and whether the broker says that it
// has set them itself.
func timestampsOf(t *testing.T, bootstrap []string, topic string, count int) (times []int64, appendTime bool) {
	t.Helper()
	client := newClient(t, bootstrap, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	for len(times) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s after %d records: %v", topic, len(times), err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			times = append(times, r.Timestamp.UnixMilli())
			appendTime = appendTime || r.Attrs.TimestampType() == 1
		})
	}
	return times, appendTime
}

// TestTimestampsOutOfBounds: timestamps that the destination's brokers, and the topic itself, would refuse arrive as they
// are, and nothing is deleted for them while the topic is mirrored. At STOPPED limits and retention are the
// source's where it has set any, else the topic's own again. A source that stamps records itself has its stamps copied; the
// mirror topic stamps records itself once it is STOPPED, where the mirror is told to copy that config.
func TestTimestampsOutOfBounds(t *testing.T) {
	defer strictBrokers(t)()
	given, fresh, stamped := uniqueName("times-given"), uniqueName("times-new"), uniqueName("times-stamped")
	const unlimited = "9223372036854775807"
	sources := map[string]string{"retention.ms": "432000000", "message.timestamp.after.max.ms": "86400000", "segment.ms": unlimited} // one segment, which is not old
	for _, topic := range []string{given, fresh} {
		createWith(t, source, topic, sources)
	}
	createWith(t, source, stamped, map[string]string{"message.timestamp.type": "LogAppendTime"})
	own := maps.Clone(strictTimes)
	own["retention.ms"] = "259200000"
	createWith(t, destination, given, own)

	now := time.Now()
	want := []int64{0, now.AddDate(0, 0, -400).UnixMilli(), now.Add(2 * time.Hour).UnixMilli(), -1, now.UnixMilli()}
	writer := newClient(t, source.Kafka(t).Bootstrap())
	for _, ms := range want { // a batch each
		var records []*kgo.Record
		for _, topic := range []string{given, fresh, stamped} {
			records = append(records, &kgo.Record{Topic: topic, Key: []byte("k"), Value: fmt.Append(nil, ms), Timestamp: time.UnixMilli(ms)})
		}
		if err := writer.ProduceSync(within(t), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	p := startProxy(t)
	mirror := uniqueName("times")
	p.CreateMirror(mirror, "mirror.topic.properties.exclude=mirror.name") // without message.timestamp.type, which is in the default
	for _, topic := range []string{given, fresh, stamped} {
		p.MustMirrors("", "--add", "--mirror", mirror, "--topic", topic)
	}
	for _, topic := range []string{given, fresh, stamped} {
		p.WaitNoLag(mirror, topic, 1)
		if topic == stamped {
			var ours bool
			if want, ours = timestampsOf(t, source.Kafka(t).Bootstrap(), topic, len(want)); !ours || want[0] < now.UnixMilli() {
				t.Fatalf("the source has not stamped its records: %v", want)
			}
		}
		if got, _ := timestampsOf(t, p.Bootstrap(), topic, len(want)); !slices.Equal(got, want) {
			t.Errorf("%s has the timestamps %v, want %v", topic, got, want)
		}
	}
	verifyEqual(t, source.Kafka(t).Bootstrap(), p.Bootstrap(), int64(3*len(want)), given, fresh, stamped)
	wantConfigs(t, "while it is mirrored", given, map[string]string{"retention.ms": "-1", "message.timestamp.before.max.ms": unlimited,
		"message.timestamp.after.max.ms": unlimited, "message.timestamp.type": "CreateTime"})
	back := map[string]string{"retention.ms": sources["retention.ms"], "message.timestamp.after.max.ms": sources["message.timestamp.after.max.ms"],
		"message.timestamp.before.max.ms": own["message.timestamp.before.max.ms"], "message.timestamp.type": "CreateTime"}
	for topic, configs := range map[string]map[string]string{given: back, fresh: back, stamped: {"message.timestamp.type": "LogAppendTime"}} {
		remove(t, p, mirror, topic, 1)
		wantConfigs(t, "at STOPPED", topic, configs)
	}
	p.DropMirror(mirror)
}
