package replicate

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

const (
	recentTopic, oldTopic = "owners-recent", "owners-old"
	ownersPartitions      = 4
	// oldAge makes a broker forget the producer at its next look (producer.id.expiration.ms is a day).
	oldAge = 48 * time.Hour
)

// ownerEnv are the settings of a process that TestTwoOwnersReal starts: source, destination, generation, bytes of a fetch.
const ownerEnv = "KMP_TEST_OWNER"

// TestOwnerProcess is no test but the owner of TestTwoOwnersReal: it says on standard output what becomes of each
// partition, and ends with its standard input.
func TestOwnerProcess(t *testing.T) {
	text, ok := os.LookupEnv(ownerEnv)
	if !ok {
		t.Skip("started by TestTwoOwnersReal")
	}
	args := strings.Split(text, " ")
	numbers := make([]int, 2)
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.Atoi(args[2+i]); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, strings.Split(args[0], ","), strings.Split(args[1], ","))
	r.store.generation.Store(int64(numbers[0]))
	r.settings.FailAfter = 1 << 20 // two owners are in each other's way all the time
	r.settings.FetchPartitionBytes = int32(numbers[1])
	r.start()
	ids := map[string]state.TopicID{recentTopic: r.add(recentTopic, ownersPartitions), oldTopic: r.add(oldTopic, ownersPartitions)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	changed, cancel := r.store.Subscribe()
	defer cancel()
	said := map[string]string{}
	for {
		for name, id := range ids {
			for i := range int32(ownersPartitions) {
				p := r.partition(id, i)
				key, line := fmt.Sprintf("%s-%d", name, i), p.Status.String()+" "+p.Error
				if said[key] != line {
					said[key] = line
					fmt.Printf("owner: %s %s\n", key, line)
				}
			}
		}
		select {
		case <-changed:
		case <-ended:
			return
		}
	}
}

// owner is a process of TestOwnerProcess.
type owner struct {
	command *exec.Cmd
	input   io.Closer
	group   sync.WaitGroup

	mu   sync.Mutex
	said map[string]string // by partition: state and reason
	ever map[string]string // the reason of a FAILED that an operator has to act on
}

func startOwner(t *testing.T, source, destination []string, generation, fetchBytes int) *owner {
	t.Helper()
	o := &owner{said: map[string]string{}, ever: map[string]string{}}
	o.command = exec.Command(os.Args[0], "-test.run=^TestOwnerProcess$", "-test.v")
	o.command.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %d", ownerEnv, strings.Join(source, ","), strings.Join(destination, ","), generation, fetchBytes))
	o.command.Stderr = os.Stderr
	output, err := o.command.StdoutPipe()
	if err == nil {
		o.input, err = o.command.StdinPipe()
	}
	if err == nil {
		err = o.command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	o.group.Go(func() {
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			_, line, ok := strings.Cut(lines.Text(), "owner: ")
			if !ok {
				continue
			}
			key, what, _ := strings.Cut(line, " ")
			o.mu.Lock()
			o.said[key] = what
			if reason, failed := strings.CutPrefix(what, state.Failed.String()+" "); failed {
				o.ever[key] = reason
			}
			o.mu.Unlock()
		}
	})
	t.Cleanup(o.kill)
	return o
}

func (o *owner) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := o.command.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (o *owner) kill() {
	_ = o.command.Process.Kill() // it may have ended
	o.group.Wait()
	_ = o.command.Wait()
}

func (o *owner) partition(key string) (says, failed string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.said[key], o.ever[key]
}

// TestTwoOwnersReal: two processes believe to own the same partitions and copy them at once with different batching; one
// after the other is frozen (SIGSTOP) and continued, brokers are killed with -9. With timestamps inside the producer's
// expiry no offset is wrong. With older ones, which make the broker forget the producer every second, none is wrong
// without a partition that is FAILED for it.
func TestTwoOwnersReal(t *testing.T) {
	rounds, freeze := 1, 3*time.Second
	if os.Getenv("KMP_LONG") == "1" {
		rounds, freeze = 4, 60*time.Second
	}
	seed := uint64(1)
	if text := os.Getenv("KMP_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KMP_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	r := realRig(t)
	destination := realDestination.Kafka(t)
	for _, topic := range []string{recentTopic, oldTopic} {
		r.createTopic(topic, ownersPartitions, nil)
	}
	stopRecent := keepWriting(r, recentTopic, 0)
	stopOld := keepWriting(r, oldTopic, oldAge)
	owners := []*owner{
		startOwner(t, r.clusters.source, r.clusters.destination, 1, 1<<20),
		startOwner(t, r.clusters.source, r.clusters.destination, 2, 20_000),
	}
	for i, o := range owners {
		testenv.Eventually(t, patience, fmt.Sprintf("owner %d to mirror", i), func() error {
			if says, _ := o.partition(recentTopic + "-0"); !strings.HasPrefix(says, state.Mirroring.String()) {
				return fmt.Errorf("it is %q", says)
			}
			return nil
		})
	}
	for range rounds {
		frozen := owners[random.IntN(2)]
		victim := destination.NodeIDs()[random.IntN(3)]
		frozen.signal(t, syscall.SIGSTOP)
		if err := destination.Kill(victim); err != nil {
			t.Fatal(err)
		}
		if err := destination.Restart(context.Background(), victim); err != nil {
			t.Fatal(err)
		}
		time.Sleep(freeze) // how long it is frozen is what is tested
		frozen.signal(t, syscall.SIGCONT)
	}
	stopRecent()
	stopOld()
	testenv.Eventually(t, 2*patience, "everything to be copied or FAILED", func() error {
		for _, topic := range []string{recentTopic, oldTopic} {
			_, source := ends(t, r.source, topic)
			_, copied := ends(t, r.destination, topic)
			for i := range int32(ownersPartitions) {
				key := fmt.Sprintf("%s-%d", topic, i)
				_, first := owners[0].partition(key)
				_, second := owners[1].partition(key)
				s, _ := source.Lookup(topic, i)
				d, _ := copied.Lookup(topic, i)
				if first+second != "" || s.Err == nil && d.Err == nil && s.Offset == d.Offset {
					continue
				}
				return fmt.Errorf("%s ends at %d, the source at %d; FAILED: %q, %q", key, d.Offset, s.Offset, first, second)
			}
		}
		return nil
	})
	for _, o := range owners {
		o.kill()
	}
	r.compare(recentTopic, ownersPartitions)
	var failed, wrongFound, copied int64
	for i := range int32(ownersPartitions) {
		key := fmt.Sprintf("%s-%d", oldTopic, i)
		wrong := r.firstWrong(oldTopic, i)
		_, first := owners[0].partition(key)
		_, second := owners[1].partition(key)
		reason := first + second
		if reason != "" {
			failed++
			t.Logf("%s: FAILED: %s", key, reason)
		}
		if wrong != "" {
			wrongFound++
		}
		if wrong != "" && reason == "" {
			t.Errorf("%s: %s, and no owner noticed", key, wrong)
		}
	}
	_, copiedEnds := ends(t, r.destination, oldTopic)
	copiedEnds.Each(func(o kadm.ListedOffset) { copied += o.Offset })
	t.Logf("with timestamps older than the producer's expiry: %d of %d partitions FAILED, %d of them with a wrong offset in the log, in %d rounds of %v and %d offsets copied",
		failed, ownersPartitions, wrongFound, rounds, freeze, copied)
}

// firstWrong says which record of the destination is not the source's, "" when all are.
func (r *rig) firstWrong(topic string, partition int32) string {
	r.t.Helper()
	_, sourceEnds := ends(r.t, r.source, topic)
	_, copiedEnds := ends(r.t, r.destination, topic)
	s, _ := sourceEnds.Lookup(topic, partition)
	d, _ := copiedEnds.Lookup(topic, partition)
	want := readAll(r.t, r.clusters.source, topic, partition, s.Offset)
	got := readAll(r.t, r.clusters.destination, topic, partition, d.Offset)
	for i := range got {
		if i >= len(want) {
			return fmt.Sprintf("offset %d is beyond the source", got[i].Offset)
		}
		if diff := difference(want[i], got[i]); diff != "" {
			return fmt.Sprintf("offset %d: %s", want[i].Offset, diff)
		}
	}
	return ""
}

// keepWriting writes records of an age to all partitions of a source topic, in small batches, until the returned
// function is called.
func keepWriting(r *rig, topic string, age time.Duration) (stop func()) {
	c := client(r.t, r.clusters.source, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(2*time.Millisecond), kgo.RetryTimeout(60*time.Second))
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			var records []*kgo.Record
			for n := range 20 {
				records = append(records, &kgo.Record{Topic: topic, Partition: int32(n) % ownersPartitions, Timestamp: time.Now().Add(-age),
					Key: fmt.Appendf(nil, "%d", i), Value: bytes.Repeat([]byte{byte(n)}, 100)})
			}
			if err := c.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
				r.t.Errorf("write to the source: %v", err)
				return
			}
		}
	})
	return func() { cancel(); group.Wait() }
}
