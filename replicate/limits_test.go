package replicate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// The destination does not let the mirror raise the limit: the partition with the large batch is FAILED, alone, and goes on
// soon after somebody else has raised it, however long the pause between tries has grown.
func TestLimitMayNotBeRaised(t *testing.T) {
	const topic = "limited"
	r, _, destination := fakeRig(t)
	r.settings.BackoffMax = time.Hour
	r.createTopic(topic, 2, nil)
	limit := "3000"
	if err := alterTopic(context.Background(), r.destination, topic, map[string]*string{maxMessageBytesConfig: &limit}); err != nil {
		t.Fatal(err)
	}
	destination.ControlKey(int16(kmsg.IncrementalAlterConfigs), func(request kmsg.Request) (kmsg.Response, error, bool) {
		destination.KeepControl()
		resource := request.(*kmsg.IncrementalAlterConfigsRequest).Resources[0]
		if *resource.Configs[0].Value == "1048588" { // the operator
			return nil, nil, false
		}
		answer := request.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
		refused := kmsg.NewIncrementalAlterConfigsResponseResource()
		refused.ErrorCode = kerr.TopicAuthorizationFailed.Code
		answer.Resources = append(answer.Resources, refused)
		return answer, nil, true
	})
	value := make([]byte, 5000)
	rand.NewChaCha8([32]byte{1}).Read(value) // does not compress below the limit
	r.produce(topic, 0, 0, 5, []byte("v"))
	r.produce(topic, 1, 0, 1, value)
	r.start()
	id := r.add(topic, 2)
	testenv.Eventually(t, patience, "partition 1 to be FAILED", func() error {
		if p := r.partition(id, 1); p.Status != state.Failed || !p.Retriable || p.Attempt < 2 {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
	wantError(t, r.partition(id, 1), "limited-1", "at offset 0 has ", "bytes, more than the topic's max.message.bytes", "does not let the mirror raise it", "ALTER_CONFIGS")
	if p := r.partition(id, 0); p.Status != state.Mirroring {
		t.Errorf("partition 0: %+v", p)
	}
	limit = "1048588"
	if err := alterTopic(context.Background(), r.destination, topic, map[string]*string{maxMessageBytesConfig: &limit}); err != nil {
		t.Fatal(err)
	}
	r.awaitCaughtUp(topic, 2)
	r.awaitStatus(id, 2, state.Mirroring)
	r.compare(topic, 2)
}
