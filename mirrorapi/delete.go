package mirrorapi

import (
	"context"

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
	}
	return resp
}

func unknownIfMissing(view *state.View, mirror string) error {
	if _, ok := view.Mirror(mirror); !ok {
		return unknownMirror(mirror)
	}
	return nil
}
