package state

import (
	"sync"
	"testing"
)

func TestLive(t *testing.T) {
	l := NewLive()
	p := PartitionID{TopicID{1}, 2}
	if _, ok := l.Get(p); ok {
		t.Error("figures out of nowhere")
	}
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() { l.Partition(p).LastFetchMs.Add(1) })
	}
	users.Wait()
	figures, ok := l.Get(p)
	if !ok || figures.LastFetchMs.Load() != 8 || figures.SourceOffset.Load() != -1 || figures.DestinationOffset.Load() != -1 {
		t.Errorf("figures %+v, %v", figures, ok)
	}
	l.Remove(p)
	if _, ok := l.Get(p); ok {
		t.Error("removed figures are still there")
	}
	l.SetMirrorError("m", "down")
	if got := l.MirrorError("m"); got != "down" {
		t.Errorf("mirror error %q", got)
	}
	l.SetMirrorError("m", "")
	if len(l.errors) != 0 {
		t.Error("a mirror that is fine takes up room")
	}
}
