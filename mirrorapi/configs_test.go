package mirrorapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

const mirrorResource = kmsg.ConfigResourceType(64)

func (e *env) describe(name string, keys ...string) kmsg.DescribeConfigsResponseResource {
	e.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = mirrorResource, name, keys
	req.Resources = append(req.Resources, resource)
	resp := kmsg.NewPtrDescribeConfigsResponse()
	resp.Version = 4
	if err := resp.ReadFrom(e.raw(req.Key(), 4, req.AppendTo(nil), bootstrapNode)); err != nil {
		e.t.Fatal(err)
	}
	return resp.Resources[0]
}

// entries shows the entries of a resource, one a line: name, value, R for read-only, S for sensitive.
func entries(r kmsg.DescribeConfigsResponseResource) []string {
	var lines []string
	for _, c := range r.Configs {
		line := c.Name + "=" + text(c.Value)
		if c.Value == nil {
			line = c.Name + " null"
		}
		if c.ReadOnly {
			line += " R"
		}
		if c.IsSensitive {
			line += " S"
		}
		if c.Source != kmsg.ConfigSourceDynamicBrokerConfig || c.ConfigType != kmsg.ConfigTypeString {
			line += fmt.Sprintf(" source %d type %d", c.Source, c.ConfigType)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestDescribeConfigs(t *testing.T) {
	e := newEnv(t, secretKey(testKey), sourceTopics(map[string]int32{"orders": 1}))
	e.create("m1", "bootstrap.servers", "a:1", "sasl.jaas.config", "hunter2", "fetch.min.bytes", "1", "mirror.topics.include", "x.*")

	want := []string{
		"bootstrap.servers=a:1", "fetch.min.bytes=1", "mirror.topics.include=x.*", "sasl.jaas.config null S",
		"status.state=ok R", "status.ignored=fetch.min.bytes,mirror.topics.include R",
	}
	if got := entries(e.describe("m1")); !slices.Equal(got, want) {
		t.Errorf("entries:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := entries(e.describe("m1", "status.state", "bootstrap.servers", "no.such.key")); !slices.Equal(got,
		[]string{"bootstrap.servers=a:1", "status.state=ok R"}) {
		t.Errorf("filtered entries: %v", got)
	}
	if r := e.describe("nope"); r.ErrorCode != 0 || len(r.Configs) != 0 {
		t.Errorf("an unknown mirror: %d, %v", r.ErrorCode, entries(r))
	}
	if r := e.describe(""); r.ErrorCode != 42 || text(r.ErrorMessage) != "Cluster name must not be empty" {
		t.Errorf("no name: %d %q", r.ErrorCode, text(r.ErrorMessage))
	}
}

func TestDescribeConfigsShowsTheCondition(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	topic := e.mustAdd("m1", "orders")[0]
	if got := entries(e.describe("m1", statusState, statusError, statusSourceClusterID)); !slices.Equal(got,
		[]string{"status.state=ok R", "status.source.cluster.id=" + sourceID + " R"}) {
		t.Errorf("a healthy mirror: %v", got)
	}
	e.do(state.MovePartition{Partition: state.PartitionID{Topic: topic.ID}, To: state.Failed, LastMirroredOffset: -1, Error: "gone"})
	if got := entries(e.describe("m1", statusState)); !slices.Equal(got, []string{"status.state=failed topics: orders R"}) {
		t.Errorf("a failed topic: %v", got)
	}
	e.live.SetMirrorError("m1", "connection refused")
	if got := entries(e.describe("m1", statusState, statusError)); !slices.Equal(got,
		[]string{"status.state=source: connection refused R", "status.error=connection refused R"}) {
		t.Errorf("a source that is down: %v", got)
	}
}

type op struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value string // "null" for null
}

const (
	set      = kmsg.IncrementalAlterConfigOpSet
	remove   = kmsg.IncrementalAlterConfigOpDelete
	appendOp = kmsg.IncrementalAlterConfigOpAppend
	subtract = kmsg.IncrementalAlterConfigOpSubtract
)

func (e *env) alter(name string, validateOnly bool, ops ...op) *mirrormsg.Status {
	e.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly = 1, validateOnly
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = mirrorResource, name
	for _, o := range ops {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op = o.name, o.op
		if o.value != "null" {
			c.Value = &o.value
		}
		resource.Configs = append(resource.Configs, c)
	}
	req.Resources = append(req.Resources, resource)
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	resp.Version = 1
	if err := resp.ReadFrom(e.raw(req.Key(), 1, req.AppendTo(nil), bootstrapNode)); err != nil {
		e.t.Fatal(err)
	}
	r := resp.Resources[0]
	return &mirrormsg.Status{ErrorCode: mirrormsg.ErrorCode(r.ErrorCode), ErrorMessage: r.ErrorMessage}
}

func TestAlterConfigs(t *testing.T) {
	e := newEnv(t, secretKey(testKey))
	e.create("m1", "bootstrap.servers", "a:1", "client.id", "x", "sasl.jaas.config", "one")
	configs := func() map[string]string {
		m, _ := e.store.View().Mirror("m1")
		return m.Configs
	}
	revision := func() int64 {
		m, _ := e.store.View().Mirror("m1")
		return m.Revision
	}
	sealed := configs()["sasl.jaas.config"]

	before := revision()
	wantStatus(t, e.alter("m1", false, op{"bootstrap.servers", set, "b:2"}, op{"client.id", remove, "null"},
		op{"mirror.groups.include", appendOp, "g1,g2"}), 0, "")
	if c := configs(); c["bootstrap.servers"] != "b:2" || c["client.id"] != "" || c["mirror.groups.include"] != ".*,g1,g2" ||
		c["sasl.jaas.config"] != sealed {
		t.Errorf("configs are %v", c)
	}
	if revision() == before {
		t.Error("the revision did not grow")
	}
	wantStatus(t, e.alter("m1", false, op{"mirror.groups.include", subtract, ".*,g2"}), 0, "")
	if c := configs(); c["mirror.groups.include"] != "g1" {
		t.Errorf("after SUBTRACT: %q", c["mirror.groups.include"])
	}
	before = revision()
	wantStatus(t, e.alter("m1", true, op{"bootstrap.servers", set, "c:3"}), 0, "")
	wantStatus(t, e.alter("m1", false, op{"bootstrap.servers", set, "b:2"}), 0, "")
	if c := configs(); c["bootstrap.servers"] != "b:2" || revision() != before {
		t.Error("a validation, or an alteration that changes nothing, changed the mirror")
	}

	for name, c := range map[string]struct {
		mirror string
		ops    []op
		code   mirrormsg.ErrorCode
		text   string
	}{
		"unknown key":      {"m1", []op{{"foo", set, "1"}}, mirrormsg.InvalidConfig, "Unknown mirror configuration: foo"},
		"status":           {"m1", []op{{"status.state", set, "1"}}, mirrormsg.InvalidConfig, "Unknown mirror configuration: status.state"},
		"null":             {"m1", []op{{"client.id", set, "null"}, {"client.rack", set, "null"}}, mirrormsg.InvalidRequest, "Null value not supported for : client.id, client.rack"},
		"unknown mirror":   {"m2", []op{{"client.id", set, "1"}}, mirrormsg.UnknownMirror, `mirror "m2" does not exist`},
		"empty name":       {"", []op{{"client.id", set, "1"}}, mirrormsg.InvalidRequest, "Cluster name must not be empty"},
		"append to string": {"m1", []op{{"client.id", appendOp, "1"}}, mirrormsg.InvalidConfig, "Can't APPEND config client.id because its type is not LIST"},
		"twice":            {"m1", []op{{"client.id", set, "1"}, {"client.id", set, "2"}}, mirrormsg.InvalidRequest, "config client.id is given twice"},
		"no operation":     {"m1", []op{{"client.id", 9, "1"}}, mirrormsg.InvalidRequest, "operation 9 on config client.id does not exist"},
		"long value":       {"m1", []op{{"client.id", set, strings.Repeat("a", 32768)}}, mirrormsg.InvalidConfig, "Invalid value for mirror configuration client.id: its value has 32768 bytes, more than 32767"},
		"no bootstrap":     {"m1", []op{{"bootstrap.servers", remove, "null"}}, mirrormsg.InvalidConfig, "Missing required config bootstrap.servers: where the source cluster is reached"},
		"bad value":        {"m1", []op{{"security.protocol", set, "TLS"}}, mirrormsg.InvalidConfig, `Invalid value for mirror configuration security.protocol: "TLS" is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL`},
	} {
		t.Run(name, func(t *testing.T) { wantStatus(t, e.alter(c.mirror, false, c.ops...), c.code, c.text) })
	}
}

func TestEngineChangesOnlyWhileStopped(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	topic := e.mustAdd("m1", "orders")[0]
	wantRefusal(t, e.alter("m1", false, op{"mirror.engine", set, "produce"}), mirrormsg.InvalidRequest, "mirror.engine", "orders")
	wantStatus(t, e.alter("m1", false, op{"mirror.gap.policy", set, "fail"}), 0, "")
	e.topics(mirrormsg.RemoveTopicsFromMirror, "m1", nil, "orders")
	e.move(topic, 0, stopping...)
	wantStatus(t, e.alter("m1", false, op{"mirror.engine", set, "produce"}), 0, "")
}

func TestConfigTables(t *testing.T) {
	for key := range clientConfigs {
		if _, twice := mirrorConfigs[key]; twice {
			t.Errorf("%s is in both tables", key)
		}
	}
	h := newEnv(t).h
	for key, spec := range mirrorConfigs {
		if spec.fallback == "" {
			continue
		}
		if err := h.checkValue(spec, spec.fallback); err != nil {
			t.Errorf("the default of %s: %v", key, err)
		}
	}
	for _, key := range []string{"sasl.jaas.config", "ssl.keystore.password", "ssl.key.password", "ssl.keystore.key",
		"ssl.keystore.certificate.chain", "ssl.truststore.password", "ssl.truststore.certificates"} {
		if !isSecret(key) {
			t.Errorf("%s is not a secret", key)
		}
	}
}
