package replicate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

// stop hands a partition to the users. Nothing of this process is in flight any more. First it
// is recorded where the mirror's records end, then, where an earlier owner may still have
// something under way that would fit behind them, a marker shuts it out (design.md section 6.1,
// "Stopping leaves no zombie"). The last partition of the topic to come this far gives back the
// topic's configs and makes all of them STOPPED at once. It needs the destination only.
func (p *partition) stop(w *wanted) error {
	if w.have.Status != state.Stopping {
		if err := p.move(state.Stopping, -1); err != nil {
			return err
		}
	}
	target := w.target(p.id)
	p.notBefore = p.tenure.cfg.Clock() // what follows names the topic by its name: it must still be the same one
	ready := stopped{lastMirroredOffset: max(w.have.LastMirroredOffset, -1)}
	position, err := p.tenure.engine.Position(p.ctx, target, p.notBefore)
	var fault *produce.Fault
	switch {
	case errors.As(err, &fault) && fault.Verdict == produce.Missing && p.missing+1 >= missingLooks:
		ready.note = fault.Error() // nothing to close: let the operator go on
		p.progress.FillToOffset = -1
	case err != nil:
		return err
	default:
		if ready.lastMirroredOffset, err = p.mirroredEnd(target, &position, w.have.LastMirroredOffset); err != nil {
			return err
		}
		if ready.note, err = p.dropFiller(target, &position, ready.lastMirroredOffset); err != nil {
			return err
		}
		note, err := p.close(target, &position, ready.lastMirroredOffset)
		if err != nil {
			return err
		}
		ready.addNote(note)
		if end := ready.lastMirroredOffset; end >= 0 && end < position.EndOffset && !position.Fenced() {
			// Read before the marker: what stands there is not the mirror's.
			ready.addNote(fmt.Sprintf("%s: offsets %d to %d were written by something other than the mirror; compare with the source", target, end, position.EndOffset-1))
		}
		if ready.lastMirroredOffset < 0 {
			ready.addNote(fmt.Sprintf("%s ends at offset %d with what the mirror did not write, and where its own records end is not known", target, position.EndOffset))
		}
		if ready.lastMirroredOffset != p.progress.CopiedOffset {
			p.progress.CopiedOffset, p.progress.Epochs = ready.lastMirroredOffset, nil
		}
	}
	return p.handOver(w, ready)
}

// mirroredEnd is the offset up to which the destination holds what the mirror wrote, at its place; -1 when nothing tells.
// It never counts what somebody else wrote: a topic that is mirrored again must end there, and
// what lies below is never read from the source again. recorded is from the last time it was stopped.
func (p *partition) mirroredEnd(target produce.Target, position *produce.Position, recorded int64) (int64, error) {
	known := max(recorded, p.progress.CopiedOffset)
	switch {
	case position.Fenced() && recorded >= 0:
		return recorded, nil // it was recorded before the marker was written
	case position.InSequence(), position.EndOffset == known, position.EndOffset == 0:
		return position.EndOffset, nil
	}
	// The last record of the mirror is the last one; or, where the broker remembers the mirror's producer,
	// that with its last sequence, behind which stand foreign records.
	last := position.EndOffset - 1
	if position.Producer != nil && position.Producer.LastSequence >= 0 {
		last -= int64((batch.SequenceOf(last) - position.Producer.LastSequence) & 0x7fffffff)
	}
	if last+1 != known && last >= position.LogStart && !position.Fenced() {
		if own, err := p.tenure.engine.Wrote(p.ctx, target, position, last); err != nil || own {
			return last + 1, err
		}
	}
	return known, nil
}

// dropFiller deletes the leading filler of a partition that is stopped in the middle of it, so that
// users do not find it. From then on FillToOffset says how far that filler came: a later add goes
// on behind it, and what users write above is never taken for filler. note says what the operator
// should know.
func (p *partition) dropFiller(target produce.Target, position *produce.Position, end int64) (note string, err error) {
	if p.progress.FillToOffset < 0 {
		return "", nil
	}
	end = min(end, p.progress.FillToOffset)
	if position.LogStart < end {
		err := p.tenure.engine.Trim(p.ctx, target, end, p.notBefore)
		var fault *produce.Fault
		if errors.As(err, &fault) && fault.Verdict == produce.Refused {
			note = fmt.Sprintf("the records below offset %d are filler: %v", end, err)
		} else if err != nil {
			return "", err
		}
	}
	if p.progress.FillToOffset = end; end <= 0 {
		p.progress.FillToOffset = -1
	}
	return note, nil
}

// close records where the mirror's records end, and writes the closing marker where it is
// needed. note says what the operator should know.
func (p *partition) close(target produce.Target, position *produce.Position, end int64) (note string, err error) {
	if err := p.move(state.Stopping, end); err != nil {
		return "", err
	}
	if needed, err := p.needsFence(target, position); err != nil || !needed {
		return "", err
	}
	p.tenure.log.Info().Str("topic", target.Topic).Int32("partition", target.Partition).Int64("offset", end).
		Msg("an earlier owner did not stop cleanly: a marker closes the log to it")
	err = p.tenure.engine.Fence(p.ctx, target, position.Leader.ID)
	if errors.Is(err, produce.ErrFenceForbidden) {
		note = fmt.Sprintf("%v; waited %v instead for what an earlier owner may have had under way", err, p.tenure.cfg.Settings.FenceWait)
		return note, sleep(p.ctx, p.tenure.cfg.Settings.FenceWait)
	}
	if err != nil {
		return "", err
	}
	after, err := p.tenure.engine.Position(p.ctx, target, p.notBefore)
	if err == nil && !after.Fenced() {
		// A broker that does not tell (or has forgotten at once): the marker was acknowledged.
		p.tenure.log.Debug().Str("topic", target.Topic).Msg("the closing marker does not show in the producer state")
	}
	return "", err
}

// underWayMost is how long something that was sent may be under way, by far: a broker closes a
// connection on which nothing comes after 10 minutes (connections.max.idle.ms).
const underWayMost = time.Hour

// underWayIsOver says that nothing that UncleanOffset is about can come any more.
func (p *partition) underWayIsOver() bool { return p.tenure.cfg.Clock().Sub(p.since) > underWayMost }

// unclean notes that a batch that begins below an offset may still come.
func (p *partition) unclean(offset int64) {
	p.progress.UncleanOffset = max(p.progress.UncleanOffset, offset)
	p.since = p.tenure.cfg.Clock()
	p.doubt.begins()
}

// needsFence says whether something that is still under way could be appended behind the users'
// records. It could where it would be in sequence: when the log has not passed it, or as soon as
// the broker has forgotten the mirror's producer.
func (p *partition) needsFence(target produce.Target, position *produce.Position) (bool, error) {
	switch {
	case p.progress.UncleanOffset < 0, position.Fenced():
		return false, nil
	case p.progress.UncleanOffset > position.EndOffset:
		return true, nil
	case p.underWayIsOver():
		return false, nil
	case !position.InSequence():
		return true, nil // behind what somebody else wrote, the mirror's next batch is still the one that is under way
	}
	guarded, err := p.tenure.engine.Guarded(p.ctx, target, position, underWayMost)
	return !guarded, err
}

// stopped is what becomes of a partition that is ready to be STOPPED.
type stopped struct {
	lastMirroredOffset int64
	note               string
	progress           state.SetProgress
}

func (s *stopped) addNote(note string) {
	if s.note != "" && note != "" {
		s.note += "; "
	}
	s.note += note
}

// handOver collects the partitions of a topic that are ready. Its mutex lets one runner finish
// the topic while others wait.
type handOver struct {
	mu            sync.Mutex
	ready         map[int32]stopped
	attempts      int // to give back configs
	guardAttempts int // to remove the guard
}

func (h *handOver) put(partition int32, ready stopped) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready[partition] = ready
}

func (h *handOver) drop(partition int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ready, partition)
}

func (t *tenure) handOver(id state.TopicID) *handOver {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.handing[id]
	if h == nil {
		h = &handOver{ready: map[int32]stopped{}}
		t.handing[id] = h
	}
	return h
}

// handOver makes the topic's partitions STOPPED when this was the last one; else it waits for
// the view to change.
func (p *partition) handOver(w *wanted, ready stopped) error {
	ready.progress = p.cleanProgress()
	h := p.tenure.handOver(p.id.Topic)
	h.put(p.id.Partition, ready)
	defer h.drop(p.id.Partition) // whoever does not wait for it is not ready any more
	for p.ctx.Err() == nil {
		now, ok := p.look()
		if !ok {
			return nil
		}
		if now.have.Status != state.Stopping {
			p.progress = p.storedProgress() // another runner may have stored it, without the reservation
			return nil
		}
		finished, err := p.finishTopic(now.topic, h)
		if err != nil {
			return err
		}
		if !finished {
			p.rest(0)
		}
	}
	return nil
}

// finishTopic makes the partitions that are ready STOPPED, once all are. (The state refuses to
// add the topic again before.) Where a partition alone was told to stop (WriteMirrorStates), its
// topic keeps its configs, and it waits for no other.
func (p *partition) finishTopic(topic *state.Topic, h *handOver) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ready := h.ready[p.id.Partition]; !ready {
		return true, nil // another runner has done it
	}
	view, stopping := p.tenure.cfg.Store.View(), topic.Desired == state.DesiredStopped
	var commands []state.Command
	for i := range topic.Partitions {
		id := state.PartitionID{Topic: p.id.Topic, Partition: i}
		one, ready := h.ready[i]
		switch {
		case ready:
			commands = append(commands, one.progress,
				state.MovePartition{Partition: id, To: state.Stopped, LastMirroredOffset: one.lastMirroredOffset, Error: one.note})
		case stopping && view.Partition(id).Status != state.Stopped:
			return false, nil
		}
	}
	err := error(nil)
	if stopping {
		if err = p.handBack(topic, h); err == nil {
			err = p.dropGuard(topic, h)
		}
	}
	if err == nil {
		err = p.do("enter STOPPED", commands...)
	}
	if err != nil {
		return false, err
	}
	clear(h.ready)
	h.attempts, h.guardAttempts = 0, 0
	return true, nil
}

// handBackTries is how often configs that the broker refuses are tried: a failover must not
// hang on them.
const handBackTries = 3

// handBack gives the topic its own configs in one request.
func (p *partition) handBack(topic *state.Topic, h *handOver) error {
	if len(topic.HandBack) == 0 {
		return nil
	}
	err := p.alterMirrored(topic)
	if err == nil {
		return nil
	}
	var fault *produce.Fault
	switch {
	case errors.As(err, &fault) && fault.Verdict == produce.LostLease:
		return err
	case fault != nil && fault.Verdict == produce.Missing, errors.Is(err, kerr.UnknownTopicOrPartition):
		if p.missing+1 >= missingLooks {
			return nil // it is gone
		}
		return produce.Because(produce.Missing, err, "give topic %s its configs back", topic.Name)
	}
	if h.attempts++; codeOf(err) == 0 || h.attempts < handBackTries {
		return produce.Because(produce.Retry, err, "give topic %s its configs back", topic.Name)
	}
	p.tenure.log.Warn().Err(err).Str("topic", topic.Name).Msg("the topic keeps the configs it was mirrored with")
	return p.do("note the configs", state.SetTopicError{ID: topic.ID, Error: fmt.Sprintf("the topic keeps the configs it was mirrored with: %v", err)})
}

// alterMirrored gives the configs back to the topic that was mirrored and not, as they are given
// by name, to another one that has its name now.
func (p *partition) alterMirrored(topic *state.Topic) error {
	target := produce.Target{Mirror: topic.Mirror, Topic: topic.Name, TopicID: topic.ID, Partition: p.id.Partition}
	if err := p.tenure.engine.CheckTopic(p.ctx, target, p.tenure.cfg.Clock()); err != nil {
		return err
	}
	if !p.tenure.owns() {
		return produce.Faultf(produce.LostLease, "this process does not own the mirrors any more")
	}
	return alterTopic(p.ctx, p.tenure.cfg.Clusters.Destination(), topic.Name, topic.HandBack)
}

func alterTopic(ctx context.Context, client kmsg.Requestor, topic string, configs map[string]*string) error {
	return alterConfigs(ctx, client, kmsg.ConfigResourceTypeTopic, topic, configs)
}

// alterConfigs sets configs of a topic or broker, or deletes them where the value is nil.
func alterConfigs(ctx context.Context, client kmsg.Requestor, kind kmsg.ConfigResourceType, name string, configs map[string]*string) error {
	const set, remove = 0, 1
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kind, name
	for key, value := range configs {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value, config.Op = key, value, set
		if value == nil {
			config.Op = remove
		}
		resource.Configs = append(resource.Configs, config)
	}
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, r := range answer.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			if r.ErrorMessage != nil {
				return fmt.Errorf("%w: %s", err, *r.ErrorMessage)
			}
			return err
		}
	}
	return nil
}
