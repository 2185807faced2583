package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

// A sample's parts are in order, apart from each other, and whole chunks; the same seed gives the same ones.
func TestSampleParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sampler{share: rapid.Float64Range(0, 1).Draw(t, "share"), seed: rapid.Uint64().Draw(t, "seed")}
		from := rapid.Int64Range(0, 5*chunkOffsets).Draw(t, "from")
		end := from + rapid.Int64Range(0, 50*chunkOffsets).Draw(t, "length")
		parts := slices.Collect(s.parts("topic", 3, from, end))
		if again := slices.Collect(s.parts("topic", 3, from, end)); !slices.Equal(parts, again) {
			t.Fatalf("%v, then %v", parts, again)
		}
		last := int64(-1)
		for _, p := range parts {
			if p.from >= p.end || p.from <= last || p.from != from && p.from%chunkOffsets != 0 || p.end != end && p.end%chunkOffsets != 0 {
				t.Fatalf("%v of %d to %d", parts, from, end)
			}
			last = p.end
		}
		if from < end && last != end {
			t.Fatalf("%v does not hold the end %d", parts, end)
		}
		if s.all() && from < end && !slices.Equal(parts, []part{{from, end}}) {
			t.Fatalf("%v is not all of %d to %d", parts, from, end)
		}
	})
}

// The share is about the one asked for, and seeds choose differently.
func TestSampleShare(t *testing.T) {
	const chunks = 10_000
	first := slices.Collect(sampler{0.1, 1}.parts("topic", 0, 0, chunks*chunkOffsets))
	second := slices.Collect(sampler{0.1, 2}.parts("topic", 0, 0, chunks*chunkOffsets))
	if slices.Equal(first, second) {
		t.Error("two seeds chose the same")
	}
	for _, parts := range [][]part{first, second} {
		var sum int64
		for _, p := range parts {
			sum += p.end - p.from
		}
		if taken := sum / chunkOffsets; taken < 900 || taken > 1100 {
			t.Errorf("%d of %d chunks, want about 1,000", taken, chunks)
		}
	}
}

// longLogs are two logs of so many offsets in batches of 1,000, equal but for one record.
func longLogs(t *testing.T, offsets, different int64) (source, destination *kgo.Client) {
	t.Helper()
	var one, two []written
	for base := int64(0); base < offsets; base += 1000 {
		records := slices.Repeat([]string{"k=v"}, 1000)
		one = append(one, mirrored(base, records...))
		if different >= base && different < base+1000 {
			records[different-base] = "k=other"
		}
		two = append(two, mirrored(base, records...))
	}
	return policied(t, "delete", one...), policied(t, "delete", two...)
}

// A sample compares its parts only, says so, and each seed finds what lies in its parts.
func TestSample(t *testing.T) {
	const offsets, different = 5 * chunkOffsets, 2*chunkOffsets + 4321
	source, destination := longLogs(t, offsets, different)
	cfg := Config{Source: source, Destination: destination, Topics: []string{"t"}, Sample: 0.4}
	found, passed := 0, 0
	for cfg.Seed = range uint64(12) {
		r, err := Compare(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		var chosen, inside int64
		for p := range (sampler{cfg.Sample, cfg.Seed}).parts("t", 0, 0, offsets) {
			if chosen += p.end - p.from; p.from <= different && different < p.end {
				inside++
			}
		}
		row := r.Partitions[0]
		if inside == 1 {
			found++
			if !strings.HasPrefix(row.Difference, fmt.Sprintf("offset %d: the value is", different)) {
				t.Errorf("seed %d: %s", cfg.Seed, r)
			}
			continue
		}
		passed++
		want := fmt.Sprintf("a sample: %.1f%% of the offsets, seed %d\n", 100*r.Share(), cfg.Seed)
		if !r.Equal() || row.Compared != chosen || row.Records != chosen || r.Share() > 0.81 || r.Sample != 0.4 || !strings.HasSuffix(r.String(), want) {
			t.Errorf("seed %d: %s%+v, want %d offsets, %q", cfg.Seed, r, row, chosen, want)
		}
	}
	if found == 0 || passed == 0 {
		t.Errorf("%d seeds found it and %d could not: nothing is shown", found, passed)
	}
}

// Each round takes a sample of its own, and goes on after a difference and after an error.
func TestFollow(t *testing.T) {
	const offsets, different = 5 * chunkOffsets, 2*chunkOffsets + 4321
	source, destination := longLogs(t, offsets, different)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var equal, differ int
	seeds := map[uint64]bool{}
	Follow(ctx, Config{Source: source, Destination: destination, Topics: []string{"t"}, Sample: 0.4}, time.Millisecond, func(r Report, err error) {
		if err != nil {
			t.Errorf("round %d: %v", len(seeds), err)
		}
		seeds[r.Seed] = true
		if r.Equal() {
			equal++
		} else {
			differ++
		}
		if equal > 0 && differ > 0 || len(seeds) == 100 {
			cancel()
		}
	})
	if equal == 0 || differ == 0 || len(seeds) != equal+differ {
		t.Errorf("%d rounds were equal and %d not, with %d seeds", equal, differ, len(seeds))
	}

	ctx, cancel = context.WithCancel(t.Context())
	rounds := 0
	Follow(ctx, Config{Source: source, Destination: destination, Topics: []string{"no-such-topic"}}, time.Millisecond, func(_ Report, err error) {
		if err == nil {
			t.Error("a topic that is not there was compared")
		}
		if rounds++; rounds == 2 {
			cancel()
		}
	})
}

// The bound holds over rounds and both sides, also for answers that are larger than what is let through at once.
func TestThrottle(t *testing.T) {
	c := newComparer(Config{MaxBytesPerSecond: 1 << 20})
	if err := c.throttle(t.Context(), 1<<20); err != nil { // what may be read at once
		t.Fatal(err)
	}
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if c.limit.TokensAt(began) > 1<<19 {
		t.Errorf("%.0f bytes are left", c.limit.TokensAt(began))
	}
	cancel()
	if err := c.throttle(ctx, 3<<20); err == nil {
		t.Error("3 MiB more were let through at once")
	}
	if err := newComparer(Config{}).throttle(ctx, 1<<30); err != nil {
		t.Errorf("without a bound: %v", err)
	}
}
