package produce

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/testenv"
)

const day = 24 * time.Hour

// aged is next with the last record so old.
func (r *rig) aged(base int64, n int32, age time.Duration) Batch {
	raw := denseAt(time.Now().Add(-age).UnixMilli(), r.target.ProducerID(), 0, base, batch.SequenceOf(base), n, "v")
	batch.SetBaseOffset(raw, 0)
	return Batch{Bytes: raw, BaseOffset: base, Count: n}
}

// stream opens a stream whose broker remembers producers for a day.
func (r *rig) stream(change func(*StreamConfig)) *Stream {
	r.t.Helper()
	position, err := r.engine.Position(r.t.Context(), r.target, time.Time{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.engine.facts(position.Leader.ID).expirationMs.Store(day.Milliseconds())
	cfg := StreamConfig{Target: r.target, StartOffset: position.EndOffset, CheckedAt: position.CheckedAt, ReservedOffset: 1000, Leader: position.Leader.ID}
	change(&cfg)
	return r.engine.Open(cfg)
}

func TestGuardedUntil(t *testing.T) {
	const slackMs = int64(guardSlack / time.Millisecond)
	var f brokerFacts
	for _, test := range []struct{ expirationMs, lastMs, want int64 }{
		{0, 1e12, 0},
		{slackMs, 1e12, 0},
		{day.Milliseconds(), 1e12, 1e12 + day.Milliseconds() - slackMs},
		{day.Milliseconds(), -1, 0},
		{day.Milliseconds(), 1<<63 - 1, 1<<63 - 1},
	} {
		f.expirationMs.Store(test.expirationMs)
		if got := f.guardedUntilMs(test.lastMs); got != test.want {
			t.Errorf("last record %d, expiration %d: guarded until %d, want %d", test.lastMs, test.expirationMs, got, test.want)
		}
	}
}

// While something may be under way, a batch that would make the broker forget the producer is not sent.
func TestStreamKeepsTheGuardWhileInDoubt(t *testing.T) {
	r := newRig(t)
	s := r.stream(func(c *StreamConfig) { c.DoubtUntil = time.Now().Add(time.Hour) })
	s.Push(r.aged(0, 5, time.Hour))
	s.Push(r.aged(5, 5, 25*time.Hour))
	if fault := r.await(s, 10); fault == nil || fault.Verdict != Unguarded || r.end() != 5 {
		t.Errorf("%v, log end %d", fault, r.end())
	}
	s = r.stream(func(c *StreamConfig) { c.DoubtUntil = time.Now() })
	s.Push(r.aged(5, 5, 25*time.Hour))
	if fault := r.await(s, 10); fault != nil {
		t.Error(fault)
	}
}

// acks=1 is for batches before and behind which the broker surely remembers the producer, and while nothing is under way.
func TestStreamWaitsForFollowersUnlessGuarded(t *testing.T) {
	guarded := time.Now().Add(time.Hour).UnixMilli()
	for _, test := range []struct {
		name   string
		age    time.Duration
		change func(*StreamConfig)
		want   int16
	}{
		{"guarded", time.Hour, func(c *StreamConfig) { c.OneAck, c.GuardedUntilMs = true, guarded }, 1},
		{"not wanted", time.Hour, func(c *StreamConfig) { c.GuardedUntilMs = guarded }, -1},
		{"not guarded before", time.Hour, func(c *StreamConfig) { c.OneAck = true }, -1},
		{"not guarded behind", day - 10*time.Minute, func(c *StreamConfig) { c.OneAck, c.GuardedUntilMs = true, guarded }, -1},
		{"in doubt", time.Hour, func(c *StreamConfig) {
			c.OneAck, c.GuardedUntilMs, c.DoubtUntil = true, guarded, time.Now().Add(time.Hour)
		}, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			var mu sync.Mutex
			var acks []int16
			r.answer = func(request *kmsg.ProduceRequest) *kmsg.ProduceResponse {
				mu.Lock()
				defer mu.Unlock()
				acks = append(acks, request.Acks)
				return nil
			}
			appended := make(chan int64, 10)
			s := r.stream(func(c *StreamConfig) {
				test.change(c)
				c.OnAppend = func(end, _ int64) { appended <- end }
			})
			s.Push(r.aged(0, 5, test.age))
			end := <-appended
			mu.Lock()
			defer mu.Unlock()
			if len(acks) != 1 || acks[0] != test.want {
				t.Fatalf("sent with acks %v, want %d", acks, test.want)
			}
			if test.want == acksAll {
				if end != 5 || s.Unconfirmed() {
					t.Errorf("end %d", end)
				}
				return
			}
			// What the leader alone has does not count.
			if got, _, _, _ := s.Status(); end != 0 || got != 0 || !s.Unconfirmed() {
				t.Errorf("end %d and %d before the followers have it", end, got)
			}
			s.Confirm(3)
			s.Confirm(2)
			if got, _, _, _ := s.Status(); got != 3 || !s.Unconfirmed() {
				t.Errorf("end %d, want 3", got)
			}
			s.Confirm(7) // never more than was appended
			if got, _, _, _ := s.Status(); got != 5 || s.Unconfirmed() {
				t.Errorf("end %d, want 5", got)
			}
			if first, second := <-appended, <-appended; first != 3 || second != 5 {
				t.Errorf("told %d and %d, want 3 and 5", first, second)
			}
		})
	}
}

func TestGuardFollowsWhatIsAppended(t *testing.T) {
	r := newRig(t)
	until := make(chan int64, 10)
	s := r.stream(func(c *StreamConfig) { c.OnAppend = func(_, guardedUntilMs int64) { until <- guardedUntilMs } })
	b := r.aged(0, 5, 30*24*time.Hour)
	want := batch.Batch(b.Bytes).MaxTimestamp() + (day - guardSlack).Milliseconds()
	s.Push(b)
	if got := <-until; got != want || got > time.Now().UnixMilli() {
		t.Errorf("guarded until %d, want %d", got, want)
	}
}

func TestWrongOffsetsAreCounted(t *testing.T) {
	r := newRig(t)
	r.answer = answerWith(0, 3)
	s := r.open(1000)
	s.Push(r.next(0, 5))
	r.await(s, 5)
	if n := r.engine.cfg.WrongOffsets.Load(); n != 1 {
		t.Errorf("%d wrong offsets counted, want 1", n)
	}
}

// The broker would only close the connection.
func TestStreamRefusesWhatNoRequestCanHold(t *testing.T) {
	r := newRig(t)
	s := r.open(1000)
	s.facts.requestBytes.Store(int64(len(r.next(0, 5).Bytes) + requestOverheadBytes - 1))
	s.Push(r.next(0, 5))
	if fault := r.await(s, 5); fault == nil || fault.Verdict != Refused || r.sent.Load() != 0 {
		t.Errorf("%v, %d requests", fault, r.sent.Load())
	}
}

// Together with others a batch takes no more than RequestBytes; a larger one goes alone.
func TestLaneFillsRequests(t *testing.T) {
	r := newRig(t)
	size := len(r.next(0, 5).Bytes)
	r.engine.cfg.RequestBytes = 2*size + size/2
	l := newLane(r.engine, 0)
	var requests [][]int32
	for i, n := range []int32{5, 5, 5, 50, 5} {
		target := r.target
		target.Partition = int32(i)
		newStream(StreamConfig{Target: target, ReservedOffset: 1000, CheckedAt: time.Now()}, l, r.engine.facts(0)).Push(r.next(0, n))
	}
	for l.pickBatches() {
		var picked []int32
		for _, p := range l.picks {
			picked = append(picked, p.stream.cfg.Target.Partition)
		}
		requests = append(requests, picked)
	}
	if got := fmt.Sprint(requests); got != "[[0 1] [2] [3] [4]]" {
		t.Errorf("requests of partitions %s", got)
	}
}

// A stream that begins at an empty log knows for how long the broker will remember what it writes.
func TestAlignReadsTheBrokersConfigs(t *testing.T) {
	r := newRig(t)
	const requestBytes = 12345678
	r.tellConfigs(map[string]int64{expirationConfig: day.Milliseconds(), requestBytesConfig: requestBytes})
	start, err := r.engine.Align(t.Context(), r.target, SourceLog{}, Expectation{FillToOffset: -1, HandedOverAt: -1}, time.Time{})
	if err != nil || start.GuardedUntilMs != 0 {
		t.Fatalf("%+v, %v", start, err)
	}
	if got := r.engine.facts(start.Leader.ID).expirationMs.Load(); got != day.Milliseconds() {
		t.Errorf("expiration %d", got)
	}
	if got := r.engine.facts(start.Leader.ID).requestBytes.Load(); got != requestBytes {
		t.Errorf("largest request %d", got)
	}
	lastMs := time.Now().UnixMilli()
	r.fill(10, "v")
	r.state = &ProducerState{LastSequence: 9, LastTimestampMs: lastMs}
	start, err = r.engine.Align(t.Context(), r.target, SourceLog{HighWatermark: 10, LogStart: 10}, Expectation{FillToOffset: 10, HandedOverAt: -1}, time.Time{})
	if want := lastMs + (day - guardSlack).Milliseconds(); err != nil || start.GuardedUntilMs != want {
		t.Errorf("guarded until %d, %v; want %d", start.GuardedUntilMs, err, want)
	}
}

// tellConfigs lets brokers say what these configs are, where they are asked for them.
func (r *rig) tellConfigs(values map[string]int64) {
	r.fake.ControlKey(int16(kmsg.DescribeConfigs), func(request kmsg.Request) (kmsg.Response, error, bool) {
		r.fake.KeepControl()
		answer := request.ResponseKind().(*kmsg.DescribeConfigsResponse)
		resource := kmsg.NewDescribeConfigsResponseResource()
		for _, name := range request.(*kmsg.DescribeConfigsRequest).Resources[0].ConfigNames {
			if value, ok := values[name]; ok {
				config, text := kmsg.NewDescribeConfigsResponseResourceConfig(), strconv.FormatInt(value, 10)
				config.Name, config.Value = name, &text
				resource.Configs = append(resource.Configs, config)
			}
		}
		answer.Resources = append(answer.Resources, resource)
		return answer, nil, true
	})
}

// An expiration that is lowered while a stream is open counts for its next batches.
func TestStreamNoticesALoweredExpiration(t *testing.T) {
	r := newRig(t, func(cfg *Config) { cfg.FactsAge = 20 * time.Millisecond })
	var expirationMs atomic.Int64
	expirationMs.Store(day.Milliseconds())
	r.fake.ControlKey(int16(kmsg.DescribeConfigs), func(request kmsg.Request) (kmsg.Response, error, bool) {
		r.fake.KeepControl()
		answer := request.ResponseKind().(*kmsg.DescribeConfigsResponse)
		resource, config := kmsg.NewDescribeConfigsResponseResource(), kmsg.NewDescribeConfigsResponseResourceConfig()
		text := strconv.FormatInt(expirationMs.Load(), 10)
		config.Name, config.Value = expirationConfig, &text
		resource.Configs = append(resource.Configs, config)
		answer.Resources = append(answer.Resources, resource)
		return answer, nil, true
	})
	s := r.stream(func(c *StreamConfig) { c.DoubtUntil = time.Now().Add(time.Hour) })
	s.Push(r.aged(0, 5, time.Hour))
	if fault := r.await(s, 5); fault != nil {
		t.Fatal(fault)
	}
	expirationMs.Store((30 * time.Minute).Milliseconds())
	testenv.Eventually(t, patience, "the engine to notice", func() error {
		if got := s.facts.expirationMs.Load(); got != expirationMs.Load() {
			return fmt.Errorf("it counts on %d ms", got)
		}
		return nil
	})
	s.Push(r.aged(5, 5, time.Hour))
	if fault := r.await(s, 10); fault == nil || fault.Verdict != Unguarded || r.end() != 5 {
		t.Errorf("%v, log end %d", fault, r.end())
	}
}
