package verify

import (
	"fmt"
	"slices"
	"strings"
)

// Partition is the outcome for one partition.
type Partition struct {
	Topic            string  `json:"topic"`
	Partition        int32   `json:"partition"`
	SourceStart      int64   `json:"sourceStart"`      // log start offsets
	DestinationStart int64   `json:"destinationStart"` //
	End              int64   `json:"end"`              // the source's end when the comparison began, exclusive
	Compared         int64   `json:"comparedOffsets"`  // from the source's start on, or of the sample
	Records          int64   `json:"records"`          // equal records
	OneSided         int64   `json:"oneSidedRecords"`  // of one side only, explained by compaction unless there is a difference
	Batches          Batches `json:"batches"`
	Difference       string  `json:"difference,omitempty"`
}

// Report is the outcome, in the order of topics and partitions.
type Report struct {
	Partitions []Partition `json:"partitions"`
	Sample     float64     `json:"sample,omitempty"` // the share that was asked for, 0 for all
	Seed       uint64      `json:"seed,omitempty"`   // of the sample
}

// Equal says that no partition differs.
func (r Report) Equal() bool { return r.different() == 0 }

func (r Report) different() (n int) {
	for _, p := range r.Partitions {
		if p.Difference != "" {
			n++
		}
	}
	return n
}

// Records is the number of records found equal.
func (r Report) Records() (n int64) {
	for _, p := range r.Partitions {
		n += p.Records
	}
	return n
}

// Share is the share of the source's offsets that was compared.
func (r Report) Share() float64 {
	var compared, all int64
	for _, p := range r.Partitions {
		compared += p.Compared
		all += max(0, p.End-p.SourceStart)
	}
	if all == 0 {
		return 1
	}
	return float64(compared) / float64(all)
}

// String is the report as text: a line a partition, then the verdict.
func (r Report) String() string {
	var out strings.Builder
	for _, p := range r.Partitions {
		if p.Difference != "" {
			fmt.Fprintf(&out, "%s-%d: DIFFERENT: %s (%d records before it are equal)\n", p.Topic, p.Partition, p.Difference, p.Records)
			continue
		}
		fmt.Fprintf(&out, "%s-%d: equal: %d records, offsets %d to %d%s\n", p.Topic, p.Partition, p.Records, p.SourceStart, p.End-1, p.remarks())
	}
	out.WriteString(r.Verdict())
	return out.String()
}

// remarks are what a mirror's partition shows besides being equal.
func (p Partition) remarks() string {
	var all []string
	if p.OneSided > 0 {
		all = append(all, fmt.Sprintf("%d compacted away on one side", p.OneSided))
	}
	if p.Batches.Mirrored > 0 {
		all = append(all, fmt.Sprintf("%d of %d source batches are the same bytes", p.Batches.Identical, p.Batches.Source))
	}
	if filler := p.Batches.Filler + p.Batches.Hidden; filler > 0 {
		all = append(all, fmt.Sprintf("%d offsets of filler", filler))
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, ", ") + ")"
}

// Verdict is the last line of the text.
func (r Report) Verdict() string {
	if n := r.different(); n > 0 {
		return fmt.Sprintf("DIFFERENT: %d of %d partitions\n", n, len(r.Partitions))
	}
	sample := ""
	if r.Sample > 0 {
		sample = fmt.Sprintf("; a sample: %.1f%% of the offsets, seed %d", 100*r.Share(), r.Seed)
	}
	return fmt.Sprintf("equal: %d records in %d partitions%s\n", r.Records(), len(r.Partitions), sample)
}

// Differing are the partitions that differ.
func (r Report) Differing() []Partition {
	return slices.DeleteFunc(slices.Clone(r.Partitions), func(p Partition) bool { return p.Difference == "" })
}
