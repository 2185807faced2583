package enforce

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"kafka-mirror-proxy/protocol"
	"kafka-mirror-proxy/state"
)

var orders = state.TopicID{1, 2, 3}

// mirrored returns a store with a mirror "dr" and its topic orders of one partition.
func mirrored(t testing.TB) *state.Memory {
	t.Helper()
	store := state.NewMemory()
	err := store.Do(context.Background(),
		state.CreateMirror{Name: "dr", Configs: map[string]string{"bootstrap.servers": "source:9092"}},
		state.AddTopic{Mirror: "dr", Name: "orders", ID: orders, SourceID: state.TopicID{9}, Partitions: 1, Engine: "produce"})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func policyOver(views func() *state.View, code int16) *Policy {
	return NewPolicy(views, NewGate(), code)
}

func TestProduceToMirrorTopicIsRefused(t *testing.T) {
	store := mirrored(t)
	policy := policyOver(store.View, 0)
	want := Refusal{134, "Topic orders is read-only: it is mirrored by mirror dr."}
	if got, refused := policy.Produce([]byte("orders")); !refused || got != want {
		t.Errorf("by name: %v %v", got, refused)
	}
	if got, refused := policy.ProduceID(orders); !refused || got != want {
		t.Errorf("by id: %v %v", got, refused)
	}
	if got, refused := policy.Produce([]byte("other")); refused {
		t.Errorf("another topic: %v", got)
	}
	if got, refused := policy.ProduceID([16]byte{7}); refused {
		t.Errorf("another topic's id: %v", got)
	}
	if policy.Clear() {
		t.Error("clear with a mirror topic")
	}
	if got, _ := policyOver(store.View, 44).Produce([]byte("orders")); got.Code != 44 {
		t.Errorf("code %d, 44 was configured", got.Code)
	}
	if mirror, ok := policy.ReadOnlyTopic("orders"); !ok || mirror != "dr" {
		t.Errorf("read-only: %q %v", mirror, ok)
	}
	if mirror, ok := policy.ReadOnlyTopic("other"); ok {
		t.Errorf("another topic is read-only: %q", mirror)
	}
	if name, ok := policy.MirrorName("orders"); !ok || name != "dr" {
		t.Errorf("mirror.name %q %v", name, ok)
	}
	if name, ok := policy.MirrorName("other"); ok {
		t.Errorf("mirror.name %q of an ordinary topic", name)
	}
}

func TestStoppedTopicIsWritable(t *testing.T) {
	store := mirrored(t)
	policy := policyOver(store.View, 0)
	partition := state.PartitionID{Topic: orders}
	err := store.Do(context.Background(),
		state.ConfirmTopic{ID: orders},
		state.RemoveTopic{Mirror: "dr", Name: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	if _, refused := policy.Produce([]byte("orders")); !refused {
		t.Error("writable while not STOPPED")
	}
	for _, to := range []state.Status{state.Stopping, state.Stopped} {
		if err := store.Do(context.Background(), state.MovePartition{Partition: partition, To: to, LastMirroredOffset: 3}); err != nil {
			t.Fatal(err)
		}
	}
	if refusal, refused := policy.Produce([]byte("orders")); refused {
		t.Errorf("STOPPED and refused: %v", refusal)
	}
	if mirror, ok := policy.ReadOnlyTopic("orders"); ok {
		t.Errorf("STOPPED and read-only: %q", mirror)
	}
	if !policy.Clear() {
		t.Error("not clear although every topic is STOPPED")
	}
	if name, ok := policy.MirrorName("orders"); !ok || name != "dr.removed" {
		t.Errorf("mirror.name %q %v", name, ok)
	}
}

func TestStateTopicIsRefusedAlways(t *testing.T) {
	for name, views := range map[string]func() *state.View{
		"none": func() *state.View { return nil }, "loaded": state.NewMemory().View,
	} {
		if got, refused := policyOver(views, 0).Produce([]byte("__mirror_state")); !refused || got.Code != protocol.CodeTopicAuthorizationFailed {
			t.Errorf("view %s: %v %v", name, got, refused)
		}
	}
}

// Without a loaded view nothing passes, and what is said is that it is worth another try.
func TestNothingPassesBeforeTheViewIsLoaded(t *testing.T) {
	for name, views := range map[string]func() *state.View{
		"nil": func() *state.View { return nil }, "not loaded": func() *state.View { return &state.View{} },
	} {
		policy := policyOver(views, 0)
		if policy.Ready() || policy.Clear() {
			t.Errorf("view %s: ready %v, clear %v", name, policy.Ready(), policy.Clear())
		}
		if got, refused := policy.Produce([]byte("any")); !refused || got.Code != protocol.CodeNotLeaderOrFollower {
			t.Errorf("view %s: %v %v", name, got, refused)
		}
		if got, refused := policy.ProduceID([16]byte{1}); !refused || got.Code != protocol.CodeNotLeaderOrFollower {
			t.Errorf("view %s, by id: %v %v", name, got, refused)
		}
	}
}

// Name and id must always give the same verdict, and it must be the view's.
func TestVerdictsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := state.NewMemory()
		if err := store.Do(context.Background(), state.CreateMirror{Name: "m", Configs: map[string]string{}}); err != nil {
			t.Fatal(err)
		}
		policy := policyOver(store.View, 0)
		ids := map[string]state.TopicID{}
		for i := range rapid.IntRange(1, 20).Draw(t, "steps") {
			name := fmt.Sprintf("t%d", rapid.IntRange(0, 4).Draw(t, "topic"))
			id := ids[name]
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				if id.IsZero() {
					id = state.TopicID{byte(i + 1)}
					ids[name] = id
				}
				_ = store.Do(context.Background(), state.AddTopic{Mirror: "m", Name: name, ID: id, SourceID: state.TopicID{99}, Partitions: 2})
			case 1:
				_ = store.Do(context.Background(), state.ConfirmTopic{ID: id})
			case 2:
				_ = store.Do(context.Background(), state.RemoveTopic{Mirror: "m", Name: name})
			case 3:
				_ = store.Do(context.Background(), state.RollbackTopic{ID: id})
			default:
				to := rapid.SampledFrom([]state.Status{state.Preparing, state.Mirroring, state.Stopping, state.Stopped, state.Failed}).Draw(t, "to")
				p := state.PartitionID{Topic: id, Partition: rapid.Int32Range(0, 1).Draw(t, "partition")}
				_ = store.Do(context.Background(), state.MovePartition{Partition: p, To: to, LastMirroredOffset: 1})
			}
			any := false
			for name, id := range ids {
				topic, known := store.View().TopicByID(id)
				want := known && store.View().ReadOnly(topic)
				any = any || want
				_, byName := policy.Produce([]byte(name))
				_, byID := policy.ProduceID(id)
				if byName != want || byID != want {
					t.Fatalf("topic %s: by name %v, by id %v, view %v", name, byName, byID, want)
				}
			}
			if policy.Clear() == any {
				t.Fatalf("clear is %v with a read-only topic: %v", policy.Clear(), any)
			}
		}
	})
}

func TestVerdictsAllocateNothing(t *testing.T) {
	policy := policyOver(mirrored(t).View, 0)
	name := []byte("another-topic-with-a-name-that-does-not-fit-a-small-buffer")
	allocs := testing.AllocsPerRun(100, func() {
		_, byName := policy.Produce(name)
		_, byID := policy.ProduceID([16]byte{7})
		if byName || byID || policy.Clear() || !policy.Ready() {
			t.Error("wrong verdict")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
