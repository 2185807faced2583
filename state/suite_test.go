package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testStore is what every Store has to do. open returns an empty one that is loaded and owner.
func testStore(t *testing.T, open func(t *testing.T) Store) {
	t.Run("DoShowsInView", func(t *testing.T) {
		s := open(t)
		do(t, s, CreateMirror{Name: "m", Configs: map[string]string{"bootstrap.servers": "a:1"}})
		m, ok := s.View().Mirror("m")
		if !ok || m.Configs["bootstrap.servers"] != "a:1" {
			t.Fatalf("mirror m is %+v, %v right after Do", m, ok)
		}
	})
	t.Run("RefusedChangesNothing", func(t *testing.T) {
		s := open(t)
		before := s.View().Revision()
		err := s.Do(t.Context(), CreateMirror{Name: "m"}, DeleteMirror{Name: "other"})
		if code(err) != CodeUnknownMirror {
			t.Fatalf("Do: %v", err)
		}
		if _, ok := s.View().Mirror("m"); ok {
			t.Error("the first command of a refused Do took effect")
		}
		if after := s.View().Revision(); after != before {
			t.Errorf("revision went from %d to %d", before, after)
		}
	})
	t.Run("AllOfOneDoAppearTogether", func(t *testing.T) {
		s := open(t)
		do(t, s, CreateMirror{Name: "m"})
		changed, cancel := s.Subscribe()
		defer cancel()
		done := make(chan error, 1)
		commands := []Command{}
		for i := range 40 { // lands in many partitions of the log
			commands = append(commands, AddTopic{Mirror: "m", Name: fmt.Sprint("t", i), ID: TopicID{byte(i + 1)}, Partitions: 1})
		}
		go func() { done <- s.Do(t.Context(), commands...) }()
		for {
			select {
			case <-changed:
				if n := len(s.View().TopicsOf("m")); n != 0 && n != len(commands) {
					t.Fatalf("a view shows %d of %d topics of one Do", n, len(commands))
				}
				continue
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
			}
			break
		}
		if n := len(s.View().TopicsOf("m")); n != len(commands) {
			t.Fatalf("%d of %d topics after Do", n, len(commands))
		}
	})
	t.Run("ConcurrentCallsAreAllCarriedOut", func(t *testing.T) {
		s := open(t)
		do(t, s, CreateMirror{Name: "m"})
		var calls sync.WaitGroup
		refusals := make(chan error, 64)
		for i := range 64 {
			calls.Go(func() {
				// Each name is asked for twice: one of the two calls has to be refused, and alone.
				refusals <- s.Do(t.Context(), AddTopic{Mirror: "m", Name: fmt.Sprint("t", i/2), ID: TopicID{byte(i/2 + 1)}, Partitions: 2})
			})
		}
		calls.Wait()
		refused := 0
		for range 64 {
			switch err := <-refusals; {
			case err == nil:
			case code(err) == CodeTopicInMirror:
				refused++
			default:
				t.Error(err)
			}
		}
		if n := len(s.View().TopicsOf("m")); n != 32 || refused != 32 {
			t.Errorf("%d topics and %d refusals, want 32 of each", n, refused)
		}
	})
	t.Run("SubscribersGetTokens", func(t *testing.T) {
		s := open(t)
		changed, cancel := s.Subscribe()
		do(t, s, CreateMirror{Name: "m"})
		receive(t, changed)
		cancel()
		do(t, s, DeleteMirror{Name: "m"})
		select {
		case <-changed:
			t.Error("a token after the subscription was cancelled")
		default:
		}
	})
	t.Run("OwnerHasLeaseAndGeneration", func(t *testing.T) {
		s := open(t)
		if !s.Lease() || s.Generation() == 0 || s.View().Owner().Generation != s.Generation() {
			t.Errorf("lease %v, generation %d, view's owner %+v", s.Lease(), s.Generation(), s.View().Owner())
		}
	})
	t.Run("CancelledContextIsRefused", func(t *testing.T) {
		s := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Do(ctx, CreateMirror{Name: "m"}); !errors.Is(err, context.Canceled) {
			t.Errorf("Do with a cancelled context: %v", err)
		}
	})
	t.Run("AddToStoppedAndBack", func(t *testing.T) {
		s := open(t)
		id := TopicID{1, 2, 3}
		p := PartitionID{id, 0}
		do(t, s, CreateMirror{Name: "m"},
			RememberSourceID{Name: "t", SourceID: TopicID{9}},
			AddTopic{Mirror: "m", Name: "t", ID: id, SourceID: TopicID{9}, Partitions: 1, Engine: "produce", HandBack: map[string]*string{"a": nil}})
		if _, ok := s.View().ReadOnlyName([]byte("t")); !ok {
			t.Error("a topic being added is not read-only")
		}
		do(t, s, ConfirmTopic{ID: id})
		if _, ok := s.View().SourceIDOf("t"); ok {
			t.Error("the source id is still waiting after the topic was added")
		}
		do(t, s, MovePartition{Partition: p, To: Preparing, LastMirroredOffset: -1}, MovePartition{Partition: p, To: Mirroring, LastMirroredOffset: -1})
		progress := Progress{FillToOffset: -1, ReservedOffset: 100, ReservedBy: 1, UncleanOffset: -1, CopiedOffset: 60, Epochs: []EpochRun{{3, 0}, {5, 17}}}
		do(t, s, SetProgress{p, progress})
		if diff := cmp.Diff(progress, s.View().Progress(p)); diff != "" {
			t.Error(diff)
		}
		do(t, s, RemoveTopic{"m", "t"}, MovePartition{Partition: p, To: Stopping, LastMirroredOffset: -1})
		if _, ok := s.View().ReadOnlyID(id); !ok {
			t.Error("a STOPPING topic is not read-only")
		}
		do(t, s, MovePartition{Partition: p, To: Stopped, LastMirroredOffset: 42})
		if _, ok := s.View().ReadOnlyID(id); ok || s.View().HasReadOnly() {
			t.Error("a STOPPED topic is read-only")
		}
		got := s.View().Partition(p)
		if got.Status != Stopped || got.Previous != Stopping || got.LastMirroredOffset != 42 || got.SinceMs < 1_700_000_000_000 {
			t.Errorf("partition after all that: %+v", got)
		}
		do(t, s, DeleteMirror{"m"})
		if _, ok := s.View().TopicByID(id); ok || len(s.View().Mirrors()) != 0 || s.View().Partition(p).Status != Unknown {
			t.Error("something is left of a deleted mirror")
		}
	})
}

func do(t *testing.T, s Store, commands ...Command) {
	t.Helper()
	if err := s.Do(t.Context(), commands...); err != nil {
		t.Fatalf("Do(%+v): %v", commands, err)
	}
}

func code(err error) Code {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	return 0
}

func receive(t *testing.T, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(30 * time.Second):
		t.Fatal("no token")
	}
}

func TestMemory(t *testing.T) {
	testStore(t, func(*testing.T) Store { return NewMemory() })
}
