package protocol

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// resource names what a config request is about.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

// verdict is what happens to one resource of a config request.
type verdict struct {
	local   bool  // for the LocalHandler
	code    int16 // other than 0: refused here
	message string
}

func (v verdict) upstream() bool { return !v.local && v.code == CodeNone }

// judgeIncrementalAlter judges one resource of an IncrementalAlterConfigs request.
func judgeIncrementalAlter(r resource, keys []string, p AdminPolicy) verdict {
	if r.kind == resourceMirror {
		return verdict{local: true}
	}
	if v := judgeTopicConfigs(r, keys, p); r.kind != resourceTopic || !v.upstream() {
		return v
	}
	for _, key := range keys {
		if !p.OwnedConfig(key) {
			continue
		}
		if mirror, ok := p.ReadOnlyTopic(r.name); ok {
			return verdict{code: CodePolicyViolation,
				message: "Config " + key + " belongs to mirror " + mirror + " while topic " + r.name + " is mirrored."}
		}
	}
	return verdict{}
}

// judgeAlter judges one resource of an AlterConfigs request, the older API, which removes whatever it does not name and which
// the reference does not offer for mirrors.
func judgeAlter(r resource, keys []string, p AdminPolicy) verdict {
	if r.kind == resourceMirror {
		return verdict{code: CodeInvalidRequest, message: "Unknown resource type 64"}
	}
	if v := judgeTopicConfigs(r, keys, p); r.kind != resourceTopic || !v.upstream() {
		return v
	}
	if mirror, ok := p.ReadOnlyTopic(r.name); ok {
		return verdict{code: CodePolicyViolation, message: "AlterConfigs replaces all configs, of which some belong to mirror " +
			mirror + " while topic " + r.name + " is mirrored; use IncrementalAlterConfigs."}
	}
	return verdict{}
}

// judgeTopicConfigs refuses what no alter request may do, of whatever topic.
func judgeTopicConfigs(r resource, keys []string, p AdminPolicy) verdict {
	switch {
	case r.kind != resourceTopic:
	case p.StateTopic([]byte(r.name)):
		return verdict{code: CodeTopicAuthorizationFailed, message: MessageStateTopic}
	case slices.Contains(keys, mirrorNameConfig):
		return verdict{code: CodeInvalidRequest, message: MessageMirrorNameConfig}
	}
	return verdict{}
}

// inRequestOrder puts the rows of the partial answers into the order of the request: for each resource the first row about
// it that was not used yet, or the refusal. Rows that the request did not ask for come last.
func inRequestOrder[R any](resources []resource, verdicts []verdict, rows []R, about func(*R) resource, refusal func(resource, verdict) R) []R {
	waiting := make(map[resource][]int, len(rows))
	for i := range rows {
		r := about(&rows[i])
		waiting[r] = append(waiting[r], i)
	}
	ordered, used := make([]R, 0, len(resources)), make([]bool, len(rows))
	for i, r := range resources {
		if verdicts[i].code != CodeNone {
			ordered = append(ordered, refusal(r, verdicts[i]))
			continue
		}
		if w := waiting[r]; len(w) > 0 {
			ordered, used[w[0]] = append(ordered, rows[w[0]]), true
			waiting[r] = w[1:]
		}
	}
	for i := range rows {
		if !used[i] {
			ordered = append(ordered, rows[i])
		}
	}
	return ordered
}

// part returns the entries of all whose verdict is wanted.
func part[T any](all []T, verdicts []verdict, wanted func(verdict) bool) (out []T) {
	for i := range all {
		if wanted(verdicts[i]) {
			out = append(out, all[i])
		}
	}
	return out
}

// allUpstream: nothing of the request concerns the proxy.
func allUpstream(verdicts []verdict) bool {
	for _, v := range verdicts {
		if !v.upstream() {
			return false
		}
	}
	return true
}

func keysOf[C any](configs []C, key func(*C) string) []string {
	keys := make([]string, len(configs))
	for i := range configs {
		keys[i] = key(&configs[i])
	}
	return keys
}

func isLocal(v verdict) bool    { return v.local }
func isUpstream(v verdict) bool { return v.upstream() }

func splitIncrementalAlterConfigs(version int16, body []byte, p AdminPolicy) (AdminSplit, error) {
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	if err := decodeCopy(version, body, request); err != nil {
		return AdminSplit{}, err
	}
	resources, verdicts := make([]resource, len(request.Resources)), make([]verdict, len(request.Resources))
	for i, r := range request.Resources {
		keys := keysOf(r.Configs, func(c *kmsg.IncrementalAlterConfigsRequestResourceConfig) string { return c.Name })
		resources[i] = resource{r.ResourceType, r.ResourceName}
		verdicts[i] = judgeIncrementalAlter(resources[i], keys, p)
	}
	if allUpstream(verdicts) {
		return AdminSplit{}, nil
	}
	s, all := AdminSplit{UpstreamVersion: version}, request.Resources
	if request.Resources = part(all, verdicts, isUpstream); len(request.Resources) > 0 {
		s.Upstream = encode(request, len(body))
	}
	if request.Resources = part(all, verdicts, isLocal); len(request.Resources) > 0 {
		s.Local = encode(request, len(body))
	}
	s.Merge = func(upstreamBody, localBody []byte) ([]byte, error) {
		r, local := kmsg.NewPtrIncrementalAlterConfigsResponse(), kmsg.NewPtrIncrementalAlterConfigsResponse()
		if err := decodeAnswer(version, upstreamBody, r); err != nil {
			return nil, err
		}
		if err := decodeAnswer(version, localBody, local); err != nil {
			return nil, err
		}
		r.ThrottleMillis = max(r.ThrottleMillis, local.ThrottleMillis)
		r.Resources = inRequestOrder(resources, verdicts, append(r.Resources, local.Resources...),
			func(row *kmsg.IncrementalAlterConfigsResponseResource) resource {
				return resource{row.ResourceType, row.ResourceName}
			},
			func(about resource, v verdict) kmsg.IncrementalAlterConfigsResponseResource {
				row := kmsg.NewIncrementalAlterConfigsResponseResource()
				row.ResourceType, row.ResourceName = about.kind, about.name
				row.ErrorCode, row.ErrorMessage = v.code, text(v.message)
				return row
			})
		return encode(r, len(upstreamBody)+len(localBody)), nil
	}
	return s, nil
}

func splitAlterConfigs(version int16, body []byte, p AdminPolicy) (AdminSplit, error) {
	request := kmsg.NewPtrAlterConfigsRequest()
	if err := decodeCopy(version, body, request); err != nil {
		return AdminSplit{}, err
	}
	resources, verdicts := make([]resource, len(request.Resources)), make([]verdict, len(request.Resources))
	for i, r := range request.Resources {
		keys := keysOf(r.Configs, func(c *kmsg.AlterConfigsRequestResourceConfig) string { return c.Name })
		resources[i] = resource{r.ResourceType, r.ResourceName}
		verdicts[i] = judgeAlter(resources[i], keys, p)
	}
	if allUpstream(verdicts) {
		return AdminSplit{}, nil
	}
	s := AdminSplit{UpstreamVersion: version}
	if request.Resources = part(request.Resources, verdicts, isUpstream); len(request.Resources) > 0 {
		s.Upstream = encode(request, len(body))
	}
	s.Merge = merge(version, kmsg.NewPtrAlterConfigsResponse, func(r *kmsg.AlterConfigsResponse) {
		r.Resources = inRequestOrder(resources, verdicts, r.Resources,
			func(row *kmsg.AlterConfigsResponseResource) resource {
				return resource{row.ResourceType, row.ResourceName}
			},
			func(about resource, v verdict) kmsg.AlterConfigsResponseResource {
				row := kmsg.NewAlterConfigsResponseResource()
				row.ResourceType, row.ResourceName = about.kind, about.name
				row.ErrorCode, row.ErrorMessage = v.code, text(v.message)
				return row
			})
	})
	return s, nil
}
