package main

import (
	"strings"
	"testing"
)

// gigabyte is a measurement of one GB with the given CPU seconds of the process in between.
func gigabyte(cpuSeconds float64) measurement {
	return measurement{Records: 1e6, Bytes: 1e9, Seconds: 4, ProcessCPUSeconds: cpuSeconds, GeneratorCPUSeconds: 1.5}
}

func TestFiguresOfAMeasurement(t *testing.T) {
	m := measurement{Records: 4e6, Bytes: 2e9, Seconds: 8, ProcessCPUSeconds: 3, GeneratorCPUSeconds: 5}
	for what, c := range map[string]struct{ got, want float64 }{
		"MB/s":           {m.megabytesPerSecond(), 250},
		"CPU s/GB":       {m.processCPUPerGB(), 1.5},
		"generator s/GB": {m.generatorCPUPerGB(), 2.5},
		"us/record":      {m.processMicrosPerRecord(), 0.75},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
}

func TestTheTableShowsFiguresAndVerdicts(t *testing.T) {
	r := report{
		Fronts: []frontRow{
			{Name: rowNoProxy, Produce: gigabyte(0), Consume: gigabyte(0), Ping: pings{P50Micros: 41, P99Micros: 97}},
			{Name: rowRelay, Produce: gigabyte(0.4), Consume: gigabyte(0.5)},
			{Name: rowProxy, Produce: gigabyte(0.6), Consume: gigabyte(0.8)},
		},
		Replication: []replicationRow{
			{Name: rowReplicate1KiB, RecordBytes: 1024, measurement: gigabyte(1.25)},
			{Name: rowReplicate100B, RecordBytes: smallRecordBytes, measurement: gigabyte(6)},
		},
	}
	var out strings.Builder
	if err := r.write(&out); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"no-proxy 250 - 1.50 250 - 1.50 41 97",
		"relay 250 0.40 1.50 250 0.50 1.50 0 0",
		"proxy 250 0.60 1.50 250 0.80 1.50 0 0",
		"replicate-1KiB 250 250000 1.25 1.25",
		"ok proxy over relay, produce CPU: 1.50x, target at most 1.50x",
		"MISSED proxy over relay, consume CPU: 1.60x, target at most 1.50x",
		"ok replicate-1KiB, CPU: 1.25 s/GB, target at most 1.50 s/GB",
		"ok replicate-1KiB, MirrorMaker's rate over ours: 0.54x, target at most 1.00x",
		"MISSED replicate-100B, CPU: 6.00 us/record, target at most 5.30 us/record",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	if r.failed() {
		t.Error("no row failed, but the report says so")
	}
}

func TestAFailedRowIsShownAndNotJudged(t *testing.T) {
	r := report{
		Fronts:      []frontRow{{Name: rowRelay, Produce: gigabyte(1), Consume: gigabyte(1)}, {Name: rowProxy, Error: "it ended"}},
		Replication: []replicationRow{{Name: rowReplicate1KiB, Error: "no progress"}},
	}
	text := strings.Join(r.verdicts(), "\n")
	for _, want := range []string{"FAILED  proxy: it ended", "FAILED  replicate-1KiB: no progress"} {
		if !strings.Contains(text, want) {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "target") {
		t.Errorf("a failed row is judged:\n%s", text)
	}
	if !r.failed() {
		t.Error("rows failed, but the report does not say so")
	}
}

func TestAFigureThatIsNoNumberMissesItsTarget(t *testing.T) {
	zero := 0.0
	if line := verdict("nothing", zero/zero, "x", 1); !strings.HasPrefix(line, "MISSED") {
		t.Error(line)
	}
}
