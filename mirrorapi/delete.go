package mirrorapi

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// deleteMirror answers DeleteMirror. A mirror with a topic that is not STOPPED is refused (by the store, which decides on
// the newest state); the request's own check against a metadata offset has no meaning here.
func (h *Handler) deleteMirror(ctx context.Context, req *mirrormsg.DeleteMirrorRequest) mirrormsg.Response {
	resp := req.NewResponse()
	err := unknownIfMissing(h.store.View(), req.MirrorName)
	if err == nil {
		err = h.store.Do(ctx, state.DeleteMirror{Name: req.MirrorName})
	}
	if err != nil {
		setFailure(resp.TopLevel(), err)
		return resp
	}
	if err := h.forgetFormer(ctx); err != nil {
		h.log.Warn().Err(err).Msg("topics of deleted mirrors that are gone on the destination are not forgotten yet")
	}
	return resp
}

// forgetFormer forgets the topics of deleted mirrors that are gone on the destination. Each delete of a mirror adds to them,
// so each clears up.
func (h *Handler) forgetFormer(ctx context.Context) error {
	former := h.store.View().Former()
	if len(former) == 0 {
		return nil
	}
	info, err := readMetadata(ctx, h.clusters.Destination(), slices.Compact(slices.Sorted(maps.Values(former))))
	if err != nil {
		return err
	}
	var gone []state.Command
	for id, name := range former {
		// Only what the cluster says does not exist: it may as well not tell us.
		topic, ok := info.topics[name]
		if ok && (errors.Is(topic.err, kerr.UnknownTopicOrPartition) || topic.err == nil && topic.id != id) {
			gone = append(gone, state.ForgetTopic{ID: id})
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return h.store.Do(ctx, gone...)
}

func unknownIfMissing(view *state.View, mirror string) error {
	if _, ok := view.Mirror(mirror); !ok {
		return unknownMirror(mirror)
	}
	return nil
}
