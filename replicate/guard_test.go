package replicate

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/state"
)

// The ACL of mirror.guard=acl is removed as the last thing before STOPPED, tried again while it fails, and a failover does not
// hang on it: describe says then what to do. One that was there before is left alone.
func TestGuardIsDroppedAtStopped(t *testing.T) {
	for _, test := range []struct {
		name      string
		guard     state.Guard
		refusals  int64
		wantTries int64
		wantError string
	}{
		{"ours", state.GuardOurs, 0, 1, ""},
		{"refused once", state.GuardOurs, 1, 2, ""},
		{"always refused", state.GuardOurs, 1 << 30, handBackTries, "DENY WRITE for User:* on topic guarded"},
		{"found", state.GuardFound, 0, 0, ""},
		{"none", state.GuardNone, 0, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, _, destination := fakeRig(t)
			r.createTopic("guarded", 2, nil)
			id := topicID(t, r.destination, "guarded")
			var tries, early atomic.Int64
			destination.ControlKey(int16(kmsg.DeleteACLs), func(request kmsg.Request) (kmsg.Response, error, bool) {
				destination.KeepControl()
				for i := range int32(2) {
					if r.partition(id, i).Status != state.Stopping {
						early.Add(1)
					}
				}
				filter := request.(*kmsg.DeleteACLsRequest).Filters[0]
				if *filter.ResourceName != "guarded" || filter.Operation != kmsg.ACLOperationWrite || filter.PermissionType != kmsg.ACLPermissionTypeDeny ||
					filter.ResourcePatternType != kmsg.ACLResourcePatternTypeLiteral || *filter.Principal != "User:*" {
					t.Errorf("%+v", filter)
				}
				answer := request.ResponseKind().(*kmsg.DeleteACLsResponse)
				result := kmsg.NewDeleteACLsResponseResult()
				if tries.Add(1) <= test.refusals {
					result.ErrorCode = kerr.ClusterAuthorizationFailed.Code
				}
				answer.Results = append(answer.Results, result)
				return answer, nil, true
			})
			r.do(state.AddTopic{Mirror: "m", Name: "guarded", ID: id, SourceID: topicID(t, r.source, "guarded"), Partitions: 2, Engine: "produce", Guard: test.guard},
				state.ConfirmTopic{ID: id})
			r.start()
			r.awaitStatus(id, 2, state.Mirroring)
			r.do(state.RemoveTopic{Mirror: "m", Name: "guarded"})
			r.awaitStatus(id, 2, state.Stopped)
			topic, _ := r.store.View().TopicByID(id)
			if tries.Load() != test.wantTries || early.Load() != 0 || (topic.Error == "") != (test.wantError == "") || !strings.Contains(topic.Error, test.wantError) {
				t.Errorf("%d tries, %d not while STOPPING, error %q", tries.Load(), early.Load(), topic.Error)
			}
		})
	}
}
