package mirrorapi

import (
	"context"
	"maps"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// createMirror answers CreateMirror. The source is not asked anything: a mirror can be made while its source is down.
func (h *Handler) createMirror(ctx context.Context, req *mirrormsg.CreateMirrorRequest) mirrormsg.Response {
	resp := req.NewResponse()
	if err := h.create(ctx, req); err != nil {
		setFailure(resp.TopLevel(), err)
	}
	return resp
}

func (h *Handler) create(ctx context.Context, req *mirrormsg.CreateMirrorRequest) error {
	if err := mirrormsg.CheckMirrorName(req.MirrorName); err != nil {
		return failf(mirrormsg.InvalidMirrorName, "%v", err)
	}
	given := make(map[string]string, len(req.Config))
	for _, c := range req.Config {
		if _, ok := specOf(c.Name); !ok {
			return unknownConfig(c.Name)
		}
		if _, twice := given[c.Name]; twice {
			return failf(mirrormsg.InvalidRequest, "config %s is given twice", c.Name)
		}
		if c.Value == nil {
			continue // the default is asked for
		}
		if err := h.refuseSealed(c.Name, *c.Value); err != nil {
			return err
		}
		given[c.Name] = *c.Value
	}
	configs, err := h.checkConfigs(given)
	if err != nil {
		return err
	}
	if err := h.checkGuard(ctx, configs); err != nil {
		return err
	}
	if existing, ok := h.store.View().Mirror(req.MirrorName); ok && !maps.Equal(existing.Configs, configs) {
		return failf(mirrormsg.InvalidRequest, "mirror %s exists with other configs; use alter "+
			"(kafka-mirrors --alter, or kafka-configs --entity-type mirrors --alter) to change them", req.MirrorName)
	}
	return h.store.Do(ctx, state.CreateMirror{Name: req.MirrorName, Configs: configs})
}
