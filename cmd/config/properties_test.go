package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProperties(t *testing.T) {
	got, err := Properties([]byte("# comment\na = 1,\\\n  2\nb:${env:X}\nempty=\n"))
	if d := cmp.Diff(map[string]string{"a": "1,2", "b": "${env:X}", "empty": ""}, got); err != nil || d != "" {
		t.Error(err, d)
	}
	if _, err := Properties([]byte("c=\\u00zz\n")); err == nil {
		t.Error("a broken escape is accepted")
	}
}
