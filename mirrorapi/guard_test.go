package mirrorapi

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// The users of a secured destination; the password is the name. Of them only super is above ACLs.
const (
	superUser = "super"
	weakUser  = "weak"
)

// proxyIs has a destination that checks rights, and the proxy connect to it as a user.
func proxyIs(user string) option { return func(c *envConfig) { c.user = user } }

func newSecured(t *testing.T) *testenv.Fake {
	t.Helper()
	everything := func(resource kmsg.ACLResourceType, name string) kfake.ACL {
		return kfake.ACL{Resource: resource, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationAll, Allow: true}
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.ClusterID(destinationID), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("PLAIN", superUser, superUser),
		kfake.User("PLAIN", weakUser, weakUser, everything(kmsg.ACLResourceTypeTopic, "*"), everything(kmsg.ACLResourceTypeCluster, "kafka-cluster")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return &testenv.Fake{Cluster: cluster}
}

func login(user string) []kgo.Opt {
	if user == "" {
		return nil
	}
	return []kgo.Opt{kgo.SASL(plain.Auth{User: user, Pass: user}.AsMechanism())}
}

// guarded says whether the ACL is there.
func (e *env) guarded(topic string) bool {
	e.t.Helper()
	there, err := findGuard(e.t.Context(), e.destinationClient, topic)
	if err != nil {
		e.t.Fatal(err)
	}
	return there
}

// status is a status entry of a mirror, "" when there is none.
func (e *env) status(mirror, name string) string {
	e.t.Helper()
	for _, config := range e.describe(mirror).Configs {
		if config.Name == name && config.Value != nil {
			return *config.Value
		}
	}
	return ""
}

func TestGuardOfAMirroredTopic(t *testing.T) {
	e := newEnv(t, proxyIs(superUser), sourceTopics(map[string]int32{"orders": 2, "held": 1, "free": 1}))
	e.mirror("m1", configGuard, guardACL)
	e.mirror("m2")
	if _, err := state.GuardCreation("held").RequestWith(t.Context(), e.destinationClient); err != nil {
		t.Fatal(err)
	}
	e.mustAdd("m1", "orders", "held")
	e.mustAdd("m2", "free")
	for topic, want := range map[string]state.Guard{"orders": state.GuardOurs, "held": state.GuardFound, "free": state.GuardNone} {
		if got := e.topic(topic).Guard; got != want {
			t.Errorf("%s: guard %d, want %d", topic, got, want)
		}
		if got := e.guarded(topic); got != (want != state.GuardNone) {
			t.Errorf("%s: the ACL is there: %v", topic, got)
		}
	}
	if got := e.status("m1", statusGuard); got != "DENY WRITE until STOPPED: orders; DENY WRITE that was there before and stays: held" {
		t.Errorf("%s: %q", statusGuard, got)
	}
	if got := e.status("m2", statusGuard); got != "" {
		t.Errorf("%s of a mirror without: %q", statusGuard, got)
	}
	wantRefusal(t, e.alter("m1", false, op{configGuard, set, "none"}), mirrormsg.InvalidRequest, configGuard, "topic held is not")
}

// A proxy that is not a super user would be locked out by its own ACL: that shows before the topic is mirrored, and nothing
// is left behind.
func TestGuardThatWouldShutTheProxyOut(t *testing.T) {
	e := newEnv(t, proxyIs(weakUser), sourceTopics(map[string]int32{"orders": 2}))
	e.mirror("m1", configGuard, guardACL)
	wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.ClusterAuthorizationFailed, "super.users", "topic orders")
	if e.guarded("orders") {
		t.Error("the ACL was left behind")
	}
	if _, ok := e.store.View().Topic("orders"); ok {
		t.Error("the topic is in the mirror")
	}
}

// An addition that fails, or is cut short, takes its ACL away again, and none that was there before.
func TestGuardOfAnAdditionThatFails(t *testing.T) {
	e := newEnv(t, proxyIs(superUser), sourceTopics(map[string]int32{"orders": 1, "held": 1, "cut": 1}))
	e.mirror("m1", configGuard, guardACL)
	for _, topic := range []string{"orders", "held"} {
		if err := e.destination.CreateTopic(topic, 1, nil); err != nil {
			t.Fatal(err)
		}
		record := &kgo.Record{Topic: topic, Value: []byte("v")}
		if err := e.destinationClient.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := state.GuardCreation("held").RequestWith(t.Context(), e.destinationClient); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, &e.add("m1", "orders", "held").Status, mirrormsg.InvalidRequest, "already holds 1 records")
	if e.guarded("orders") || !e.guarded("held") {
		t.Errorf("orders is guarded: %v, held: %v", e.guarded("orders"), e.guarded("held"))
	}

	e.do(state.AddTopic{Mirror: "m1", Name: "cut", ID: state.TopicID{7}, Partitions: 1, Engine: engineProduce, Guard: state.GuardOurs})
	if _, err := state.GuardCreation("cut").RequestWith(t.Context(), e.destinationClient); err != nil {
		t.Fatal(err)
	}
	// Not while it cannot be removed: whoever tries again has to know of it.
	e.destination.ControlKey(int16(kmsg.DeleteACLs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.DeleteACLsResponse)
		resp.Results = append(resp.Results, kmsg.DeleteACLsResponseResult{ErrorCode: 31})
		return resp, nil, true
	})
	if err := e.h.RollbackLeftovers(t.Context()); err == nil || !strings.Contains(err.Error(), "topic cut: remove the ACL") {
		t.Errorf("%v", err)
	}
	if len(e.store.View().Adding()) != 1 {
		t.Error("the addition was forgotten, and its ACL with it")
	}
	if err := e.h.RollbackLeftovers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e.guarded("cut") || len(e.store.View().Adding()) != 0 {
		t.Error("the leftovers are still there")
	}
}

// Where no ACL would be kept, none is promised.
func TestGuardWithoutAnAuthorizer(t *testing.T) {
	e := newEnv(t)
	wantRefusal(t, &e.create("m1", "bootstrap.servers", "a:1", configGuard, guardACL).Status, mirrormsg.InvalidConfig, configGuard, "needs an authorizer")
	e.mirror("m1")
	wantRefusal(t, e.alter("m1", false, op{configGuard, set, guardACL}), mirrormsg.InvalidConfig, "needs an authorizer")
	e.mirror("m2", configGuard, "none")
}
