package replicate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync/atomic"
	"time"

	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

// missingLooks is how many tries in a row must find that something is missing before it is
// believed: a broker that has just started may not know its topics yet.
const missingLooks = 3

// stopPauseMost is the longest pause between two tries to stop a partition.
const stopPauseMost = 5 * time.Second

// partition is the life of one mirror partition during a tenure. One goroutine (run) does
// everything; nudge and end may be called from any.
type partition struct {
	tenure *tenure
	id     state.PartitionID
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}
	// doubted holds a token when what the session in progress has begun with may not be true any more.
	doubted chan struct{}
	done    chan struct{}
	// fetcherID names the fetcher of the last session, for metrics.
	fetcherID atomic.Pointer[string]
	// leader is the destination's that the session in progress writes to; nil while there is none.
	leader atomic.Pointer[connect.Leader]

	// Of run.
	progress  state.Progress
	attempts  int                // tries in a row that went wrong
	missing   int                // looks in a row that found something missing, for what is desired
	of        string             // the mirror that all of this is about
	desired   state.Desired      // at the last look
	since     time.Time          // nothing that UncleanOffset is about was sent later
	notBefore time.Time          // metadata must be newer: set by each trouble, and when something else is desired
	window    reservation        // how far ahead to reserve
	trimmedAt time.Time          // when records were last deleted behind the copy, or that was tried
	doubt     doubt              // whether something that was sent may still come
	tooLarge  *produce.Fault     // of the batch that did not fit in the topic at last, or nil
	parked    func(*wanted) bool // nil, or: nothing to try until this says so
}

// wanted is what the view asks of a partition.
type wanted struct {
	topic    *state.Topic
	mirror   *state.Mirror
	have     state.Partition
	revision int64 // of the mirror
}

func newPartition(t *tenure, id state.PartitionID) *partition {
	p := &partition{tenure: t, id: id, wake: make(chan struct{}, 1), doubted: make(chan struct{}, 1), done: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(t.ctx)
	return p
}

// nudge makes the runner look at the view.
func (p *partition) nudge() {
	select {
	case p.wake <- struct{}{}:
	default: // a token is there already
	}
}

// end stops the runner and waits until nothing of it is in flight.
func (p *partition) end() {
	p.cancel()
	<-p.done
}

// look is what the view asks; false when the topic or mirror is gone.
func (p *partition) look() (*wanted, bool) {
	view := p.tenure.cfg.Store.View()
	topic, ok := view.TopicByID(p.id.Topic)
	if !ok {
		return nil, false
	}
	mirror, ok := view.Mirror(topic.Mirror)
	if !ok {
		return nil, false
	}
	return &wanted{topic: topic, mirror: mirror, have: view.Partition(p.id), revision: mirror.Revision}, true
}

func (w *wanted) target(id state.PartitionID) produce.Target {
	return produce.Target{Mirror: w.topic.Mirror, Topic: w.topic.Name, TopicID: w.topic.ID, Partition: id.Partition}
}

func (p *partition) run() {
	defer close(p.done)
	for p.ctx.Err() == nil {
		w, ok := p.look()
		if !ok {
			p.rest(leaseLook)
			continue
		}
		if w.topic.Mirror != p.of {
			p.begin(w.topic.Mirror)
		}
		if p.parked != nil && !p.parked(w) {
			p.rest(0)
			continue
		}
		p.parked = nil
		if w.topic.Desired != p.desired {
			p.desired, p.missing = w.topic.Desired, 0
			p.notBefore = p.tenure.cfg.Clock() // while it was paused the source topic may have been recreated
		}
		next := plan(w.topic.Desired, w.have.Status)
		err := p.take(next, w)
		if p.ctx.Err() != nil {
			break
		}
		p.digest(err, next, w)
	}
	p.retire()
}

// begin forgets what was of another mirror, which the topic was in before, and takes over what the
// state holds about the partition in this one.
func (p *partition) begin(mirror string) {
	p.of = mirror
	p.progress = p.storedProgress()
	p.since = p.tenure.cfg.Clock() // of what owners before sent
	p.tooLarge, p.doubt = nil, doubt{open: p.progress.UncleanOffset >= 0}
	p.attempts, p.missing, p.window, p.trimmedAt, p.parked = 0, 0, reservation{}, time.Time{}, nil
}

func (p *partition) take(next step, w *wanted) error {
	switch next {
	case stepPrepare:
		return p.move(state.Preparing, -1)
	case stepMirror:
		return p.copyWithin(w)
	case stepSettle:
		return p.mirror(w, false)
	case stepPause:
		return p.pause()
	case stepStop:
		return p.stop(w)
	}
	p.rest(0)
	return nil
}

// pause enters PAUSED; the session has ended and everything of it was answered.
func (p *partition) pause() error {
	return p.do("pause",
		state.MovePartition{Partition: p.id, To: state.Pausing, LastMirroredOffset: -1},
		state.MovePartition{Partition: p.id, To: state.Paused, LastMirroredOffset: -1},
		p.cleanProgress())
}

// digest decides what follows from how a step went.
func (p *partition) digest(err error, next step, w *wanted) {
	missing := p.missing
	p.missing = 0
	if err == nil {
		p.attempts = 0
		return
	}
	log := p.tenure.log.With().Str("mirror", w.topic.Mirror).Str("topic", w.topic.Name).Int32("partition", p.id.Partition).Logger()
	if errors.Is(err, errSourceDeleted) {
		log.Warn().Err(err).Msg("the source topic is gone; the mirror topic is stopped and keeps its data")
		told := state.SetTopicError{ID: w.topic.ID, Error: fmt.Sprintf("the source topic %s was deleted, so the mirror topic was STOPPED; it keeps its data and is writable", w.topic.Name)}
		if err = p.do("stop", told, state.RemoveTopic{Mirror: w.topic.Mirror, Name: w.topic.Name}); err == nil {
			return
		}
	}
	var fault *produce.Fault
	if !errors.As(err, &fault) {
		fault = produce.Because(produce.Retry, err, "mirror %s", w.target(p.id))
	}
	if fault.Verdict == produce.Stale || fault.Verdict == produce.Unguarded || fault.Verdict == produce.LostLease {
		p.doubt.unguarded = p.doubt.unguarded || fault.Verdict == produce.Unguarded
		log.Debug().Err(fault).Msg("align again")
		if fault.Verdict == produce.LostLease {
			p.rest(leaseLook)
		}
		return
	}
	p.attempts++
	if fault.Verdict == produce.Missing {
		p.missing = missing + 1
	}
	p.notBefore = p.tenure.cfg.Clock()
	settings := &p.tenure.cfg.Settings
	pause := settings.pause(p.attempts, next)
	if fault.TooLargeBytes > 0 {
		pause = min(pause, limitPauseMost) // somebody may raise the limit at any moment
	}
	event := log.Info()
	if p.believe(fault.Verdict, next) {
		event = log.Warn()
		p.fail(fault, next)
		if fault.Verdict == produce.Quarantined && next != stepStop {
			p.parked = func(now *wanted) bool { return now.topic.Desired != w.topic.Desired || now.revision != w.revision }
			event.Err(fault).Msg("the partition is FAILED until an operator has acted")
			return
		}
	}
	event.Err(fault).Int("attempt", p.attempts).Dur("pauseMs", pause).Msg("trying again")
	desired, revision := w.topic.Desired, w.revision
	p.restUntil(pause, func(now *wanted) bool { return now.topic.Desired != desired || now.revision != revision })
}

// pause is how long to wait after so many tries that went wrong.
func (s *Settings) pause(attempts int, next step) time.Duration {
	pause := min(s.Backoff<<min(attempts-1, 20), s.BackoffMax)
	if next == stepStop {
		pause = min(pause, stopPauseMost) // a failover goes on as soon as it can
	}
	return pause
}

// believe says that a trouble has to be shown, after so many attempts.
func (p *partition) believe(verdict produce.Verdict, next step) bool {
	switch {
	case verdict == produce.Refused, verdict == produce.Quarantined:
		return true
	case verdict == produce.Missing:
		return p.missing >= missingLooks
	}
	return p.attempts >= p.tenure.cfg.Settings.FailAfter || next == stepStop && p.attempts > 1
}

// namesOffset finds the offsets that a text names.
var namesOffset = regexp.MustCompile(`offsets? \d`)

// fail records FAILED, with how far the copy has come where the reason names no offset itself. A partition that is being stopped stays STOPPING, with the reason: FAILED
// would say that nobody works on it.
func (p *partition) fail(fault *produce.Fault, next step) {
	to := state.Failed
	if next == stepStop {
		to = state.Stopping
	}
	text := fault.Error()
	if copied := p.progress.CopiedOffset; copied >= 0 && !namesOffset.MatchString(text) {
		text += fmt.Sprintf(" (copied up to offset %d)", copied)
	}
	p.tenure.cfg.Live.Partition(p.id).SourceOffset.Store(-1)
	// With how far the copy has come: behind that may stand what somebody else wrote.
	err := p.do("record the failure", state.SetProgress{Partition: p.id, Progress: p.progress}, state.MovePartition{
		Partition: p.id, To: to, LastMirroredOffset: -1, Error: text, Retriable: fault.Verdict != produce.Quarantined, Attempt: int32(min(p.attempts, 1<<30)),
	})
	if err != nil {
		p.tenure.log.Info().Err(err).Msg("record the failure")
	}
}

func (p *partition) move(to state.Status, lastMirroredOffset int64) error {
	return p.do("enter "+to.String(), state.MovePartition{Partition: p.id, To: to, LastMirroredOffset: lastMirroredOffset})
}

func (p *partition) do(what string, commands ...state.Command) error {
	return p.doWithin(p.ctx, what, commands...)
}

func (p *partition) doWithin(ctx context.Context, what string, commands ...state.Command) error {
	if err := p.tenure.cfg.Store.Do(ctx, commands...); err != nil {
		return storeFault(err, "%s (partition %s)", what, p.id)
	}
	for _, command := range commands {
		if set, ok := command.(state.SetProgress); ok && set.Partition == p.id {
			p.progress = set.Progress
		}
	}
	return nil
}

// storedProgress is the progress that the state holds, as this owner sees it.
func (p *partition) storedProgress() state.Progress {
	stored := p.tenure.cfg.Store.View().Progress(p.id)
	if left, ok := p.tenure.before[p.id]; ok && left.ReservedBy == stored.ReservedBy { // nobody has reserved since
		stored.ReservedOffset, stored.UncleanOffset = left.ReservedOffset, max(left.UncleanOffset, stored.UncleanOffset)
	}
	return stored.TakeOver(p.tenure.generation)
}

// cleanProgress is the progress of a partition of which nothing is in flight.
func (p *partition) cleanProgress() state.SetProgress {
	progress := p.progress
	progress.ReservedOffset = -1
	progress.ReservedBy = p.tenure.generation
	return state.SetProgress{Partition: p.id, Progress: progress}
}

// retireTimeout bounds writing the last word about a partition.
const retireTimeout = 5 * time.Second

// retire records, when the runner ends, that everything was answered. Without it (another owner
// is there already, or the store is gone) the reservation stands and the next owner is careful,
// unless it is this process again, which then remembers.
func (p *partition) retire() {
	if p.progress.ReservedOffset < 0 {
		return
	}
	if w, ok := p.look(); !ok || w.topic.Mirror != p.of {
		return
	}
	clean := p.cleanProgress()
	err := error(produce.Faultf(produce.LostLease, "this process does not own the mirrors any more"))
	if p.tenure.owns() {
		ctx, cancel := context.WithTimeout(context.Background(), retireTimeout)
		defer cancel()
		err = p.doWithin(ctx, "retire", clean)
	}
	if err != nil {
		p.tenure.leave(p.id, clean.Progress)
		p.tenure.log.Info().Err(err).Msg("a partition could not be retired cleanly")
	}
}

// rest waits for a nudge, or for a while when that is above 0.
func (p *partition) rest(most time.Duration) {
	p.restUntil(most, func(*wanted) bool { return true })
}

// restUntil waits for a while (for ever when 0) or until a nudge brings what enough agrees to.
func (p *partition) restUntil(most time.Duration, enough func(*wanted) bool) {
	var timeout <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		select {
		case <-p.wake:
			if now, ok := p.look(); ok && enough(now) {
				return
			}
		case <-timeout:
			return
		case <-p.ctx.Done():
			return
		}
	}
}
