package mirrorapi

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

// keyedCoordinatorsVersion is the FindCoordinator version from which on a request holds several keys.
const keyedCoordinatorsVersion int16 = 4

// findCoordinator answers FindCoordinator for the key type MIRROR. Versions before 7 do not have it: INVALID_REQUEST, once
// a key where a request holds several.
func (h *Handler) findCoordinator(ctx context.Context, r Request) ([]byte, error) {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	resp.Version = r.Version
	if r.Version < mirrormsg.FindCoordinatorVersion {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version = r.Version
		if err := req.ReadFrom(r.Body); err != nil {
			return nil, fmt.Errorf("FindCoordinator v%d: %w", r.Version, err)
		}
		err := failf(mirrormsg.InvalidRequest, "mirrors have coordinators from version %d on", mirrormsg.FindCoordinatorVersion)
		if r.Version < keyedCoordinatorsVersion {
			resp.ErrorCode, resp.ErrorMessage = int16(err.code), &err.message
			resp.NodeID, resp.Port = -1, -1
			return resp.AppendTo(nil), nil
		}
		for _, key := range req.CoordinatorKeys {
			resp.Coordinators = append(resp.Coordinators, noCoordinator(key, err))
		}
		return resp.AppendTo(nil), nil
	}
	var req mirrormsg.FindCoordinatorV7Request
	if err := req.ReadFrom(r.Body); err != nil {
		return nil, err
	}
	refused := h.admit(ctx)
	if refused == nil && req.KeyType != mirrormsg.CoordinatorTypeMirror {
		refused = failf(mirrormsg.InvalidRequest, "coordinator type %d does not exist in version %d", req.KeyType, r.Version)
	}
	for _, key := range req.CoordinatorKeys {
		if refused != nil {
			resp.Coordinators = append(resp.Coordinators, noCoordinator(key, refused))
			continue
		}
		resp.Coordinators = append(resp.Coordinators, h.coordinatorOf(ctx, key))
	}
	return resp.AppendTo(nil), nil
}

func (h *Handler) coordinatorOf(ctx context.Context, text string) kmsg.FindCoordinatorResponseCoordinator {
	key, err := mirrormsg.ParseCoordinatorKey(text)
	if err != nil {
		return noCoordinator(text, failf(mirrormsg.InvalidRequest, "%v", err))
	}
	leader, err := h.stateLeader(ctx, func(partitions int32) int32 {
		return mirrormsg.CoordinatorPartition(key.Mirror, key.TopicID, key.Partition, partitions)
	})
	if err != nil {
		return noCoordinator(text, err)
	}
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key, c.NodeID = text, leader
	c.Host, c.Port = h.address(leader)
	c.ErrorMessage = kmsg.StringPtr("")
	return c
}

// noCoordinator is the answer for a key that has none: the code tells, the message is empty as at the reference.
func noCoordinator(key string, err error) kmsg.FindCoordinatorResponseCoordinator {
	code, _ := codeOf(err)
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key, c.NodeID, c.Port = key, -1, -1
	c.ErrorCode = int16(code)
	c.ErrorMessage = kmsg.StringPtr("")
	return c
}
