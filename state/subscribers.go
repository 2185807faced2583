package state

import "sync"

// subscribers hands a token to everyone who waits for a new view.
type subscribers struct {
	subscribersMu sync.Mutex
	channels      map[chan struct{}]struct{}
}

// Subscribe implements Store.
func (s *subscribers) Subscribe() (<-chan struct{}, func()) {
	changed := make(chan struct{}, 1)
	s.subscribersMu.Lock()
	defer s.subscribersMu.Unlock()
	if s.channels == nil {
		s.channels = map[chan struct{}]struct{}{}
	}
	s.channels[changed] = struct{}{}
	return changed, func() {
		s.subscribersMu.Lock()
		defer s.subscribersMu.Unlock()
		delete(s.channels, changed)
	}
}

func (s *subscribers) notify() {
	s.subscribersMu.Lock()
	defer s.subscribersMu.Unlock()
	for changed := range s.channels {
		select {
		case changed <- struct{}{}:
		default: // a token is there already
		}
	}
}
