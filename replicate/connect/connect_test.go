package connect

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func asIs(value string) (string, error) { return value, nil }

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name    string
		configs map[string]string
		ignored []string
		wrong   []string // parts of the error
	}{
		{name: "plaintext", configs: map[string]string{"bootstrap.servers": "a:1, b:2"}},
		{name: "ignored", configs: map[string]string{"bootstrap.servers": "a:1", "ssl.provider": "x", "mirror.engine": "auto", "acks": "1"}, ignored: []string{"acks", "ssl.provider"}},
		{name: "missing", configs: map[string]string{}, wrong: []string{"bootstrap.servers: names no server"}},
		{name: "all at once", configs: map[string]string{"bootstrap.servers": "a", "security.protocol": "ssl", "request.timeout.ms": "-1"},
			wrong: []string{`bootstrap.servers: "a"`, `security.protocol: "ssl"`, "request.timeout.ms"}},
		{name: "unsupported", configs: map[string]string{"bootstrap.servers": "a:1", "ssl.truststore.location": "/x"}, wrong: []string{"ssl.truststore.location: not supported"}},
		{name: "bad pem", configs: map[string]string{"bootstrap.servers": "a:1", "security.protocol": "SSL", "ssl.truststore.certificates": "x"}, wrong: []string{"ssl.truststore.certificates"}},
		{name: "no mechanism", configs: map[string]string{"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, wrong: []string{"sasl.mechanism", "sasl.jaas.config"}},
		{name: "scram", configs: map[string]string{"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256",
			"sasl.jaas.config": `org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, ignored, err := Parse(test.configs, asIs)
			for _, part := range test.wrong {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("error %v does not say %q", err, part)
				}
			}
			if len(test.wrong) == 0 && err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(test.ignored, ignored); diff != "" && len(test.wrong) == 0 {
				t.Error(diff)
			}
		})
	}
}

func TestParseResolvesSecrets(t *testing.T) {
	_, _, err := Parse(map[string]string{"bootstrap.servers": "${env:X}"}, func(string) (string, error) { return "", errors.New("X is not allowed") })
	if err == nil || err.Error() != "bootstrap.servers: X is not allowed" {
		t.Fatalf("error %v", err)
	}
}

func TestParseJAAS(t *testing.T) {
	for line, want := range map[string][2]string{
		`a.B required username="u" password="p\"q;";`:  {"u", `p"q;`},
		`a.B required username='u' password=p;`:        {"u", "p"},
		`a.B required password="p" username="u" x="";`: {"u", "p"},
	} {
		user, password, ok := parseJAAS(line)
		if !ok || user != want[0] || password != want[1] {
			t.Errorf("%s: %q %q %t", line, user, password, ok)
		}
	}
	if _, _, ok := parseJAAS(`a.B required username="u";`); ok {
		t.Error("accepted without a password")
	}
}
