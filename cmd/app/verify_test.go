package app

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/testenv"
)

func filled(t *testing.T, values ...string) string {
	t.Helper()
	fake := testenv.NewFake(t, testenv.FakeConfig{Topics: map[string]int32{"t": 1}})
	client, err := kgo.NewClient(kgo.SeedBrokers(fake.Bootstrap()...))
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
