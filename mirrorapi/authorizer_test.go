package mirrorapi

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

func TestADestinationWithAnAuthorizerIsRefused(t *testing.T) {
	e := newEnv(t, withAuthorizer())
	for _, row := range mirrormsg.Seed.Keys {
		req := mirrormsg.NewRequest(row.API)
		resp := req.NewResponse()
		if err := resp.ReadFrom(e.raw(row.Key, 0, req.AppendTo(nil), 0)); err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, resp.TopLevel(), mirrormsg.ClusterAuthorizationFailed, "has an authorizer")
	}
	if r := e.describe("m1"); r.ErrorCode != 31 {
		t.Errorf("DescribeConfigs: %d", r.ErrorCode)
	}
	wantRefusal(t, e.alter("m1", false, op{"client.id", set, "x"}), mirrormsg.ClusterAuthorizationFailed)
	if c := e.findCoordinators(7, 3, "m:AQIDBAUGBwgJCgsMDQ4PEA:3").Coordinators[0]; c.ErrorCode != 31 {
		t.Errorf("FindCoordinator: %d", c.ErrorCode)
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: 1, ReplicationFactor: 1}}
	if topic := e.createTopicsV8(create, &mirrormsg.MirrorInfo{TopicID: [16]byte{1}})[0]; topic.ErrorCode != 31 {
		t.Errorf("CreateTopics: %d", topic.ErrorCode)
	}
	if e.destination.TopicInfo("t") != nil {
		t.Error("the topic was created")
	}
}

// Not knowing is not a permission, and hardly kept; a finding is, for a minute.
func TestAuthorizerFinding(t *testing.T) {
	e := newEnv(t, withAuthorizer())
	code, asked := kerr.UnknownServerError.Code, 0
	e.destination.ControlKey(int16(kmsg.DescribeACLs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		e.destination.KeepControl()
		asked++
		resp := req.ResponseKind().(*kmsg.DescribeACLsResponse)
		resp.ErrorCode = code
		return resp, nil, true
	})
	list := func() *mirrormsg.Status {
		return &call[*mirrormsg.ListMirrorsResponse](e, 0, &mirrormsg.ListMirrorsRequest{}).Status
	}
	wantRefusal(t, list(), mirrormsg.CoordinatorNotAvailable, "could not be found out")
	code = kerr.SecurityDisabled.Code
	e.nowMs.Add(authorizerFailureValid.Milliseconds())
	wantStatus(t, list(), 0, "")
	code = kerr.ClusterAuthorizationFailed.Code
	before := asked
	wantStatus(t, list(), 0, "")
	if asked != before {
		t.Error("the destination was asked again within a minute")
	}
	e.nowMs.Add(authorizerFindingValid.Milliseconds())
	wantRefusal(t, list(), mirrormsg.ClusterAuthorizationFailed)
}

func TestRequestsThatAreNotOurs(t *testing.T) {
	e := newEnv(t)
	list := (&mirrormsg.ListMirrorsRequest{}).AppendTo(nil)
	for name, r := range map[string]Request{
		"no dialect":      {Key: 98, Body: list},
		"dialect none":    {Key: 98, Body: list, Dialect: "none"},
		"another version": {Key: 98, Version: 1, Body: list, Dialect: "seed"},
		"bytes left over": {Key: 98, Body: append(list[:len(list):len(list)], 0), Dialect: "seed"},
		"empty":           {Key: 94, Dialect: "seed"},
		// Kafka 4.4's UnregisterController has the key 94: a controller id and no fields.
		"another API":       {Key: 94, Body: append(binary.BigEndian.AppendUint32(nil, 3), 0), Dialect: "seed"},
		"another key":       {Key: 3, Dialect: "seed"},
		"CreateTopics v7":   {Key: 19, Version: 7, Dialect: "seed"},
		"CreateTopics":      {Key: 19, Version: 8, Body: []byte{1}, Dialect: "seed"},
		"FindCoordinator":   {Key: 10, Version: 7, Body: []byte{1}, Dialect: "seed"},
		"FindCoordinator 4": {Key: 10, Version: 4, Body: []byte{1}, Dialect: "seed"},
		"DescribeConfigs":   {Key: 32, Version: 4, Body: []byte{9}, Dialect: "seed"},
		"Incremental":       {Key: 44, Version: 1, Body: []byte{9}, Dialect: "seed"},
	} {
		if answer, err := e.h.Handle(t.Context(), r); err == nil {
			t.Errorf("%s: answered with %x", name, answer)
		}
	}
	if len(e.store.View().Mirrors()) != 0 {
		t.Error("something was created")
	}
}

func TestNewWantsEverything(t *testing.T) {
	full := newEnv(t)
	cfg := Config{Store: full.store, Live: full.live, Clusters: full.clusters, Gate: full.gate, Secrets: full.h.secrets,
		Address: full.h.address, Clock: full.h.clock}
	if _, err := New(cfg); err != nil {
		t.Fatal(err)
	}
	for what, drop := range map[string]func(*Config){
		"store": func(c *Config) { c.Store = nil }, "live": func(c *Config) { c.Live = nil },
		"clusters": func(c *Config) { c.Clusters = nil }, "gate": func(c *Config) { c.Gate = nil },
		"secrets": func(c *Config) { c.Secrets = nil }, "addresses": func(c *Config) { c.Address = nil },
		"clock": func(c *Config) { c.Clock = nil },
	} {
		partial := cfg
		drop(&partial)
		if _, err := New(partial); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("without %s: %v", what, err)
		}
	}
}
