package mirrorapi

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

func (e *env) findCoordinators(version int16, keyType int8, keys ...string) *kmsg.FindCoordinatorResponse {
	e.t.Helper()
	var body []byte
	if version == mirrormsg.FindCoordinatorVersion {
		body = (&mirrormsg.FindCoordinatorV7Request{KeyType: keyType, CoordinatorKeys: keys}).AppendTo(nil)
	} else {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorType, req.CoordinatorKeys = version, keyType, keys
		if version < keyedCoordinatorsVersion {
			req.CoordinatorKey, req.CoordinatorKeys = keys[0], nil
		}
		body = req.AppendTo(nil)
	}
	resp := kmsg.NewPtrFindCoordinatorResponse()
	resp.Version = version
	if err := resp.ReadFrom(e.raw(int16(kmsg.FindCoordinator), version, body, 0)); err != nil {
		e.t.Fatal(err)
	}
	return resp
}

func TestFindCoordinator(t *testing.T) {
	const key = "my-mirror:AQIDBAUGBwgJCgsMDQ4PEA:3"
	e := newEnv(t, brokers(3))
	check := func(resp *kmsg.FindCoordinatorResponse, i int, key string, code int16, node int32, host string, port int32) {
		t.Helper()
		c := resp.Coordinators[i]
		if c.Key != key || c.ErrorCode != code || c.NodeID != node || c.Host != host || c.Port != port ||
			c.ErrorMessage == nil || *c.ErrorMessage != "" {
			t.Errorf("coordinator is %+v", c)
		}
	}
	check(e.findCoordinators(7, 3, key), 0, key, 15, -1, "", -1)

	if err := e.destination.CreateTopic(stateTopic, 50, nil); err != nil {
		t.Fatal(err)
	}
	e.nowMs.Add(leadersValid.Milliseconds())
	parsed, err := mirrormsg.ParseCoordinatorKey(key)
	if err != nil {
		t.Fatal(err)
	}
	partition := mirrormsg.CoordinatorPartition(parsed.Mirror, parsed.TopicID, parsed.Partition, 50)
	if err := e.destination.MoveTopicPartition(stateTopic, partition, 2); err != nil {
		t.Fatal(err)
	}
	resp := e.findCoordinators(7, 3, key, "bad", "a b:AQIDBAUGBwgJCgsMDQ4PEA:0")
	check(resp, 0, key, 0, 2, "proxy", 9097)
	check(resp, 1, "bad", 42, -1, "", -1)
	check(resp, 2, "a b:AQIDBAUGBwgJCgsMDQ4PEA:0", 42, -1, "", -1)

	check(e.findCoordinators(7, 0, "group"), 0, "group", 42, -1, "", -1)
	for version := int16(1); version < 7; version++ {
		resp := e.findCoordinators(version, 3, key)
		if version < keyedCoordinatorsVersion {
			if resp.ErrorCode != 42 || resp.NodeID != -1 {
				t.Errorf("v%d: %+v", version, resp)
			}
			continue
		}
		check(resp, 0, key, 42, -1, "", -1)
	}
}
