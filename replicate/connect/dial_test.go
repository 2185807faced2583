package connect

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/testenv"
)

// A raw connection and a client authenticate with the same configs, and a wrong password is said.
func TestDialAuthenticates(t *testing.T) {
	fake := testenv.NewFake(t, testenv.FakeConfig{Options: []kfake.Opt{kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "user", "secret"), kfake.Superuser("SCRAM-SHA-256", "user", "secret"), kfake.Superuser("SCRAM-SHA-512", "user", "secret")}})
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		for password, works := range map[string]bool{"secret": true, "wrong": false} {
			configs := map[string]string{"bootstrap.servers": fake.Bootstrap()[0], "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism,
				"sasl.jaas.config": `x.LoginModule required username="user" password="` + password + `";`}
			settings, _, err := Parse(configs, asIs)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := settings.Dial(context.Background(), fake.Bootstrap()[0])
			if (err == nil) != works {
				t.Errorf("%s with %s: %v", mechanism, password, err)
			}
			if err != nil {
				if !strings.Contains(err.Error(), "SASL "+mechanism) {
					t.Errorf("%q does not name the mechanism", err)
				}
				continue
			}
			exchange := handshake{conn: conn, formatter: kmsg.NewRequestFormatter()}
			request := kmsg.NewPtrMetadataRequest()
			if err := exchange.do(request, request.ResponseKind()); err != nil { // v0, as new requests are
				t.Errorf("%s: metadata: %v", mechanism, err)
			}
			conn.Close()
			client, err := kgo.NewClient(settings.Options()...)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			if err := client.Ping(ctx); err != nil {
				t.Errorf("%s: client: %v", mechanism, err)
			}
			cancel()
			client.Close()
		}
	}
}
