package protocol

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The table must say what kmsg can decode: no less (clients would lose features), no more (an edit would fail).
func TestVersionsAreThoseOfKmsg(t *testing.T) {
	known := 0
	for key := int16(-1); key < 200; key++ {
		minVersion, maxVersion, ok := Versions(key)
		if !ok {
			if Flexible(key, 5) != isMirrorKey(key) {
				t.Errorf("key %d is opaque, but flexible", key)
			}
			continue
		}
		known++
		request, response := kmsg.RequestForKey(key), kmsg.ResponseForKey(key)
		if request.MaxVersion() != maxVersion || response.MaxVersion() != maxVersion {
			t.Errorf("%s: max version %d, kmsg has %d", KeyName(key), maxVersion, request.MaxVersion())
		}
		if !strings.EqualFold(KeyName(key), kmsg.NameForKey(key)) {
			t.Errorf("key %d is %q, not %q", key, kmsg.NameForKey(key), KeyName(key))
		}
		for version := minVersion; version <= maxVersion; version++ {
			request.SetVersion(version)
			if request.IsFlexible() != Flexible(key, version) {
				t.Errorf("%s v%d: flexible %v", KeyName(key), version, Flexible(key, version))
			}
		}
	}
	if known != 24 {
		t.Errorf("%d keys are decoded", known)
	}
}

// Every answer of Kafka's in which kmsg has a field named Host is one that we edit.
func TestNoOtherAnswerHoldsAddresses(t *testing.T) {
	const betweenBrokers, acl, streamsMember = "not served on a listener for clients", "host of a rule", "endpoint of a client"
	edited := map[int16]string{
		KeyProduce: "edit", KeyFetch: "edit", KeyMetadata: "edit", KeyFindCoordinator: "edit", KeyDescribeQuorum: "edit",
		KeyDescribeCluster: "edit", KeyShareFetch: "edit", KeyShareAcknowledge: "edit",
		52: betweenBrokers, 53: betweenBrokers, 54: betweenBrokers, 59: betweenBrokers, 82: betweenBrokers,
		29: acl, 31: acl, 88: streamsMember, 89: streamsMember,
	}
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		response := kmsg.ResponseForKey(key)
		if response == nil {
			continue
		}
		if why, ok := edited[key]; ok != hasHost(response) {
			t.Errorf("key %d, %s: holds a host: %v; known as %q", key, kmsg.NameForKey(key), hasHost(response), why)
		}
	}
}
