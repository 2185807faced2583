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

// emptyName is the reference's text for a config resource of type 64 without a name.
const emptyName = "Cluster name must not be empty"

// Names of the read-only configs that show a mirror's condition to clients that know nothing of our fields.
const (
	statusState           = "status.state"
	statusError           = "status.error"
	statusSourceClusterID = "status.source.cluster.id"
	statusIgnored         = "status.ignored"
	statusGuard           = "status.guard"
	statusWarning         = "status.warning"

	statusOK = "ok"
)

// describeConfigs answers DescribeConfigs for resources of type 64, mirrors: what was set (no defaults), and the condition
// of the mirror as read-only entries. A mirror that does not exist has no entries, as at the reference; secrets have no
// value.
func (h *Handler) describeConfigs(ctx context.Context, r Request) ([]byte, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = r.Version
	if err := req.ReadFrom(r.Body); err != nil {
		return nil, fmt.Errorf("DescribeConfigs v%d: %w", r.Version, err)
	}
	resp := kmsg.NewPtrDescribeConfigsResponse()
	resp.Version = r.Version
	refused := h.admit(ctx)
	view := h.store.View()
	for i := range req.Resources {
		resource := &req.Resources[i]
		row := kmsg.NewDescribeConfigsResponseResource()
		row.ResourceType, row.ResourceName = resource.ResourceType, resource.ResourceName
		err := refused
		if err == nil {
			row.Configs, err = h.describeMirrorConfigs(ctx, view, resource)
		}
		if err != nil {
			code, message := codeOf(err)
			row.ErrorCode, row.ErrorMessage = int16(code), &message
		}
		resp.Resources = append(resp.Resources, row)
	}
	return resp.AppendTo(nil), nil
}

func checkMirrorResource(resourceType kmsg.ConfigResourceType, name string) error {
	if int8(resourceType) != mirrormsg.Seed.ConfigResourceType {
		return failf(mirrormsg.InvalidRequest, "resource type %d is not that of mirrors", resourceType)
	}
	if name == "" {
		return failf(mirrormsg.InvalidRequest, emptyName)
	}
	return nil
}

func (h *Handler) describeMirrorConfigs(ctx context.Context, view *state.View, resource *kmsg.DescribeConfigsRequestResource) (
	[]kmsg.DescribeConfigsResponseResourceConfig, error,
) {
	if err := checkMirrorResource(resource.ResourceType, resource.ResourceName); err != nil {
		return nil, err
	}
	mirror, ok := view.Mirror(resource.ResourceName)
	if !ok {
		return nil, nil
	}
	var rows []kmsg.DescribeConfigsResponseResourceConfig
	add := func(name string, value *string, readOnly, sensitive bool) {
		if len(resource.ConfigNames) > 0 && !slices.Contains(resource.ConfigNames, name) {
			return
		}
		row := kmsg.NewDescribeConfigsResponseResourceConfig()
		row.Name, row.Value, row.ReadOnly, row.IsSensitive = name, value, readOnly, sensitive
		row.Source = kmsg.ConfigSourceDynamicBrokerConfig
		row.ConfigType = kmsg.ConfigTypeString
		rows = append(rows, row)
	}
	for _, key := range slices.Sorted(maps.Keys(mirror.Configs)) {
		if isSecret(key) {
			add(key, nil, false, true)
			continue
		}
		value := mirror.Configs[key]
		add(key, &value, false, false)
	}
	for _, entry := range h.status(ctx, view, mirror) {
		add(entry[0], &entry[1], true, false)
	}
	return rows, nil
}

// isSecret tells the configs whose values are not shown: password configs, and what this version does not know.
func isSecret(key string) bool {
	spec, ok := specOf(key)
	return !ok || spec.kind == password
}

// sourceProblem says what is wrong with the connection to a mirror's source, "" when nothing is known to be. Before
// anything is mirrored nobody has connected; but what keeps a client from being made, such as a reference to a secret that
// is not there, shows at once.
func (h *Handler) sourceProblem(ctx context.Context, mirror *state.Mirror) string {
	problem := h.live.MirrorError(mirror.Name)
	if problem == "" {
		if _, err := h.clusters.Source(ctx, mirror); err != nil {
			problem = err.Error()
		}
	}
	return problem
}

// mirrorProblem is what is wrong with a mirror as a whole: with its source, or else what it does without.
func (h *Handler) mirrorProblem(ctx context.Context, mirror *state.Mirror) string {
	if problem := h.sourceProblem(ctx, mirror); problem != "" {
		return problem
	}
	return h.live.MirrorWarning(mirror.Name)
}

// status lists the status entries that have something to say, as name and value.
func (h *Handler) status(ctx context.Context, view *state.View, mirror *state.Mirror) [][2]string {
	problem := h.sourceProblem(ctx, mirror)
	failed := failedTopics(view, mirror.Name)
	condition := statusOK
	switch {
	case problem != "":
		condition = "source: " + problem
	case len(failed) > 0:
		condition = "failed topics: " + strings.Join(failed, ", ")
	}
	entries := [][2]string{{statusState, condition}}
	for _, entry := range [][2]string{
		{statusError, problem},
		{statusWarning, h.live.MirrorWarning(mirror.Name)},
		{statusSourceClusterID, mirror.SourceClusterID},
		{statusIgnored, strings.Join(h.ignoredConfigs(mirror.Configs), ",")},
		{statusGuard, guardStatus(view, mirror.Name)},
	} {
		if entry[1] != "" {
			entries = append(entries, entry)
		}
	}
	return entries
}

// ignoredConfigs names the configs that are set and have no effect here.
func (h *Handler) ignoredConfigs(configs map[string]string) []string {
	var ignored []string
	for key := range configs {
		if spec, ok := mirrorConfigs[key]; ok && spec.unused {
			ignored = append(ignored, key)
		}
	}
	for _, key := range h.ignored(configs) {
		if _, ours := mirrorConfigs[key]; !ours {
			ignored = append(ignored, key)
		}
	}
	slices.Sort(ignored)
	return slices.Compact(ignored)
}

// maxTopicsTold bounds how many topics a status names.
const maxTopicsTold = 10

func failedTopics(view *state.View, mirror string) []string {
	var failed []string
	for _, topic := range view.TopicsOf(mirror) {
		bad := topic.Error != ""
		for index := range topic.Partitions {
			bad = bad || view.Partition(state.PartitionID{Topic: topic.ID, Partition: index}).Status == state.Failed
		}
		if !bad {
			continue
		}
		if len(failed) == maxTopicsTold {
			return append(failed, "...")
		}
		failed = append(failed, topic.Name)
	}
	return failed
}
