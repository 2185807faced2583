package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// What there is to beat, measured on the same kind of machine (2 cores): other people's plain
// TCP proxy and MirrorMaker 2.
const (
	toBeatProxy      = "to beat: a plain TCP proxy's 0.30 CPU s/GB produce, 0.4-0.9 consume"
	toBeatMirror     = "to beat: MirrorMaker 2's 134 MB/s, 9.8 CPU s/GB at 1 KiB, 5.3 CPU us a record at 100 B"
	mirrorMakerMBps  = 134
	mirrorMaker100B  = 5.3 // CPU us a record
	relayFactor      = 1.5 // the proxy's CPU per GB over the relay's, at most
	replicatorPerGB  = 1.5 // CPU s/GB at 1 KiB, at most
	smallRecordBytes = 100
)

// report is all that was measured, in the order of the rows.
type report struct {
	Machine     string           `json:"machine"`
	Load        string           `json:"load_average"` // before the first row
	Fronts      []frontRow       `json:"fronts"`
	Replication []replicationRow `json:"replication"`
}

type frontRow struct {
	Name    string      `json:"name"`
	Produce measurement `json:"produce"`
	Consume measurement `json:"consume"`
	Ping    pings       `json:"ping"`
	Error   string      `json:"error,omitempty"`
}

// betweenPerGB is the CPU of what is between client and broker, if anything is.
func (f frontRow) betweenPerGB(m measurement) string {
	if f.Name == rowNoProxy {
		return "-"
	}
	return fmt.Sprintf("%.2f", m.processCPUPerGB())
}

type replicationRow struct {
	Name        string `json:"name"`
	RecordBytes int    `json:"record_bytes"`
	BatchBytes  int32  `json:"batch_bytes"` // of the source
	measurement
	Error string `json:"error,omitempty"`
}

// write prints the tables and, for each target that the rows allow to judge, a line.
func (r report) write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(r.Fronts) > 0 {
		fmt.Fprint(table, "\n1 KiB records, 8 partitions\tproduce MB/s\tCPU s/GB\t(load)\tconsume MB/s\tCPU s/GB\t(load)\tping p50 us\tp99 us\t\n")
	}
	for _, f := range r.Fronts {
		if f.Error != "" {
			fmt.Fprintf(table, "%s\tfailed\t\n", f.Name)
			continue
		}
		p, c := f.Produce, f.Consume
		fmt.Fprintf(table, "%s\t%.0f\t%s\t%.2f\t%.0f\t%s\t%.2f\t%.0f\t%.0f\t\n", f.Name,
			p.megabytesPerSecond(), f.betweenPerGB(p), p.generatorCPUPerGB(),
			c.megabytesPerSecond(), f.betweenPerGB(c), c.generatorCPUPerGB(), f.Ping.P50Micros, f.Ping.P99Micros)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(r.Replication) > 0 {
		fmt.Fprint(table, "\nreplication, 12 partitions\tMB/s\trecords/s\tCPU s/GB\tCPU us/record\t\n")
	}
	for _, m := range r.Replication {
		if m.Error != "" {
			fmt.Fprintf(table, "%s\tfailed\t\n", m.Name)
			continue
		}
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.2f\t%.2f\t\n", m.Name, m.megabytesPerSecond(), float64(m.Records)/m.Seconds, m.processCPUPerGB(), m.processMicrosPerRecord())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", strings.Join(r.verdicts(), "\n"))
	return err
}

func (r report) verdicts() []string {
	lines := []string{
		"CPU s/GB: user and system time of the relay or proxy (/proc/PID/stat around the run) per 10^9 bytes of values; (load): of the generator",
		toBeatProxy, toBeatMirror,
	}
	relay, haveRelay := r.front(rowRelay)
	if proxy, ok := r.front(rowProxy); ok && haveRelay {
		lines = append(lines,
			verdict("proxy over relay, produce CPU", proxy.Produce.processCPUPerGB()/relay.Produce.processCPUPerGB(), "x", relayFactor),
			verdict("proxy over relay, consume CPU", proxy.Consume.processCPUPerGB()/relay.Consume.processCPUPerGB(), "x", relayFactor))
	}
	for _, m := range r.Replication {
		if m.Error != "" || m.Name == rowSmallBatches {
			continue
		}
		if m.RecordBytes == smallRecordBytes {
			lines = append(lines, verdict(m.Name+", CPU", m.processMicrosPerRecord(), " us/record", mirrorMaker100B))
			continue
		}
		lines = append(lines,
			verdict(m.Name+", CPU", m.processCPUPerGB(), " s/GB", replicatorPerGB),
			verdict(m.Name+", MirrorMaker's rate over ours", mirrorMakerMBps/m.megabytesPerSecond(), "x", 1))
	}
	for _, f := range r.Fronts {
		if f.Error != "" {
			lines = append(lines, fmt.Sprintf("FAILED  %s: %s", f.Name, f.Error))
		}
	}
	for _, m := range r.Replication {
		if m.Error != "" {
			lines = append(lines, fmt.Sprintf("FAILED  %s: %s", m.Name, m.Error))
		}
	}
	return lines
}

func (r report) front(name string) (frontRow, bool) {
	for _, f := range r.Fronts {
		if f.Name == name && f.Error == "" {
			return f, true
		}
	}
	return frontRow{}, false
}

func (r report) failed() bool {
	for _, f := range r.Fronts {
		if f.Error != "" {
			return true
		}
	}
	for _, m := range r.Replication {
		if m.Error != "" {
			return true
		}
	}
	return false
}

func verdict(what string, value float64, unit string, atMost float64) string {
	word := "ok     "
	if !(value <= atMost) { // NaN misses too
		word = "MISSED "
	}
	return fmt.Sprintf("%s %s: %.2f%s, target at most %.2f%s", word, what, value, unit, atMost, unit)
}
