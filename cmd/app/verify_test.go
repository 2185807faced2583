package app

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/testenv"
)

func filled(t *testing.T, values ...string) string {
	t.Helper()
	fake := testenv.NewFake(t, testenv.FakeConfig{Topics: map[string]int32{"t": 1}})
	client, err := kgo.NewClient(kgo.SeedBrokers(fake.Bootstrap()...), kgo.DisableIdempotentWrite()) // kfake's producer ids may look like a mirror's
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i, v := range values {
		r := &kgo.Record{Topic: "t", Value: []byte(v), Timestamp: time.UnixMilli(int64(i))}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return fake.Bootstrap()[0]
}

func TestVerifyCommand(t *testing.T) {
	one, same, other := filled(t, "a", "b"), filled(t, "a", "b"), filled(t, "a", "c")
	for _, c := range []struct {
		name     string
		args     []string
		exit     int
		out, err string
	}{
		{"equal", []string{"--source", one, "--destination", same, "--topic", "t"}, 0, "t-0: equal: 2 records, offsets 0 to 1\nequal: 2 records in 1 partitions\n", ""},
		{"different", []string{"--source", one, "--destination", other, "--topic", "t"}, 1, `t-0: DIFFERENT: offset 1: the value is "c", the source's "b" (1 records before it are equal)`, ""},
		{"json", []string{"--source", one, "--destination", other, "--topic=t", "--output=json"}, 1, `"difference": "offset 1:`, ""},
		{"no such topic", []string{"--source", one, "--destination", same, "--topic", "u"}, 2, "", "topic u on the source"},
		{"config file", []string{"--source-config", "missing", "--destination", same, "--topic", "t"}, 2, "", "--source-config: "},
		{"everything missing", nil, 2, "", "--topic must be given\n--source must be given\n--destination must be given"},
		{"stray", []string{"--source", one, "--destination", same, "--topic", "t", "--output", "xml", "stray"}, 2, "", "unexpected argument \"stray\"\n--output must be text or json"},
		{"sample", []string{"--source", one, "--destination", same, "--topic", "t", "--sample", "0.5", "--seed", "9"}, 0, "equal: 2 records in 1 partitions; a sample: 100.0% of the offsets, seed 9\n", ""},
		{"bad numbers", []string{"--source", one, "--destination", same, "--topic", "t", "--sample", "1.5", "--max-bytes-per-second", "-1"}, 2, "", "--sample must be above 0 and at most 1, got 1.5\n--max-bytes-per-second must not be negative"},
		{"metrics without follow", []string{"--source", one, "--destination", same, "--topic", "t", "--admin-listen", "127.0.0.1:0"}, 2, "", "--admin-listen needs --follow"},
		{"help", []string{"--help"}, 0, "--patience", ""},
	} {
		var out, errs strings.Builder
		exit := Verify(t.Context(), c.args, &out, &errs, func(name string) ([]byte, error) {
			if name == "missing" {
				return nil, fs.ErrNotExist
			}
			return os.ReadFile(name)
		})
		if exit != c.exit || !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.err) {
			t.Errorf("%s: exit %d\n%s%s", c.name, exit, &out, &errs)
		}
	}
}

// lockedText is what a command that runs on writes.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// --follow goes on until it is interrupted, logs a difference, and shows how things stand as metrics.
func TestVerifyFollow(t *testing.T) {
	for _, c := range []struct {
		name, other, log string
		exit             int
		metrics          []string
	}{
		{"equal", filled(t, "a", "b"), "comparing again and again", 0, []string{
			`different{partition="0",topic="t"} 0`, "records_total 2", "differences_total 0", "rounds_total 1", "compared_offsets_total 2", "compared_share 1"}},
		{"different", filled(t, "a", "c"), `"topic":"t","partition":0,"difference":"offset 1: the value is`, 1, []string{
			`different{partition="0",topic="t"} 1`, "records_total 1", "differences_total 1", "rounds_total 1", "errors_total 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out, errs lockedText
			exit, source := make(chan int), filled(t, "a", "b")
			go func() {
				exit <- Verify(ctx, []string{"--source", source, "--destination", c.other, "--topic", "t", "--follow", "--admin-listen", "127.0.0.1:0"}, &out, &errs, os.ReadFile)
			}()
			testenv.Eventually(t, 30*time.Second, "the metrics of a round", func() error {
				address := regexp.MustCompile(`"admin_listen":"([^"]+)"`).FindStringSubmatch(errs.String())
				if address == nil {
					return fmt.Errorf("the log is %s", &errs)
				}
				response, err := http.Get("http://" + address[1] + "/metrics")
				if err != nil {
					return err
				}
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				if err != nil {
					return err
				}
				for _, want := range c.metrics {
					if !strings.Contains(string(text), "\nkafka_mirror_proxy_verify_"+want+"\n") {
						return fmt.Errorf("no %q in\n%s", want, text)
					}
				}
				return nil
			})
			cancel()
			if got := <-exit; got != c.exit || !strings.Contains(errs.String(), c.log) || !strings.Contains(out.String(), "t-0: ") {
				t.Errorf("exit %d, want %d\n%s%s", got, c.exit, &out, &errs)
			}
		})
	}
}
