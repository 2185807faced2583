package mirrorapi

import (
	"testing"

	"kafka-mirror-proxy/enforce"
)

// Whatever an add sets and STOPPED hands back must be kept from clients in between.
func TestOwnedConfigsAreEnforced(t *testing.T) {
	e := newEnv(t)
	policy := enforce.NewPolicy(e.store.View, enforce.NewGate(), 0)
	_, handBack := configsWhileMirrored(topicConfigs{}, nil)
	if len(handBack) < len(owned) {
		t.Fatalf("only %d configs are handed back", len(handBack))
	}
	for key := range handBack {
		if !isOwned(key) || !policy.OwnedConfig(key) {
			t.Errorf("clients may alter %s of a mirrored topic", key)
		}
	}
}
