package acceptance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"kafka-mirror-proxy/testenv"
)

// awake is for how long a thawed proxy is watched. It would act within milliseconds: what was in its sockets, and
// whatever it does on timers that ran out while it was frozen.
const awake = 5 * time.Second

// TestFrozenProxy freezes a proxy in the middle of mirroring and starts another in its place, which takes over. The topic
// is removed and written to. When the first wakes up, nothing of the mirror may land behind the users' records.
func TestFrozenProxy(t *testing.T) {
	random := newRand(t)
	rounds := 1
	if long() {
		rounds = 5
	}
	for range rounds {
		freezeAndThaw(t, time.Duration(random.IntN(200))*time.Millisecond)
	}
}

func freezeAndThaw(t *testing.T, moment time.Duration) {
	const partitions = 4
	mirror, topic := uniqueName("frozen"), uniqueName("payments")
	createTopic(t, topic, partitions)
	w := newWriter(t, topic, partitions)
	w.Write(2_000)
	w.Start(2_000)
	frozen := startProxy(t)
	frozen.CreateMirror(mirror)
	frozen.MustMirrors("", "--add", "--mirror", mirror, "--topic", topic, "--replication-factor", "3")
	waitBeyond(t, frozen, mirror, topic, ends(t, source, topic))
	<-time.After(moment) // anywhere between two batches, to fall on all of its steps over many runs
	frozen.Freeze()

	second := startProxy(t)
	testenv.Eventually(t, mirrorTimeout, "the second proxy to take over and go on", func() error {
		rows, err := second.Describe(mirror)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.State != "MIRRORING" || row.DestinationOffset < 0 {
				return fmt.Errorf("partition %d is %+v", row.Partition, row)
			}
		}
		return nil
	})
	waitBeyond(t, second, mirror, topic, ends(t, source, topic))
	second.MustMirrors("", "--remove", "--mirror", mirror, "--topic", topic)
	second.WaitState(mirror, topic, partitions, "STOPPED")
	last := lastMirroredOffsets(t, second, mirror, topic, partitions)
	const users = 10
	userWrites(t, second, topic, partitions, users)
	end := ends(t, destination, topic)
	for partition := range end {
		if more := end[partition] - last[partition]; more < users || more > users+1 {
			t.Fatalf("%s-%d ends at %d after %d users' records, the last mirrored offset is %d", topic, partition, end[partition], users, last[partition])
		}
	}

	frozen.Thaw()
	frozen.WaitState(mirror, topic, partitions, "STOPPED") // it answers, and has learnt what happened
	for deadline := time.Now().Add(awake); time.Now().Before(deadline); {
		if now := ends(t, destination, topic); !slices.Equal(now, end) {
			t.Fatalf("%s ended at %v, and at %v once the first proxy was awake", topic, end, now)
		}
	}
	w.Finish(0)
	log := scan(t, destination, topic)
	wantUsers(t, topic, log, last)
	wantSame(t, topic, scan(t, source, topic), log, last)
	frozen.Stop()
	second.DropMirror(mirror)
	second.Stop()
}
