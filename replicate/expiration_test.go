package replicate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

func (r *rig) expiration() *string {
	r.t.Helper()
	value, err := clusterConfig(context.Background(), r.destination, expirationConfig)
	if err != nil {
		r.t.Fatal(err)
	}
	return value
}

func (r *rig) setExpiration(value *string) {
	r.t.Helper()
	if err := alterConfigs(context.Background(), r.destination, kmsg.ConfigResourceTypeBroker, "", map[string]*string{expirationConfig: value}); err != nil {
		r.t.Fatal(err)
	}
	r.awaitExpiration(value)
}

func (r *rig) awaitExpiration(want *string) {
	r.t.Helper()
	testenv.Eventually(r.t, patience, "the expiration", func() error {
		if got := r.expiration(); !equal(got, want) {
			return fmt.Errorf("it is %s, want %s", shown(got), shown(want))
		}
		return nil
	})
}

func shown(value *string) string {
	if value == nil {
		return "not set"
	}
	return *value
}

// crash ends the replicator without a word and makes this process a new owner.
func (r *rig) crash() {
	r.t.Helper()
	r.store.lost.Store(true)
	r.stop()
	r.store.generation.Add(1)
	r.store.lost.Store(false)
}

func TestExpirationIsRaisedAndGivenBackFake(t *testing.T) {
	r, _, _ := fakeRig(t)
	expirationStory(t, r, "fake-expiry")
}

func TestExpirationIsRaisedAndGivenBackReal(t *testing.T) {
	expirationStory(t, realRig(t), "expiry")
}

func expirationStory(t *testing.T, r *rig, topic string) {
	own := "43200000"
	for _, before := range []*string{&own, nil} {
		r.setExpiration(before)
		name := topic + "-" + shown(before)[:3]
		r.do(state.AlterMirror{Name: "m", Set: map[string]string{"mirror.produce.raise-producer-expiration": "true"}})
		r.createTopic(name, 1, nil)
		r.start()
		id := r.add(name, 1)
		r.awaitStatus(id, 1, state.Mirroring)
		r.awaitExpiration(&longestExpiration)
		r.crash()
		r.start()
		r.do(state.RemoveTopic{Mirror: "m", Name: name})
		r.awaitStatus(id, 1, state.Stopped)
		r.awaitExpiration(before)
		testenv.Eventually(t, patience, "the note to go", func() error {
			if _, kept := r.store.View().KeptBrokerConfig(expirationConfig); kept {
				return fmt.Errorf("it is still there")
			}
			return nil
		})
		r.stop()
	}
}

// Whatever a crash left behind is finished, and what somebody else has set meanwhile is left alone.
func TestExpirationAfterACrash(t *testing.T) {
	own, other := "43200000", "7200000"
	for _, test := range []struct {
		name          string
		kept, current *string
		raise         bool
		want          *string
	}{
		{"noted and not raised", &own, &own, true, &longestExpiration},
		{"noted and not raised, and not wanted any more", &own, &own, false, &own},
		{"raised", &own, &longestExpiration, true, &longestExpiration},
		{"raised, and not wanted any more", &own, &longestExpiration, false, &own},
		{"raised from nothing, and not wanted any more", nil, &longestExpiration, false, nil},
		{"set by somebody else", &own, &other, false, &other},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, _, _ := fakeRig(t)
			r.setExpiration(test.current)
			r.do(state.KeepBrokerConfig{Name: expirationConfig, Previous: test.kept})
			r.createTopic("t", 1, nil)
			r.add("t", 1)
			if test.raise {
				r.do(state.AlterMirror{Name: "m", Set: map[string]string{"mirror.produce.raise-producer-expiration": "true"}})
			}
			r.start()
			if !test.raise {
				testenv.Eventually(t, patience, "the note to go", func() error {
					if _, kept := r.store.View().KeptBrokerConfig(expirationConfig); kept {
						return fmt.Errorf("it is still there")
					}
					return nil
				})
			}
			r.awaitExpiration(test.want)
			if previous, kept := r.store.View().KeptBrokerConfig(expirationConfig); test.raise && (!kept || !equal(previous, &own)) {
				t.Errorf("kept %t: %s", kept, shown(previous))
			}
		})
	}
}

// Without the right to raise it the mirror says so and goes on.
func TestExpirationMayNotBeRaised(t *testing.T) {
	r, _, destination := fakeRig(t)
	destination.ControlKey(int16(kmsg.IncrementalAlterConfigs), func(request kmsg.Request) (kmsg.Response, error, bool) {
		destination.KeepControl()
		answer := request.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
		resource := kmsg.NewIncrementalAlterConfigsResponseResource()
		resource.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		answer.Resources = append(answer.Resources, resource)
		return answer, nil, true
	})
	r.do(state.AlterMirror{Name: "m", Set: map[string]string{"mirror.produce.raise-producer-expiration": "true"}})
	r.createTopic("t", 1, nil)
	r.produce("t", 0, 0, 10, nil)
	r.start()
	id := r.add("t", 1)
	testenv.Eventually(t, patience, "the warning", func() error {
		text := r.live.MirrorWarning("m")
		if !strings.Contains(text, "producer.id.expiration.ms") || !strings.Contains(text, "CLUSTER_AUTHORIZATION_FAILED") {
			return fmt.Errorf("it is %q", text)
		}
		return nil
	})
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp("t", 1)
	r.do(state.AlterMirror{Name: "m", Delete: []string{"mirror.produce.raise-producer-expiration"}})
	testenv.Eventually(t, patience, "the warning to go", func() error {
		if text := r.live.MirrorWarning("m"); text != "" {
			return fmt.Errorf("it is %q", text)
		}
		return nil
	})
}

// Somebody gives the brokers another expiration while nothing changes in the mirrors: it is raised again.
func TestExpirationIsLookedAtNowAndThen(t *testing.T) {
	r, _, _ := fakeRig(t)
	r.settings.ExpirationLook = 50 * time.Millisecond
	r.do(state.AlterMirror{Name: "m", Set: map[string]string{"mirror.produce.raise-producer-expiration": "true"}})
	r.createTopic("t", 1, nil)
	r.start()
	id := r.add("t", 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitExpiration(&longestExpiration)
	other := "7200000"
	if err := alterConfigs(context.Background(), r.destination, kmsg.ConfigResourceTypeBroker, "", map[string]*string{expirationConfig: &other}); err != nil {
		t.Fatal(err)
	}
	r.awaitExpiration(&longestExpiration)
}
