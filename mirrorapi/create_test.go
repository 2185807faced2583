package mirrorapi

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

func TestCreateMirrorRefusals(t *testing.T) {
	const ok = "bootstrap.servers"
	for name, c := range map[string]struct {
		mirror  string
		configs []string
		code    mirrormsg.ErrorCode
		parts   []string
	}{
		"suffix paused":  {"m1.paused", []string{ok, "a:1"}, mirrormsg.InvalidMirrorName, []string{"Mirror name must not end with '.removed' or '.paused'"}},
		"suffix removed": {"m1.removed", []string{ok, "a:1"}, mirrormsg.InvalidMirrorName, []string{"Mirror name must not end with '.removed' or '.paused'"}},
		"illegal name":   {"a b", []string{ok, "a:1"}, mirrormsg.InvalidMirrorName, []string{`"a b"`}},
		"empty name":     {"", []string{ok, "a:1"}, mirrormsg.InvalidMirrorName, []string{"empty"}},
		"long name":      {strings.Repeat("a", 250), []string{ok, "a:1"}, mirrormsg.InvalidMirrorName, []string{"249"}},
		"no configs":     {"m1", nil, mirrormsg.InvalidConfig, []string{"bootstrap.servers"}},
		"no bootstrap":   {"m1", []string{"security.protocol", "SSL"}, mirrormsg.InvalidConfig, []string{"bootstrap.servers"}},
		"unknown key":    {"m1", []string{ok, "a:1", "foo.bar", "1"}, mirrormsg.InvalidConfig, []string{"Unknown mirror configuration: foo.bar"}},
		"status key":     {"m1", []string{ok, "a:1", "status.state", "ok"}, mirrormsg.InvalidConfig, []string{"status.state"}},
		"twice":          {"m1", []string{ok, "a:1", ok, "b:1"}, mirrormsg.InvalidRequest, []string{"bootstrap.servers is given twice"}},
		"bad bootstrap":  {"m1", []string{ok, "a:1,b"}, mirrormsg.InvalidConfig, []string{"bootstrap.servers", `"b" is not host:port`}},
		"port 0":         {"m1", []string{ok, "a:0"}, mirrormsg.InvalidConfig, []string{"bootstrap.servers"}},
		"bad enum":       {"m1", []string{ok, "a:1", "security.protocol", "ssl"}, mirrormsg.InvalidConfig, []string{"security.protocol", "SASL_SSL"}},
		"bad regex":      {"m1", []string{ok, "a:1", "mirror.groups.include", "a("}, mirrormsg.InvalidConfig, []string{"mirror.groups.include", "a("}},
		"Java regex":     {"m1", []string{ok, "a:1", "mirror.topic.properties.exclude", "a(?!b)"}, mirrormsg.InvalidConfig, []string{"negative lookahead"}},
		"bad rule":       {"m1", []string{ok, "a:1", "mirror.acl.include", "TOPIC;.*;FLY"}, mirrormsg.InvalidConfig, []string{"mirror.acl.include", `"FLY" is no operation`}},
		"long rule":      {"m1", []string{ok, "a:1", "mirror.acl.include", "*;*;*;*;*;*"}, mirrormsg.InvalidConfig, []string{"6 parts"}},
		"bad engine":     {"m1", []string{ok, "a:1", "mirror.engine", "warp"}, mirrormsg.InvalidConfig, []string{"mirror.engine", "produce"}},
		"later engine":   {"m1", []string{ok, "a:1", "mirror.engine", "replica"}, mirrormsg.InvalidConfig, []string{"mirror.engine", "not supported by this version"}},
		"bad number":     {"m1", []string{ok, "a:1", "mirror.produce.ambiguous.wait.ms", "-1"}, mirrormsg.InvalidConfig, []string{"mirror.produce.ambiguous.wait.ms"}},
		"bad boolean":    {"m1", []string{ok, "a:1", "mirror.raise-topic-limits", "yes"}, mirrormsg.InvalidConfig, []string{"mirror.raise-topic-limits"}},
		"secret":         {"m1", []string{ok, "a:1", "sasl.jaas.config", "password=hunter2"}, mirrormsg.InvalidConfig, []string{"sasl.jaas.config", "give the proxy a secret key", "${env:NAME}"}},
		"forged seal":    {"m1", []string{ok, "a:1", "sasl.jaas.config", "$sealed:1:AAAA"}, mirrormsg.InvalidConfig, []string{"sasl.jaas.config"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			resp := e.create(c.mirror, c.configs...)
			wantRefusal(t, &resp.Status, c.code, c.parts...)
			if strings.Contains(text(resp.ErrorMessage), "hunter2") || strings.Contains(e.log.String(), "hunter2") {
				t.Error("the secret is told")
			}
			if mirrors := e.store.View().Mirrors(); len(mirrors) != 0 {
				t.Errorf("mirror %s was created", mirrors[0].Name)
			}
		})
	}
}

func TestCreateMirror(t *testing.T) {
	e := newEnv(t, secretKey(testKey))
	resp := e.create("m1", "bootstrap.servers", "a:1, b:2", "sasl.jaas.config", "pass=hunter2", "fetch.min.bytes", "1",
		"ssl.truststore.password", "${env:TRUST}", "mirror.acl.include", "topic;a.*;READ;*;User:.*,*")
	wantStatus(t, &resp.Status, 0, "")
	if resp.ErrorMessage == nil {
		t.Error("the message of a success is null; the reference's is empty")
	}
	m, ok := e.store.View().Mirror("m1")
	if !ok {
		t.Fatal("the mirror does not exist")
	}
	if m.Configs["ssl.truststore.password"] != "${env:TRUST}" {
		t.Errorf("the reference is stored as %q", m.Configs["ssl.truststore.password"])
	}
	jaas := m.Configs["sasl.jaas.config"]
	box := e.h.secrets.(*SecretBox)
	if plain, err := box.Open(jaas); err != nil || plain != "pass=hunter2" {
		t.Errorf("the secret is stored as %q", jaas)
	}
	if e.clusters.checked["sasl.jaas.config"] != jaas {
		t.Error("the configs were not checked in the form that is stored")
	}

	t.Run("again with equal configs", func(t *testing.T) {
		resp := e.create("m1", "bootstrap.servers", "a:1, b:2", "sasl.jaas.config", "pass=hunter2", "fetch.min.bytes", "1",
			"ssl.truststore.password", "${env:TRUST}", "mirror.acl.include", "topic;a.*;READ;*;User:.*,*")
		wantStatus(t, &resp.Status, 0, "")
	})
	t.Run("again with others", func(t *testing.T) {
		resp := e.create("m1", "bootstrap.servers", "a:1")
		wantRefusal(t, &resp.Status, mirrormsg.InvalidRequest, "mirror m1 exists", "alter")
	})
	t.Run("null means default", func(t *testing.T) {
		req := &mirrormsg.CreateMirrorRequest{MirrorName: "m2", Config: []mirrormsg.MirrorConfig{
			{Name: "bootstrap.servers", Value: new("a:1")}, {Name: "mirror.groups.include"},
		}}
		resp := call[*mirrormsg.CreateMirrorResponse](e, bootstrapNode, req)
		wantStatus(t, &resp.Status, 0, "")
		if m, _ := e.store.View().Mirror("m2"); len(m.Configs) != 1 {
			t.Errorf("configs are %v", m.Configs)
		}
	})
	t.Run("a config that no client can be made from", func(t *testing.T) {
		e.clusters.checkErr = errors.New("ssl.keystore.type: JKS is not supported")
		defer func() { e.clusters.checkErr = nil }()
		resp := e.create("m3", "bootstrap.servers", "a:1")
		wantRefusal(t, &resp.Status, mirrormsg.InvalidConfig, "ssl.keystore.type: JKS is not supported")
	})
}

func TestCreateMirrorNeedsNoSource(t *testing.T) {
	e := newEnv(t)
	e.clusters.sourceErr = errDown
	wantStatus(t, &e.create("m1", "bootstrap.servers", "nowhere.invalid:1").Status, 0, "")
}

// A reference is looked up when a connection is made: until it leads somewhere, the mirror is there and says what it lacks.
func TestCreateMirrorWithAReferenceThatLeadsNowhere(t *testing.T) {
	e := newEnv(t)
	e.clusters.sourceErr = errors.New("sasl.jaas.config: environment variable JAAS is not set")
	wantStatus(t, &e.create("m1", "bootstrap.servers", "a:1", "sasl.jaas.config", "${env:JAAS}").Status, 0, "")
	if got := entries(e.describe("m1", statusState)); !slices.Equal(got, []string{"status.state=source: " + e.clusters.sourceErr.Error() + " R"}) {
		t.Errorf("configs: %v", got)
	}
	if got := e.describeMirrors(bootstrapNode, true).Mirrors[0].Ext.LastError; got != e.clusters.sourceErr.Error() {
		t.Errorf("mirror: %q", got)
	}
	e.clusters.sourceErr = nil
	if got := entries(e.describe("m1", statusState)); !slices.Equal(got, []string{"status.state=ok R"}) {
		t.Errorf("configs: %v", got)
	}
}

func TestDeleteMirror(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	del := func(name string) *mirrormsg.DeleteMirrorResponse {
		return call[*mirrormsg.DeleteMirrorResponse](e, bootstrapNode, &mirrormsg.DeleteMirrorRequest{MirrorName: name, StateValidationOffset: -1})
	}
	wantRefusal(t, &del("m1").Status, mirrormsg.UnknownMirror, `"m1"`)
	e.mirror("m1")
	topic := e.mustAdd("m1", "orders")[0]
	wantRefusal(t, &del("m1").Status, mirrormsg.InvalidRequest, "orders")
	e.topics(mirrormsg.RemoveTopicsFromMirror, "m1", nil, "orders")
	wantRefusal(t, &del("m1").Status, mirrormsg.InvalidRequest, "orders")
	e.move(topic, 0, stopping...)
	wantStatus(t, &del("m1").Status, 0, "")
	if _, ok := e.store.View().Mirror("m1"); ok {
		t.Error("the mirror still exists")
	}
}

// A topic of a deleted mirror stays known, because of the filler in it, until it is gone on the destination.
func TestDeleteMirrorForgetsTopicsThatAreGone(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"stays": 1, "gone": 1, "recreated": 1}))
	del := func(name string) {
		t.Helper()
		resp := call[*mirrormsg.DeleteMirrorResponse](e, bootstrapNode, &mirrormsg.DeleteMirrorRequest{MirrorName: name, StateValidationOffset: -1})
		wantStatus(t, &resp.Status, 0, "")
	}
	e.mirror("m1")
	topics := e.mustAdd("m1", "stays", "gone", "recreated")
	e.topics(mirrormsg.RemoveTopicsFromMirror, "m1", nil, "stays", "gone", "recreated")
	for _, topic := range topics {
		e.move(topic, 0, stopping...)
	}
	del("m1")
	if former := e.store.View().Former(); len(former) != 3 {
		t.Fatalf("remembered: %v", former)
	}
	admin := kadm.NewClient(e.destinationClient)
	if _, err := admin.DeleteTopics(t.Context(), "gone", "recreated"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "recreated"); err != nil {
		t.Fatal(err)
	}
	e.mirror("m2")
	del("m2")
	want := map[state.TopicID]string{topics[0].ID: "stays"}
	if former := e.store.View().Former(); !maps.Equal(former, want) {
		t.Errorf("remembered: %v, want %v", former, want)
	}
}
