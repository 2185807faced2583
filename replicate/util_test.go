package replicate

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/state"
)

// write puts one record of somebody else at the end of a destination partition.
func write(t *testing.T, r *rig, topic string, partition int32) {
	t.Helper()
	c := client(t, r.clusters.destination, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer c.Close()
	if err := c.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Partition: partition, Value: []byte("a user's")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// deleteRecords deletes the records of a partition below an offset.
func deleteRecords(t *testing.T, c *kgo.Client, topic string, partition int32, offset int64) {
	t.Helper()
	var offsets kadm.Offsets
	offsets.AddOffset(topic, partition, offset, -1)
	answer, err := kadm.NewClient(c).DeleteRecords(context.Background(), offsets)
	if err == nil {
		err = answer.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, p state.Partition, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(p.Error, part) {
			t.Errorf("error %q does not say %q", p.Error, part)
		}
	}
}
