package mirrormsg_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

func goldenTopicID() (id [16]byte) {
	for i := range id {
		id[i] = byte(i + 1)
	}
	return id
}

func TestParseCoordinatorKey(t *testing.T) {
	const id = "AQIDBAUGBwgJCgsMDQ4PEA"
	want := mirrormsg.CoordinatorKey{Mirror: "my-mirror", TopicID: goldenTopicID(), Partition: 3}
	for _, key := range []string{"my-mirror:" + id + ":3", "my-mirror:" + id + "==:3", "my-mirror:" + id + ":003"} {
		got, err := mirrormsg.ParseCoordinatorKey(key)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", key, got, err)
		}
		if text := got.String(); text != "my-mirror:"+id+":3" {
			t.Errorf("%s is written %s", key, text)
		}
	}
	largest, err := mirrormsg.ParseCoordinatorKey("m.paused:" + id + ":2147483647")
	if err != nil || largest.Partition != 2147483647 || largest.Mirror != "m.paused" {
		t.Errorf("%+v, %v", largest, err)
	}
	for _, key := range []string{
		"", ":", "::", "m", "m:3", "m:" + id, ":" + id + ":3", "m::3", "m:" + id + ":",
		"m:" + id + ":x", "m:" + id + ":-1", "m:" + id + ":+1", "m:" + id + ":1_0", "m:" + id + ":0x1", "m:" + id + ": 1",
		"m:" + id + ":2147483648", "a:b:" + id + ":3", "é:" + id + ":3", "..:" + id + ":3",
		strings.Repeat("m", 250) + ":" + id + ":3",
		"m:" + id + "=:3", "m:" + id + "===:3", "m:" + id[1:] + ":3", "m:" + id + "A:3", "m:+" + id[1:] + ":3", "m:/" + id[1:] + ":3",
		"m:\n" + id[1:] + ":3", "m:\r\n" + id[2:] + ":3", "m:\r\n" + id + ":3", "m:AQIDBAUGBwgJCgsMDQ4PEA:3:4:",
	} {
		if got, err := mirrormsg.ParseCoordinatorKey(key); err == nil {
			t.Errorf("%q read as %+v", key, got)
		}
	}
}

// Expected values are Java's: String.hashCode of the text, absolute, modulo the partition count.
func TestCoordinatorPlacement(t *testing.T) {
	const most = 2147483647
	for _, tt := range []struct {
		key  string
		n    int32
		want int32
	}{
		{"", 50, 0},
		{"hello", most, 99162322},              // a hash every Java book prints
		{"hello", 50, 22},                      // 99162322 mod 50
		{"polygenelubricants", 50, 0},          // hashes to Integer.MIN_VALUE
		{"drumwood boulderhead", most, 0},      // hashes to Integer.MIN_VALUE too
		{"Aa", most, 2112}, {"BB", most, 2112}, // the best known collision
		{"\U0001F600", most, 0xd83d*31 + 0xde00}, // two UTF-16 units
	} {
		if got := mirrormsg.HashPartition(tt.key, tt.n); got != tt.want {
			t.Errorf("%q of %d: %d, want %d", tt.key, tt.n, got, tt.want)
		}
	}
}

func TestCoordinatorPartitionHashesTheKey(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := rapid.Make[mirrormsg.CoordinatorKey]().Draw(rt, "key")
		n := rapid.Int32Range(1, 1000).Draw(rt, "n")
		got := mirrormsg.CoordinatorPartition(k.Mirror, k.TopicID, k.Partition, n)
		if want := mirrormsg.HashPartition(k.String(), n); got != want || got < 0 || got >= n {
			rt.Errorf("%d, want %d, of %d", got, want, n)
		}
	})
	got := mirrormsg.CoordinatorPartition("my-mirror", goldenTopicID(), 3, 50)
	if want := mirrormsg.HashPartition("my-mirror:AQIDBAUGBwgJCgsMDQ4PEA:3", 50); got != want {
		t.Errorf("%d, want %d", got, want)
	}
}
