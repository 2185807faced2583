package verify

import (
	"strings"
	"testing"

	"kafka-mirror-proxy/protocol/batch"
)

// What is reported of batches, and which of them are a difference though every record is the same.
func TestBatches(t *testing.T) {
	source := func() []written {
		all := []written{mirrored(0, "a=1", "b=1"), mirrored(2, "c=1"), mirrored(3, "d=1")}
		for i := range all { // an ordinary producer's
			all[i].ProducerID, all[i].ProducerEpoch, all[i].FirstSequence = -1, -1, -1
		}
		return all
	}
	for name, c := range map[string]struct {
		destination []written
		batches     Batches
		want        string
	}{
		"carried over": {
			destination: []written{mirrored(0, "a=1", "b=1"), mirrored(2, "c=1"), mirrored(3, "d=1")},
			batches:     Batches{Source: 3, Destination: 3, Identical: 3, Mirrored: 3},
		},
		"two of them merged": {
			destination: []written{mirrored(0, "a=1", "b=1"), mirrored(2, "c=1", "d=1")},
			batches:     Batches{Source: 3, Destination: 2, Identical: 1, Mirrored: 2},
		},
		"no mirror": {
			destination: source(),
			batches:     Batches{Source: 3, Destination: 3, Identical: 3, Foreign: 3},
		},
		"a foreign batch": {
			destination: append([]written{mirrored(0, "a=1", "b=1")}, source()[1:]...),
			batches:     Batches{Source: 3, Destination: 3, Identical: 3, Mirrored: 1, Foreign: 2},
			want:        "offset 2: the destination has a batch that no mirror wrote (producer id -1)",
		},
		"a sequence that is not the offset": {
			destination: []written{mirrored(0, "a=1", "b=1"), func() written { w := mirrored(2, "c=1", "d=1"); w.ProducerID++; w.FirstSequence = 7; return w }()},
			batches:     Batches{Source: 3, Destination: 2, Identical: 1, Mirrored: 2},
			want:        "offset 2: the mirror's batch has sequence 7 and producer epoch 0, want 2 and 0",
		},
		"an epoch": {
			destination: []written{func() written { w := mirrored(0, "a=1", "b=1"); w.ProducerEpoch = 1; return w }(), mirrored(2, "c=1"), mirrored(3, "d=1")},
			batches:     Batches{Source: 3, Destination: 3, Identical: 3, Mirrored: 3},
			want:        "offset 0: the mirror's batch has sequence 0 and producer epoch 1, want 0 and 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "an epoch" { // a producer's later epoch may begin anywhere; the earlier one is not accepted any more
				c.destination[1].ProducerID++
				c.destination[2].ProducerID++
			}
			r := compare(t, policied(t, "delete", source()...), policied(t, "delete", c.destination...))
			if row := r.Partitions[0]; row.Difference != c.want || row.Batches != c.batches || row.Records != 4 {
				t.Errorf("%+v\nwant %q %+v", row, c.want, c.batches)
			}
			if strings.Contains(r.String(), "are the same bytes") != (c.want == "" && c.batches.Mirrored > 0) {
				t.Errorf("%s", r)
			}
		})
	}
}

// A filler record that no mirror wrote is a user's record.
func TestForeignFillerIsARecord(t *testing.T) {
	w := mirrored(0, filled)
	w.ProducerID, w.ProducerEpoch, w.FirstSequence = batch.NoProducerID, -1, -1
	r := compare(t, policied(t, "delete", mirrored(0, filled)), policied(t, "delete", w))
	if r.Partitions[0].Difference != "offset 0: the source has no such record" {
		t.Errorf("%s", r)
	}
}
