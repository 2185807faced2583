package mirrorapi

import (
	"context"
	"fmt"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// lastMirroredOffsets answers LastMirroredOffsets, by which another cluster that mirrors from this one learns where the
// two logs part. As at the reference, a partition of which nothing is recorded has the offset 0, whatever the reason: the
// asker's mirror of that name need not exist here.
func (h *Handler) lastMirroredOffsets(req *mirrormsg.LastMirroredOffsetsRequest) mirrormsg.Response {
	resp := req.NewResponse().(*mirrormsg.LastMirroredOffsetsResponse)
	view := h.store.View()
	for _, t := range req.Topics {
		topic := mirrormsg.LastMirroredOffsetsTopic{Name: t.Name}
		for _, index := range t.Partitions {
			offset := int64(0)
			if p, ok := partitionOf(view, req.MirrorName, t.Name, index); ok {
				offset = max(0, view.Partition(p).LastMirroredOffset)
			}
			topic.Partitions = append(topic.Partitions,
				mirrormsg.LastMirroredOffset{PartitionIndex: index, LastMirroredOffset: offset})
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// readStates answers ReadMirrorStates.
func (h *Handler) readStates(req *mirrormsg.ReadMirrorStatesRequest) mirrormsg.Response {
	resp := req.NewResponse().(*mirrormsg.ReadMirrorStatesResponse)
	view := h.store.View()
	if err := unknownIfMissing(view, req.MirrorName); err != nil {
		setFailure(&resp.Status, err)
		return resp
	}
	for _, t := range req.Topics {
		topic := mirrormsg.ReadMirrorStatesTopic{Name: t.Name}
		for _, index := range t.Partitions {
			row := mirrormsg.ReadMirrorState{
				PartitionIndex: index, LastMirroredOffset: mirrormsg.UnknownOffset, State: mirrormsg.UnknownState,
			}
			if id, ok := partitionOf(view, req.MirrorName, t.Name, index); ok {
				p := view.Partition(id)
				row.LastMirroredOffset, row.State = p.LastMirroredOffset, int8(p.Status)
			}
			topic.Partitions = append(topic.Partitions, row)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// writeStates answers WriteMirrorStates: each partition moves if the transition table allows it (to STOPPED never), and the answer comes when
// that is durable. RemovedTopics is ignored, as at the reference.
func (h *Handler) writeStates(ctx context.Context, req *mirrormsg.WriteMirrorStatesRequest) mirrormsg.Response {
	resp := req.NewResponse().(*mirrormsg.WriteMirrorStatesResponse)
	view := h.store.View()
	if err := unknownIfMissing(view, req.MirrorName); err != nil {
		setFailure(&resp.Status, err)
		return resp
	}
	var failed []error
	total := 0
	for _, t := range req.Topics {
		topic := mirrormsg.WriteMirrorStatesResultTopic{Name: t.Name}
		for _, write := range t.Partitions {
			total++
			row := mirrormsg.WriteMirrorStateResult{PartitionIndex: write.PartitionIndex}
			if err := h.writeState(ctx, view, req.MirrorName, t.Name, write); err != nil {
				err = fmt.Errorf("%s-%d: %w", t.Name, write.PartitionIndex, err)
				row.ErrorCode, _ = codeOf(err)
				failed = append(failed, err)
			}
			topic.Partitions = append(topic.Partitions, row)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	setTopFailure(&resp.Status, failed, total)
	return resp
}

func (h *Handler) writeState(ctx context.Context, view *state.View, mirror, topic string, write mirrormsg.WriteMirrorState) error {
	id, ok := partitionOf(view, mirror, topic, write.PartitionIndex)
	if !ok {
		return failf(mirrormsg.UnknownTopicOrPartition, "mirror %s has no such partition", mirror)
	}
	if write.LastMirroredOffset < mirrormsg.UnknownOffset {
		return failf(mirrormsg.InvalidRequest, "offset %d is negative", write.LastMirroredOffset)
	}
	current := view.Partition(id)
	move := state.MovePartition{
		Partition: id, To: state.Status(write.State), LastMirroredOffset: write.LastMirroredOffset,
		Error: current.Error, Retriable: current.Retriable, Attempt: current.Attempt,
	}
	if write.State == mirrormsg.UnknownState {
		if write.LastMirroredOffset == mirrormsg.UnknownOffset {
			return nil // nothing is to change
		}
		move.To = current.Status
	} else if move.To != current.Status {
		if move.To == state.Stopped {
			// It makes the topic writable, which is safe only once whoever replicates it has ended and closed the log.
			return failf(mirrormsg.InvalidRequest, "only the proxy that replicates a partition makes it STOPPED; remove topic %s from the mirror instead", topic)
		}
		move.Error, move.Retriable, move.Attempt = "", false, 0
		if move.To == state.Failed {
			move.Error = "set to FAILED by a WriteMirrorStates request"
		}
	}
	return h.store.Do(ctx, move)
}

// partitionOf finds a partition of a mirror's topic by names.
func partitionOf(view *state.View, mirror, topic string, index int32) (state.PartitionID, bool) {
	t, ok := view.Topic(topic)
	if !ok || t.Mirror != mirror || index < 0 || index >= t.Partitions {
		return state.PartitionID{}, false
	}
	return state.PartitionID{Topic: t.ID, Partition: index}, true
}
