package mirrorapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	createTimeoutMs = 15000
	configsTimeout  = 15 * time.Second
)

// createTopic creates a topic on the destination. Configs that the destination does not accept are left out, which is
// logged once, unless replication cannot do without them.
func (h *Handler) createTopic(ctx context.Context, name string, partitions int32, replicationFactor int16,
	configs map[string]string,
) error {
	try := func(configs map[string]string, validateOnly bool) error {
		return createTopicOnce(ctx, h.clusters.Destination(), name, partitions, replicationFactor, configs, validateOnly)
	}
	dropped, err := withoutRefused(configs, try)
	h.warnDropped(name, dropped)
	if err != nil {
		return fmt.Errorf("create topic %s on the destination: %w", name, err)
	}
	return nil
}

func createTopicOnce(ctx context.Context, client *kgo.Client, name string, partitions int32, replicationFactor int16,
	configs map[string]string, validateOnly bool,
) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic = name
	topic.NumPartitions = partitions
	topic.ReplicationFactor = replicationFactor
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name = key
		config.Value = kmsg.StringPtr(configs[key])
		topic.Configs = append(topic.Configs, config)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, topic)
	req.TimeoutMillis = createTimeoutMs
	req.ValidateOnly = validateOnly
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("the answer is about %d topics", len(resp.Topics))
	}
	return brokerError(resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage)
}

// alterTopic gives an existing destination topic the configs it is to have; those it has beyond them are removed, but for
// the excluded ones, which are its own. It returns when the leaders know: a record that is written before a leader has left
// LogAppendTime would lose its timestamp.
func (h *Handler) alterTopic(ctx context.Context, a *addition, exclude exclusion) error {
	name, have, wanted := a.name, a.have, a.wanted
	changes := map[string]string{}
	for key, value := range wanted {
		if current, ok := have[key]; !ok || current != value {
			changes[key] = value
		}
	}
	var removed []string
	for key := range have {
		if _, ok := wanted[key]; !ok && !exclude.excludes(key) {
			removed = append(removed, key)
		}
	}
	if len(changes) == 0 && len(removed) == 0 {
		return nil
	}
	slices.Sort(removed)
	a.restore = map[string]*string{}
	for _, key := range slices.AppendSeq(slices.Clone(removed), maps.Keys(changes)) {
		a.restore[key] = nil
		if value, ok := have[key]; ok {
			a.restore[key] = &value
		}
	}
	dropped, err := withoutRefused(changes, func(changes map[string]string, validateOnly bool) error {
		return alterTopicOnce(ctx, h.clusters.Destination(), name, changes, removed, validateOnly)
	})
	h.warnDropped(name, dropped)
	if err != nil {
		return fmt.Errorf("alter the configs of topic %s on the destination: %w", name, err)
	}
	for key := range dropped {
		delete(changes, key)
	}
	return h.awaitConfigs(ctx, a, changes)
}

// awaitConfigs waits until each leader of the topic shows the configs.
func (h *Handler) awaitConfigs(ctx context.Context, a *addition, configs map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, configsTimeout)
	defer cancel()
	leaders := slices.Clone(a.destination.leaders)
	slices.Sort(leaders)
	for _, leader := range slices.Compact(leaders) {
		for {
			found, err := readTopicConfigs(ctx, h.clusters.Destination().Broker(int(leader)), []string{a.name})
			if err == nil {
				err = found[a.name].lack(configs)
			}
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("topic %s: wait until broker %d has its new configs: %w", a.name, leader, err)
			case <-time.After(createdPause):
			}
		}
	}
	return nil
}

func alterTopicOnce(ctx context.Context, client *kgo.Client, name string, set map[string]string, removed []string,
	validateOnly bool,
) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType = kmsg.ConfigResourceTypeTopic
	resource.ResourceName = name
	add := func(key string, op kmsg.IncrementalAlterConfigOp, value *string) {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Op, config.Value = key, op, value
		resource.Configs = append(resource.Configs, config)
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		add(key, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(set[key]))
	}
	for _, key := range removed {
		add(key, kmsg.IncrementalAlterConfigOpDelete, nil)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, resource)
	req.ValidateOnly = validateOnly
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if len(resp.Resources) != 1 {
		return fmt.Errorf("the answer is about %d resources", len(resp.Resources))
	}
	return brokerError(resp.Resources[0].ErrorCode, resp.Resources[0].ErrorMessage)
}

func (h *Handler) warnDropped(topic string, dropped map[string]error) {
	if len(dropped) == 0 {
		return
	}
	reasons := make([]string, 0, len(dropped))
	for _, key := range slices.Sorted(maps.Keys(dropped)) {
		reasons = append(reasons, key+": "+dropped[key].Error())
	}
	h.log.Warn().Str("topic", topic).Strs("configs", reasons).
		Msg("the destination does not accept some topic configs of the source; the topic does without them")
}

// withoutRefused tries configs, and while the answer is INVALID_CONFIG tries again without the keys that are to blame.
// It returns those, with the error that each caused.
func withoutRefused(configs map[string]string, try func(configs map[string]string, validateOnly bool) error) (
	dropped map[string]error, err error,
) {
	configs = maps.Clone(configs)
	dropped = map[string]error{}
	for {
		err = try(configs, false)
		if !errors.Is(err, kerr.InvalidConfig) {
			return dropped, err
		}
		blamed := blame(configs, err, try)
		if len(blamed) == 0 {
			return dropped, err
		}
		for key, reason := range blamed {
			if !isDispensable(key) {
				return dropped, err
			}
			delete(configs, key)
			dropped[key] = reason
		}
	}
}

// blame finds the keys that an INVALID_CONFIG is about: the one that the message names, else those that are refused when
// they are tried alone.
func blame(configs map[string]string, err error, try func(map[string]string, bool) error) map[string]error {
	var named []string
	for key := range configs {
		if namesKey(err.Error(), key) {
			named = append(named, key)
		}
	}
	if len(named) == 1 {
		return map[string]error{named[0]: err}
	}
	blamed := map[string]error{}
	for key, value := range configs {
		if err := try(map[string]string{key: value}, true); errors.Is(err, kerr.InvalidConfig) {
			blamed[key] = err
		}
	}
	return blamed
}

// namesKey tells whether message holds key as a word of its own: "retention.ms" is not in "delete.retention.ms".
func namesKey(message, key string) bool {
	partOfKey := func(c byte) bool {
		return c == '.' || c == '_' || c == '-' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z'
	}
	for from := 0; ; {
		i := strings.Index(message[from:], key)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(key)
		sentenceEnd := end < len(message) && message[end] == '.' && (end+1 == len(message) || message[end+1] == ' ')
		if (start == 0 || !partOfKey(message[start-1])) && (end == len(message) || sentenceEnd || !partOfKey(message[end])) {
			return true
		}
		from = start + 1
	}
}
