package mirrorapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// alterConfigs answers IncrementalAlterConfigs for resources of type 64, mirrors. All changes to a mirror are made, or
// none. The replicator connects anew with the new configs and goes on where it was.
func (h *Handler) alterConfigs(ctx context.Context, r Request) ([]byte, error) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = r.Version
	if err := req.ReadFrom(r.Body); err != nil {
		return nil, fmt.Errorf("IncrementalAlterConfigs v%d: %w", r.Version, err)
	}
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	resp.Version = r.Version
	refused := h.admit(ctx)
	for i := range req.Resources {
		resource := &req.Resources[i]
		row := kmsg.NewIncrementalAlterConfigsResponseResource()
		row.ResourceType, row.ResourceName = resource.ResourceType, resource.ResourceName
		err := refused
		if err == nil {
			err = h.alterMirror(ctx, resource, req.ValidateOnly)
		}
		if err != nil {
			code, message := codeOf(err)
			row.ErrorCode, row.ErrorMessage = int16(code), &message
		}
		resp.Resources = append(resp.Resources, row)
	}
	return resp.AppendTo(nil), nil
}

func (h *Handler) alterMirror(ctx context.Context, resource *kmsg.IncrementalAlterConfigsRequestResource, validateOnly bool) error {
	name := resource.ResourceName
	if err := checkMirrorResource(resource.ResourceType, name); err != nil {
		return err
	}
	if err := checkAlterations(resource.Configs); err != nil {
		return err
	}
	view := h.store.View()
	mirror, ok := view.Mirror(name)
	if !ok {
		return unknownMirror(name)
	}
	wanted := maps.Clone(mirror.Configs)
	for i := range resource.Configs {
		if err := h.apply(wanted, &resource.Configs[i]); err != nil {
			return err
		}
	}
	stored, err := h.checkConfigs(wanted)
	if err != nil {
		return err
	}
	alter := state.AlterMirror{Name: name, Set: map[string]string{}}
	for key, value := range stored {
		if current, ok := mirror.Configs[key]; !ok || current != value {
			alter.Set[key] = value
		}
	}
	for key := range mirror.Configs {
		if _, ok := stored[key]; !ok {
			alter.Delete = append(alter.Delete, key)
		}
	}
	slices.Sort(alter.Delete)
	if err := checkStoppedOnly(view, name, alter); err != nil {
		return err
	}
	if err := h.checkGuard(ctx, alter.Set); err != nil {
		return err
	}
	if validateOnly || len(alter.Set) == 0 && len(alter.Delete) == 0 {
		return nil
	}
	return h.store.Do(ctx, alter)
}

// checkAlterations refuses what no config can take. The texts for unknown keys and null values are the reference's.
func checkAlterations(configs []kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	var null []string
	seen := map[string]bool{}
	for i := range configs {
		c := &configs[i]
		if _, ok := specOf(c.Name); !ok {
			return unknownConfig(c.Name)
		}
		if seen[c.Name] {
			return failf(mirrormsg.InvalidRequest, "config %s is given twice", c.Name)
		}
		seen[c.Name] = true
		if c.Value == nil && c.Op != kmsg.IncrementalAlterConfigOpDelete {
			null = append(null, c.Name)
		}
	}
	if len(null) > 0 {
		return failf(mirrormsg.InvalidRequest, "Null value not supported for : %s", strings.Join(null, ", "))
	}
	return nil
}

// apply makes one change to configs. APPEND and SUBTRACT start from the default of a key that is not set.
func (h *Handler) apply(configs map[string]string, c *kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	spec, _ := specOf(c.Name)
	switch c.Op {
	case kmsg.IncrementalAlterConfigOpDelete:
		delete(configs, c.Name)
		return nil
	case kmsg.IncrementalAlterConfigOpSet:
		if err := h.refuseSealed(c.Name, *c.Value); err != nil {
			return err
		}
		configs[c.Name] = *c.Value
		return nil
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
	default:
		return failf(mirrormsg.InvalidRequest, "operation %d on config %s does not exist", c.Op, c.Name)
	}
	if !spec.isList() {
		return failf(mirrormsg.InvalidConfig, "Can't %s config %s because its type is not LIST", c.Op, c.Name)
	}
	current, ok := configs[c.Name]
	if !ok {
		current = spec.fallback
	}
	items := splitList(current)
	for _, item := range splitList(*c.Value) {
		at := slices.Index(items, item)
		switch {
		case c.Op == kmsg.IncrementalAlterConfigOpAppend && at < 0:
			items = append(items, item)
		case c.Op == kmsg.IncrementalAlterConfigOpSubtract && at >= 0:
			items = slices.Delete(items, at, at+1)
		}
	}
	configs[c.Name] = strings.Join(items, ",")
	return nil
}

// refuseSealed refuses a value that looks like a sealed one: it would be stored as it is, and could not be opened.
func (h *Handler) refuseSealed(key, value string) error {
	if spec, _ := specOf(key); spec.kind == password && h.secrets.IsSealed(value) {
		return failf(mirrormsg.InvalidConfig, "Invalid value for mirror configuration %s: it has the form that the proxy "+
			"itself gives to secrets", key)
	}
	return nil
}

// checkStoppedOnly refuses to change what may only change while no topic of the mirror is active.
func checkStoppedOnly(view *state.View, mirror string, alter state.AlterMirror) error {
	active := ""
	for _, topic := range view.TopicsOf(mirror) {
		if view.ReadOnly(topic) {
			active = topic.Name
			break
		}
	}
	if active == "" {
		return nil
	}
	for _, key := range append(slices.Sorted(maps.Keys(alter.Set)), alter.Delete...) {
		if spec, _ := specOf(key); spec.stoppedOnly {
			return failf(mirrormsg.InvalidRequest, "%s can change only while all topics of mirror %s are stopped; topic %s is not",
				key, mirror, active)
		}
	}
	return nil
}
