package testenv

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestVersions starts a cluster of each version, writes to it, kills its broker and finds the record again: the oldest in
// a short run, the others, which are so many downloads more, in a long one.
func TestVersions(t *testing.T) {
	for _, version := range slices.Sorted(maps.Keys(kafkaVersions)) {
		t.Run(version, func(t *testing.T) {
			if version != "2.1.1" && os.Getenv("KMP_LONG") != "1" {
				t.Skip("only with KMP_LONG=1")
			}
			k := RequireKafka(t, KafkaConfig{Version: version})
			client, err := kgo.NewClient(kgo.SeedBrokers(k.Bootstrap()...), kgo.UnknownTopicRetries(-1),
				kgo.ConsumeTopics("topic"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			admin := kadm.NewClient(client)
			if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "topic"); err != nil {
				t.Fatal(err)
			}
			metadata, err := admin.BrokerMetadata(t.Context())
			if err != nil || metadata.Cluster != k.ClusterID() {
				t.Fatalf("the brokers report cluster id %q, ClusterID is %q: %v", metadata.Cluster, k.ClusterID(), err)
			}
			record := &kgo.Record{Topic: "topic", Value: []byte("kept")}
			if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if err := k.Kill(1); err != nil {
				t.Fatal(err)
			}
			if err := k.Restart(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			Eventually(t, time.Minute, "the record to be read", func() error {
				fetches := client.PollFetches(t.Context())
				if records := fetches.Records(); len(records) == 1 && string(records[0].Value) == "kept" {
					return nil
				}
				return fmt.Errorf("read %d records: %w", fetches.NumRecords(), fetches.Err())
			})
		})
	}
}
