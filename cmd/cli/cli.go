// Package cli is the kafka-mirrors tool: KIP-1279's command line, spoken to a
// kafka-mirror-proxy. Flags, output lines, tables and exit codes are those of
// the KIP (wire.md section 5), with --delete, --output json, and reasons on
// standard error beside them. It talks to the proxy only and never needs the
// source's secrets.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

// Env is what the tool needs of the world.
type Env struct {
	Out, Err io.Writer
	Version  string
	ReadFile func(string) ([]byte, error)
	// ClientOptions turns Kafka client configs (--command-config) into options of the connection.
	ClientOptions func(map[string]string) ([]kgo.Opt, error)
}

// Run runs the tool and returns its exit code: 0 when everything asked for was done, 1 otherwise.
func Run(ctx context.Context, args []string, env Env) int {
	err := run(ctx, args, env)
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errVersion):
		fmt.Fprintln(env.Out, env.Version)
		return 0
	case errors.As(err, &usage) && usage.text == "":
		return 1 // the help was printed
	}
	fmt.Fprintln(env.Err, err)
	return 1
}

func run(ctx context.Context, args []string, env Env) error {
	o, err := parse(args, env.Err)
	if err != nil {
		return err
	}
	c, err := newClient(ctx, env, o)
	if err != nil {
		return err
	}
	defer c.kafka.Close()
	switch o.action {
	case create:
		return c.create(ctx, env, o)
	case alter:
		return c.alter(ctx, env, o)
	case deleteIt:
		return c.delete(ctx, env, o)
	case list:
		return c.list(ctx, env, o)
	case describe:
		return c.describe(ctx, env, o)
	default:
		return c.topics(ctx, env, o)
	}
}

func (c *client) create(ctx context.Context, env Env, o *options) error {
	configs, err := readProperties(o.mirrorConfig, env.ReadFile)
	if err != nil {
		return err
	}
	req := &mirrormsg.CreateMirrorRequest{MirrorName: o.mirror, Marker: extended()}
	for _, name := range sortedKeys(configs) {
		value := configs[name]
		req.Config = append(req.Config, mirrormsg.MirrorConfig{Name: name, Value: &value})
	}
	if _, err := call[*mirrormsg.CreateMirrorResponse](ctx, c, c.kafka, req); err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "Created mirror %s\n", o.mirror)
	return nil
}

func (c *client) alter(ctx context.Context, env Env, o *options) error {
	configs, err := readProperties(o.mirrorConfig, env.ReadFile)
	if err != nil {
		return err
	}
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType = kmsg.ConfigResourceType(c.dialect.ConfigResourceType)
	resource.ResourceName = o.mirror
	for _, name := range sortedKeys(configs) {
		value := configs[name]
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Op, config.Value = name, kmsg.IncrementalAlterConfigOpSet, &value
		resource.Configs = append(resource.Configs, config)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, resource)
	// By way of one broker: kgo would take the request to the controller, and any broker of the proxy can answer it.
	response, err := req.RequestWith(ctx, c.kafka.SeedBrokers()[0])
	if err != nil {
		return fmt.Errorf("alter mirror %s at %s: %w", o.mirror, c.servers, err)
	}
	for _, r := range response.Resources {
		if r.ErrorCode != 0 {
			return statusError(&mirrormsg.Status{ErrorCode: mirrormsg.ErrorCode(r.ErrorCode), ErrorMessage: r.ErrorMessage})
		}
	}
	fmt.Fprintf(env.Out, "Altered mirror %s\n", o.mirror)
	return nil
}

func (c *client) delete(ctx context.Context, env Env, o *options) error {
	req := &mirrormsg.DeleteMirrorRequest{MirrorName: o.mirror, StateValidationOffset: mirrormsg.NoStateValidation, Marker: extended()}
	if _, err := call[*mirrormsg.DeleteMirrorResponse](ctx, c, c.kafka, req); err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "Deleted mirror %s\n", o.mirror)
	return nil
}

// verbs are the words of the four topic actions.
var verbs = map[action]struct {
	api  mirrormsg.API
	verb string // for reasons: Failed to <verb> topic t
	done func(n int, mirror string, topics string) string
}{
	add: {mirrormsg.AddTopicsToMirror, "add", func(n int, m, t string) string {
		return fmt.Sprintf("Added %d topic(s) to mirror %s: [%s]", n, m, t)
	}},
	remove: {mirrormsg.RemoveTopicsFromMirror, "remove", func(n int, m, t string) string {
		return fmt.Sprintf("Removed %d topic(s) from mirror %s: [%s]", n, m, t)
	}},
	pause: {mirrormsg.PauseMirrorTopics, "pause", func(n int, _, t string) string {
		return fmt.Sprintf("Paused mirroring for %d topic(s): [%s]", n, t)
	}},
	resume: {mirrormsg.ResumeMirrorTopics, "resume", func(n int, _, t string) string {
		return fmt.Sprintf("Resumed mirroring for %d topic(s): [%s]", n, t)
	}},
}

// topics adds, removes, pauses or resumes what --topic matches: the proxy resolves the regular expression, on the
// source's topics for an add and on the mirror's own otherwise.
func (c *client) topics(ctx context.Context, env Env, o *options) error {
	v := verbs[o.action]
	req := &mirrormsg.TopicsRequest{Op: v.api, MirrorName: o.mirror, Patterns: []string{o.topic}, ReplicationFactor: o.replicationFactor, Marker: extended()}
	response, err := call[*mirrormsg.TopicsResponse](ctx, c, c.kafka, req)
	var refused *serverError
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	var done, failed []string
	for _, t := range response.Topics {
		if t.ErrorCode == mirrormsg.NoError {
			done = append(done, t.Name)
			continue
		}
		reason := statusError(&mirrormsg.Status{ErrorCode: t.ErrorCode, ErrorMessage: t.ErrorMessage})
		fmt.Fprintf(env.Err, "Failed to %s topic %s: %v\n", v.verb, t.Name, reason)
		failed = append(failed, t.Name)
	}
	if len(done) > 0 {
		fmt.Fprintln(env.Out, v.done(len(done), o.mirror, strings.Join(done, ", ")))
	}
	switch {
	case len(failed) > 0:
		return fmt.Errorf("%d of %d topic(s) failed", len(failed), len(failed)+len(done))
	case refused != nil && refused.code == mirrormsg.UnknownMirror:
		return fmt.Errorf("Mirror '%s' not found or has no configuration", o.mirror) //nolint:staticcheck // the reference's words
	case refused != nil:
		return refused
	case len(done) == 0:
		return fmt.Errorf("No topics matching pattern '%s' found", o.topic) //nolint:staticcheck // the reference's words
	}
	return nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
