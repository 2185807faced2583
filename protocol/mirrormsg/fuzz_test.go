package mirrormsg_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

// fuzzRead: whatever the bytes, decoding ends in ErrMalformed or in a message that encodes to bytes which decode to the same
// message, and which are the fixed point of encoding.
func fuzzRead(t *testing.T, key int16, response bool, body []byte) {
	fresh := func() mirrormsg.Message { return emptyMessage(key, response) }
	got := fresh()
	before := bytes.Clone(body)
	err := got.ReadFrom(body)
	if !bytes.Equal(before, body) {
		t.Fatal("decoding changed its input")
	}
	if err != nil {
		if !errors.Is(err, mirrormsg.ErrMalformed) {
			t.Fatal(err)
		}
		return
	}
	encoded := got.AppendTo(nil)
	clear(body) // the message must not refer to its input
	again := fresh()
	if err := again.ReadFrom(encoded); err != nil {
		t.Fatalf("own bytes %x: %v", encoded, err)
	}
	if diff := cmp.Diff(got, again, cmpopts.EquateEmpty(), cmp.Exporter(isKmsgTags)); diff != "" {
		t.Errorf("(-first +second)\n%s", diff)
	}
	if twice := again.AppendTo(nil); !bytes.Equal(encoded, twice) {
		t.Errorf("encoded %x, then %x", encoded, twice)
	}
}

func fuzzSeed(f *testing.F, response bool, add func(key int16, body []byte)) {
	f.Helper()
	for _, row := range readGolden(f) {
		if row.direction != "header" && row.isResponse() == response && len(row.bytes) < 300 {
			add(row.key, row.bytes)
		}
	}
}

// ourKey maps any number to a key whose body of the direction is ours to decode.
func ourKey(n int16, response bool) int16 {
	keys := []int16{}
	for _, row := range mirrormsg.Seed.Keys {
		keys = append(keys, row.Key)
	}
	if !response {
		keys = append(keys, 10, 19)
	}
	for _, key := range keys {
		if key == n {
			return key
		}
	}
	return keys[int(uint16(n))%len(keys)]
}

func FuzzReadRequest(f *testing.F) {
	fuzzSeed(f, false, func(key int16, body []byte) { f.Add(key, body) })
	f.Fuzz(func(t *testing.T, key int16, body []byte) { fuzzRead(t, ourKey(key, false), false, bytes.Clone(body)) })
}

func FuzzReadResponse(f *testing.F) {
	fuzzSeed(f, true, func(key int16, body []byte) { f.Add(key, body) })
	f.Fuzz(func(t *testing.T, key int16, body []byte) { fuzzRead(t, ourKey(key, true), true, bytes.Clone(body)) })
}

func FuzzParseCoordinatorKey(f *testing.F) {
	for _, s := range []string{"m:AQIDBAUGBwgJCgsMDQ4PEA:0", "m:AQIDBAUGBwgJCgsMDQ4PEA==:07", "a:b:c", "", "::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, err := mirrormsg.ParseCoordinatorKey(s)
		if err != nil {
			return
		}
		if again, err := mirrormsg.ParseCoordinatorKey(k.String()); err != nil || again != k {
			t.Errorf("%q reads as %+v, its text as %+v (%v)", s, k, again, err)
		}
	})
}
