package main

import (
	"slices"
	"testing"
	"time"
)

func TestFlags(t *testing.T) {
	b, err := parseFlags(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.rows, allRows()) || b.length < 10*time.Second {
		t.Errorf("defaults: %+v", b)
	}
	b, err = parseFlags([]string{"--rows", "relay, proxy", "--seconds", "0.5", "--json", "x.json"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.rows, []string{rowRelay, rowProxy}) || b.length != 500*time.Millisecond || b.jsonPath != "x.json" {
		t.Errorf("given: %+v", b)
	}
	for _, bad := range [][]string{{"--rows", "relais"}, {"--rows", ""}, {"--seconds", "0"}, {"--seconds", "NaN"}, {"--seconds", "1e300"}, {"relay"}} {
		if _, err := parseFlags(bad); err == nil {
			t.Errorf("%v passed", bad)
		}
	}
}
