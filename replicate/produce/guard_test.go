package produce

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestGuarded(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Now()
	for _, test := range []struct {
		name       string
		age        time.Duration // of the last record
		expiration string        // "": the broker does not tell
		code       int16
		want       bool
	}{
		{"fresh", time.Minute, "86400000", 0, true},
		{"about to be forgotten", day - 30*time.Minute, "86400000", 0, false},
		{"old, but remembered for long", 3 * day, "2147483647", 0, true},
		{"fresh, but remembered for minutes", time.Minute, "600000", 0, false},
		{"from the future", -365 * day, "86400000", 0, true},
		{"not told", time.Minute, "", 0, false},
		{"forbidden", time.Minute, "86400000", kerr.ClusterAuthorizationFailed.Code, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			r.fill(10, "v")
			r.state = &ProducerState{LastSequence: 9, LastTimestampMs: now.Add(-test.age).UnixMilli()}
			r.fake.ControlKey(int16(kmsg.DescribeConfigs), func(request kmsg.Request) (kmsg.Response, error, bool) {
				answer := request.ResponseKind().(*kmsg.DescribeConfigsResponse)
				resource, config := kmsg.NewDescribeConfigsResponseResource(), kmsg.NewDescribeConfigsResponseResourceConfig()
				resource.ErrorCode = test.code
				if config.Name, config.Value = request.(*kmsg.DescribeConfigsRequest).Resources[0].ConfigNames[0], &test.expiration; test.expiration != "" {
					resource.Configs = append(resource.Configs, config)
				}
				answer.Resources = append(answer.Resources, resource)
				return answer, nil, true
			})
			position, err := r.engine.Position(context.Background(), r.target, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := r.engine.Guarded(context.Background(), r.target, &position, time.Hour); got != test.want || err != nil {
				t.Errorf("guarded %t, %v; want %t", got, err, test.want)
			}
			position.Producer = nil
			if got, err := r.engine.Guarded(context.Background(), r.target, &position, time.Hour); got || err != nil {
				t.Errorf("guarded %t, %v, although forgotten", got, err)
			}
		})
	}
}
