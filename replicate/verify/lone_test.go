package verify

import (
	"fmt"
	"strings"
	"testing"
)

// singles is a log of one-record batches from offset 0 on.
func singles(records ...string) (all []written) {
	for i, r := range records {
		all = append(all, mirrored(int64(i), r))
	}
	return all
}

// What one side has and the other has not is allowed only where the other side's cleaner explains it.
func TestOneSided(t *testing.T) {
	for name, c := range map[string]struct {
		source, destination []string
		sourcePolicy        string // compact,delete unless set
		destinationPolicy   string
		want                string // "" is equal
		oneSided            int64
	}{
		"the destination was compacted": {
			source:      []string{"a=1", "b=1", "a=2", "b=2"},
			destination: []string{filled, "b=1", "a=2", "b=2"}, oneSided: 1,
		},
		"the source was compacted": {
			source:      []string{filled, filled, "a=2", "b=2"},
			destination: []string{"a=1", "b=1", "a=2", "b=2"}, oneSided: 2,
		},
		"both, not at the same time": {
			source:      []string{filled, "b=1", "a=2", "b=2", "a=3"},
			destination: []string{"a=1", filled, filled, "b=2", "a=3"}, oneSided: 3,
		},
		"explained behind the source's end": {
			source:      []string{"a=1", "b=1", "a=2"},
			destination: []string{"a=1", "b=1", filled, "a=3"},
			want:        "the destination ends at 4", oneSided: 1, // and not offset 2
		},
		"not a compacted topic": {
			source: []string{"a=1", "a=2"}, destination: []string{filled, "a=2"}, destinationPolicy: "delete",
			want: "offset 0: the destination has no such record", oneSided: 1,
		},
		"only the other side is compacted": {
			source: []string{filled, "a=2"}, destination: []string{"a=1", "a=2"}, sourcePolicy: "delete",
			want: "offset 0: the source has no such record", oneSided: 1,
		},
		"lost": {
			source: []string{"a=1", "b=1"}, destination: []string{"a=1", filled},
			want: "offset 1: the destination has no such record, and no later one of its key", oneSided: 1,
		},
		"an earlier one explains nothing": {
			source: []string{"a=1", "a=2"}, destination: []string{"a=1", filled},
			want: "offset 1: the destination has no such record, and no later one of its key", oneSided: 1,
		},
		"deleted on the source alone": {
			source: []string{filled, "b=1"}, destination: []string{"a=1", "b=1"},
			want: "offset 0: the source has no such record, and no later one of its key", oneSided: 1,
		},
		"an expired tombstone": {
			source: []string{"a=1", "a", "b=1"}, destination: []string{filled, filled, "b=1"}, oneSided: 2,
		},
		"the source's tombstone has expired": {
			source: []string{filled, filled, "b=1"}, destination: []string{"a=1", "a", "b=1"}, oneSided: 2,
		},
		"a key written again after its expired tombstone": {
			source: []string{"a=1", "a", "a=2"}, destination: []string{filled, filled, "a=2"}, oneSided: 2,
		},
		"a tombstone that never arrived": {
			source: []string{"a=1", "a", "b=1"}, destination: []string{"a=1", filled, "b=1"},
			want: "offset 1: the destination has no such record, a delete, and still has the record at offset 0 of its key", oneSided: 1,
		},
		"without a key, dropped by the source's cleaner": {
			source: []string{filled, "b=1"}, destination: []string{"\x00=1", "b=1"}, oneSided: 1,
			destinationPolicy: "delete",
		},
		"without a key, not on the destination": {
			source: []string{"\x00=1", "b=1"}, destination: []string{filled, "b=1"}, sourcePolicy: "delete",
			want: "offset 0: the destination has no such record", oneSided: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy := func(p string) string {
				if p == "" {
					return "compact,delete"
				}
				return p
			}
			source := policied(t, policy(c.sourcePolicy), singles(c.source...)...)
			destination := policied(t, policy(c.destinationPolicy), singles(c.destination...)...)
			r := compare(t, source, destination)
			row := r.Partitions[0]
			if row.Difference != c.want && (c.want == "" || !strings.HasPrefix(row.Difference, c.want)) || row.OneSided != c.oneSided {
				t.Errorf("%d one-sided, want %d\n%swant %q", row.OneSided, c.oneSided, r, c.want)
			}
		})
	}
}

// Keys beyond the limit are looked up in the rest of the log, and then forgotten; without an end to them the comparison
// says so.
func TestOneSidedLimit(t *testing.T) {
	const keys = 40
	var source, compacted, lost []string
	for i := range keys {
		source = append(source, fmt.Sprintf("key-%d=1", i))
		compacted, lost = append(compacted, filled), append(lost, filled)
	}
	for i := range keys {
		again := fmt.Sprintf("key-%d=2", i)
		source, compacted, lost = append(source, again), append(compacted, again), append(lost, filled)
	}
	for name, c := range map[string]struct {
		destination []string
		want        string
	}{
		"explained": {compacted, ""},
		"lost":      {lost, "offset 0: the destination has no such record, nor later ones of"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Source: policied(t, "compact", singles(source...)...), Destination: policied(t, "compact", singles(c.destination...)...),
				Topics: []string{"t"}}
			comparer := newComparer(cfg)
			s, err := describe(t.Context(), cfg.Source, "source", cfg.Topics)
			if err != nil {
				t.Fatal(err)
			}
			d, err := describe(t.Context(), cfg.Destination, "destination", cfg.Topics)
			if err != nil {
				t.Fatal(err)
			}
			row := Partition{Topic: "t", End: int64(len(source))}
			p, err := comparer.newPair(&row, s.topics["t"], d.topics["t"])
			if err != nil {
				t.Fatal(err)
			}
			p.lost.limit = 10 * loneOverhead
			if err := p.compare(t.Context(), sampler{}); err != nil {
				t.Fatal(err)
			}
			if row.Difference != c.want && (c.want == "" || !strings.HasPrefix(row.Difference, c.want)) {
				t.Errorf("%+v, want %q", row, c.want)
			}
			if p.lost.bytes > p.lost.limit+loneOverhead+10 || p.lost.bytes < 0 {
				t.Errorf("%d bytes are held", p.lost.bytes)
			}
		})
	}
}
