package protocol

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// splitDescribeConfigs sends mirrors (type 64) to the LocalHandler and adds mirror.name to the configs of mirrored topics,
// which the broker does not know of.
func splitDescribeConfigs(version int16, body []byte, p AdminPolicy) (AdminSplit, error) {
	request := kmsg.NewPtrDescribeConfigsRequest()
	if err := decodeCopy(version, body, request); err != nil {
		return AdminSplit{}, err
	}
	var resources []resource
	var verdicts []verdict
	mirrorNames := make(map[string]string) // by topic, where the entry is asked for
	for _, r := range request.Resources {
		resources = append(resources, resource{r.ResourceType, r.ResourceName})
		verdicts = append(verdicts, verdict{local: r.ResourceType == resourceMirror})
		if r.ResourceType != resourceTopic || r.ConfigNames != nil && !slices.Contains(r.ConfigNames, mirrorNameConfig) {
			continue
		}
		if mirror, ok := p.MirrorName(r.ResourceName); ok {
			mirrorNames[r.ResourceName] = mirror
		}
	}
	everything := allUpstream(verdicts)
	if everything && len(mirrorNames) == 0 {
		return AdminSplit{}, nil
	}
	s, all := AdminSplit{Upstream: body, UpstreamVersion: version}, request.Resources
	if !everything {
		s.Upstream = nil
		if request.Resources = part(all, verdicts, isUpstream); len(request.Resources) > 0 {
			s.Upstream = encode(request, len(body))
		}
		request.Resources = part(all, verdicts, isLocal)
		s.Local = encode(request, len(body))
	}
	synonyms := request.IncludeSynonyms
	s.Merge = func(upstreamBody, localBody []byte) ([]byte, error) {
		r, local := kmsg.NewPtrDescribeConfigsResponse(), kmsg.NewPtrDescribeConfigsResponse()
		if err := decodeAnswer(version, upstreamBody, r); err != nil {
			return nil, err
		}
		if err := decodeAnswer(version, localBody, local); err != nil {
			return nil, err
		}
		for i := range r.Resources {
			row := &r.Resources[i]
			if mirror, ok := mirrorNames[row.ResourceName]; ok && row.ResourceType == resourceTopic && row.ErrorCode == CodeNone {
				row.Configs = append(row.Configs, mirrorNameEntry(mirror, synonyms))
			}
		}
		r.ThrottleMillis = max(r.ThrottleMillis, local.ThrottleMillis)
		r.Resources = inRequestOrder(resources, verdicts, append(r.Resources, local.Resources...),
			func(row *kmsg.DescribeConfigsResponseResource) resource {
				return resource{row.ResourceType, row.ResourceName}
			},
			nil) // no describe is refused
		return encode(r, len(upstreamBody)+len(localBody)), nil
	}
	return s, nil
}

// mirrorNameEntry is the config as the reference's broker shows it, but read-only.
func mirrorNameEntry(mirror string, synonyms bool) kmsg.DescribeConfigsResponseResourceConfig {
	entry := kmsg.NewDescribeConfigsResponseResourceConfig()
	entry.Name, entry.Value, entry.ReadOnly = mirrorNameConfig, &mirror, true
	entry.Source, entry.ConfigType = kmsg.ConfigSourceDynamicTopicConfig, kmsg.ConfigTypeString
	if synonyms {
		synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		synonym.Name, synonym.Value, synonym.Source = entry.Name, entry.Value, entry.Source
		entry.ConfigSynonyms = append(entry.ConfigSynonyms, synonym)
	}
	return entry
}
