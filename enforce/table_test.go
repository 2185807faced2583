package enforce

import (
	"testing"

	"kafka-mirror-proxy/protocol"
)

func TestTable(t *testing.T) {
	for _, test := range []struct {
		key, version int16
		want         Action
	}{
		{0, 2, Refuse}, {0, 3, Peek}, {0, 13, Peek},
		{1, 4, Split}, {1, 17, Split},
		{2, 1, Relay}, {8, 9, Relay}, {9, 9, Relay}, {36, 2, Relay}, {75, 0, Relay}, {68, 1, Relay},
		{3, 12, Edit}, {60, 2, Edit}, {55, 2, Edit}, {78, 1, Split}, {79, 1, Edit}, {18, 3, Edit},
		{10, 3, Split}, {10, 7, Split},
		{17, 0, Refuse}, {17, 1, Relay},
		{19, 8, Split}, {20, 6, Split}, {21, 2, Split}, {32, 4, Split}, {33, 2, Split}, {37, 3, Split}, {44, 1, Split},
		{22, 4, Peek}, {24, 3, Peek}, {25, 3, Peek}, {26, 3, Peek}, {27, 1, Peek}, {28, 3, Peek},
		{93, 0, Relay}, {94, 0, Local}, {104, 0, Local}, {105, 0, Relay}, {1000, 3, Relay}, {-5, 0, Relay},
	} {
		if got := ActionFor(test.key, test.version); got != test.want {
			t.Errorf("key %d v%d: action %d, want %d", test.key, test.version, got, test.want)
		}
	}
}

// The keys are spelled here and in package protocol; whatever is not relayed must be one that
// protocol decodes, or its requests could not be judged.
func TestTableKnowsOnlyDecodedKeys(t *testing.T) {
	for key := int16(0); key < 200; key++ {
		_, highest, known := protocol.Versions(key)
		if action := ActionFor(key, highest); action != Relay && action != Local && !known {
			t.Errorf("key %d is not relayed and not decoded", key)
		}
	}
}
