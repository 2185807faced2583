package acceptance

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
		freezeWhileWriting(t, time.Duration(random.IntN(200))*time.Millisecond)
		freezeWithBatchInHand(t)
	}
}

// freezeWhileWriting: the second proxy mirrors on, from a source that is written to all the time.
func freezeWhileWriting(t *testing.T, moment time.Duration) {
	const partitions = 4
	f := &freeze{t: t, mirror: uniqueName("frozen"), topic: uniqueName("payments"), partitions: partitions}
	createTopic(t, f.topic, partitions)
	w := newWriter(t, f.topic, partitions)
	w.Write(2_000)
	w.Start(2_000)
	f.start()
	waitBeyond(t, f.frozen, f.mirror, f.topic, ends(t, source, f.topic))
	<-time.After(moment) // anywhere between two batches, to fall on all of its steps over many runs
	f.frozen.Freeze()

	f.second = startProxy(t)
	testenv.Eventually(t, mirrorTimeout, "the second proxy to take over and go on", func() error {
		rows, err := f.second.Describe(f.mirror)
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
	waitBeyond(t, f.second, f.mirror, f.topic, ends(t, source, f.topic))
	last := f.removeAndThaw()
	w.Finish(0)
	f.finish(last)
}

// freezeWithBatchInHand: the frozen proxy has read everything, and the source's next records come into its socket while it
// is frozen. Then the source is gone, so that the second proxy can only stop the topic where the first had ended it: the
// batch that the first finds when it wakes up begins exactly there.
func freezeWithBatchInHand(t *testing.T) {
	const partitions = 1
	f := &freeze{t: t, mirror: uniqueName("inhand"), topic: uniqueName("payments"), partitions: partitions}
	createTopic(t, f.topic, partitions)
	w := newWriter(t, f.topic, partitions)
	w.Write(1_000)
	f.start("--replica.fetch.wait.max.ms", "20000") // a fetch waits at the source, nearly always
	f.frozen.WaitNoLag(f.mirror, f.topic, partitions)
	f.frozen.Freeze()
	ended := ends(t, destination, f.topic)
	w.Write(100)
	awaitInSocket(t, f.frozen.PID(), source.Kafka(t).BrokerAddr(1))
	if err := source.Kafka(t).Kill(1); err != nil {
		t.Fatal(err)
	}

	f.second = startProxy(t)
	last := f.removeAndThaw()
	if err := source.Kafka(t).Restart(within(t), 1); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(last, ended) {
		t.Fatalf("the last mirrored offsets are %v, the frozen proxy had ended at %v", last, ended)
	}
	f.finish(last)
}

// awaitInSocket waits until bytes from the address lie unread in a socket of the process.
func awaitInSocket(t *testing.T, pid int, from string) {
	t.Helper()
	address, err := netip.ParseAddrPort(from)
	if err != nil {
		t.Fatal(err)
	}
	remote := fmt.Sprintf("%08X:%04X", binary.LittleEndian.Uint32(address.Addr().AsSlice()), address.Port())
	testenv.Eventually(t, callTimeout, "an answer of the source in a socket of the frozen proxy", func() error {
		sockets := map[string]bool{} // inodes
		descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			return err
		}
		for _, descriptor := range descriptors {
			if to, err := os.Readlink(descriptor); err == nil {
				sockets[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
			}
		}
		table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(table)) {
			// Columns of proc_pid_net(5): sl local remote st tx:rx tr:when retrnsmt uid timeout inode.
			if c := strings.Fields(line); len(c) > 9 && c[2] == remote && sockets[c[9]] && !strings.HasSuffix(c[4], ":00000000") {
				return nil
			}
		}
		return fmt.Errorf("nothing from %s is unread", from)
	})
}

// freeze is one mirror and the two proxies that own it one after the other.
type freeze struct {
	t              *testing.T
	mirror, topic  string
	partitions     int
	frozen, second *proxy
}

func (f *freeze) start(args ...string) {
	f.t.Helper()
	f.frozen = startProxy(f.t, args...)
	f.frozen.CreateMirror(f.mirror)
	f.frozen.MustMirrors("", "--add", "--mirror", f.mirror, "--topic", f.topic, "--replication-factor", "3")
}

// removeAndThaw removes the topic by way of the second proxy, lets users write, and wakes the frozen one, which must leave
// the log alone. It returns the last mirrored offsets.
func (f *freeze) removeAndThaw() []int64 {
	f.t.Helper()
	testenv.Eventually(f.t, mirrorTimeout, "the second proxy to own the mirrors and remove "+f.topic, func() error {
		if r := f.second.Mirrors("--remove", "--mirror", f.mirror, "--topic", f.topic); r.exit != 0 {
			time.Sleep(lookPause)
			return fmt.Errorf("remove: %v", r)
		}
		return nil
	})
	f.second.WaitState(f.mirror, f.topic, f.partitions, "STOPPED")
	last := lastMirroredOffsets(f.t, f.second, f.mirror, f.topic, f.partitions)
	const users = 10
	userWrites(f.t, f.second, f.topic, f.partitions, users)
	end := ends(f.t, destination, f.topic)
	for partition := range end {
		if more := end[partition] - last[partition]; more < users || more > users+1 {
			f.t.Fatalf("%s-%d ends at %d after %d users' records, the last mirrored offset is %d",
				f.topic, partition, end[partition], users, last[partition])
		}
	}

	f.frozen.Thaw()
	f.frozen.WaitState(f.mirror, f.topic, f.partitions, "STOPPED") // it answers, and has learnt what happened
	for deadline := time.Now().Add(awake); time.Now().Before(deadline); {
		if now := ends(f.t, destination, f.topic); !slices.Equal(now, end) {
			f.t.Fatalf("%s ended at %v, and at %v once the first proxy was awake", f.topic, end, now)
		}
	}
	return last
}

// finish wants the source's records up to the last mirrored offsets and the users' behind them, and cleans up.
func (f *freeze) finish(last []int64) {
	f.t.Helper()
	log := scan(f.t, destination, f.topic)
	wantUsers(f.t, f.topic, log, last)
	wantSame(f.t, f.topic, scan(f.t, source, f.topic), log, last)
	f.frozen.Stop()
	f.second.DropMirror(f.mirror)
	f.second.Stop()
}
