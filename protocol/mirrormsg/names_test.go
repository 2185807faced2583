package mirrormsg_test

import (
	"strings"
	"testing"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

func TestNames(t *testing.T) {
	tests := []struct {
		name          string
		topic, mirror bool
	}{
		{"a", true, true},
		{"A-z_0.9", true, true},
		{"...", true, true},
		{"paused", true, true},
		{"m.paused.x", true, true},
		{strings.Repeat("x", 249), true, true},
		{"m.paused", true, false},
		{"m.removed", true, false},
		{".paused", true, false},
		{".removed", true, false},
		{"m.paused.removed", true, false},
		{strings.Repeat("x", 250), false, false},
		{"", false, false},
		{".", false, false},
		{"..", false, false},
		{"a b", false, false},
		{"a/b", false, false},
		{"a:b", false, false},
		{"é", false, false},
		{"a\x00", false, false},
		{"a\n", false, false},
	}
	for _, tt := range tests {
		if err := mirrormsg.CheckTopicName(tt.name); (err == nil) != tt.topic {
			t.Errorf("topic %q: %v", tt.name, err)
		}
		if err := mirrormsg.CheckMirrorName(tt.name); (err == nil) != tt.mirror {
			t.Errorf("mirror %q: %v", tt.name, err)
		}
	}
	// Clients may look for the reference's text.
	const want = "Mirror name must not end with '.removed' or '.paused'"
	if err := mirrormsg.CheckMirrorName("m.paused"); err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

// Each byte alone, against the rule's own text.
func TestNameBytes(t *testing.T) {
	const legal = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	for c := range 256 {
		name := "x" + string([]byte{byte(c)})
		if got, want := mirrormsg.CheckTopicName(name) == nil, strings.IndexByte(legal, byte(c)) >= 0; got != want {
			t.Errorf("byte %#x: legal is %v", c, got)
		}
	}
}
