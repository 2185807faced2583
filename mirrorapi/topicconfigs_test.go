package mirrorapi

import (
	"testing"

	"kafka-mirror-proxy/enforce"
)

// Whatever an add sets and STOPPED hands back must be kept from clients in between.
func TestOwnedConfigsAreEnforced(t *testing.T) {
	e := newEnv(t)
	policy := enforce.NewPolicy(e.store.View, enforce.NewGate(), 0)
	_, handBack := configsWhileMirrored(topicConfigs{}, nil, true)
	if len(handBack) < len(owned) {
		t.Fatalf("only %d configs are handed back", len(handBack))
	}
	for key := range handBack {
		if !isOwned(key) || !policy.OwnedConfig(key) {
			t.Errorf("clients may alter %s of a mirrored topic", key)
		}
	}
}

// mirror.raise-topic-limits=false leaves the destination's limit alone, but for what the source itself has set on its topic.
func TestAddLeavesTheLimitAlone(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"set": 1, "plain": 1}))
	setTopicConfig(t, e.sourceClient, "set", map[string]string{configMaxMessageBytes: "2000000"})
	e.mirror("m1", configRaiseTopicLimits, "false")
	e.mustAdd("m1", "set", "plain")
	configs, err := readTopicConfigs(t.Context(), e.destinationClient, []string{"set", "plain"})
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]string{"set": "2000000", "plain": ""} {
		if got := configs[topic].overrides[configMaxMessageBytes]; got != want {
			t.Errorf("topic %s: max.message.bytes %q, want %q", topic, got, want)
		}
		if _, ok := e.topic(topic).HandBack[configMaxMessageBytes]; !ok {
			t.Errorf("topic %s: what is raised after an alter of the mirror would not be handed back", topic)
		}
	}
	if configs["plain"].overrides["retention.ms"] != "-1" {
		t.Errorf("the other configs were left alone too: %v", configs["plain"].overrides)
	}
}
