package mirrorapi

import (
	"errors"
	"strings"
	"testing"
)

const testKey = "0123456789abcdef"

func TestSecretsAreSealedAndOpened(t *testing.T) {
	box, err := NewSecretBox([]byte(testKey))
	if err != nil {
		t.Fatal(err)
	}
	for _, plain := range []string{"hunter2", strings.Repeat("long", 1000), "ünïcode"} {
		sealed, err := box.Seal(plain)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := box.Seal(plain)
		if sealed != again {
			t.Errorf("equal secrets have different sealed forms")
		}
		if strings.Contains(sealed, plain) || !box.IsSealed(sealed) || box.IsReference(sealed) {
			t.Errorf("sealed form is %q", sealed)
		}
		if opened, err := box.Open(sealed); err != nil || opened != plain {
			t.Errorf("opened %q, %v", opened, err)
		}
		damaged := sealed[:len(sealed)-3] + "AAA"
		if opened, err := box.Open(damaged); err == nil {
			t.Errorf("a damaged secret opens as %q", opened)
		}
	}
	other, err := NewSecretBox([]byte("another key of the proxy"))
	if err != nil {
		t.Fatal(err)
	}
	sealed, _ := box.Seal("hunter2")
	if _, err := other.Open(sealed); err == nil {
		t.Error("another key opens the secret")
	}
	if different, _ := other.Seal("hunter2"); different == sealed {
		t.Error("two keys seal alike")
	}
}

func TestSecretBoxWithoutKey(t *testing.T) {
	box, err := NewSecretBox(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Seal("x"); !errors.Is(err, ErrNoSecretKey) {
		t.Errorf("sealing without a key: %v", err)
	}
	if _, err := NewSecretBox([]byte("short")); err == nil {
		t.Error("a short key is accepted")
	}
}

func TestReferences(t *testing.T) {
	box := &SecretBox{}
	for value, want := range map[string]bool{
		"${env:SOURCE_PASSWORD}":          true,
		"${file:/etc/proxy/secrets:pass}": true,
		"${env:}":                         false,
		"${env:A}x":                       false,
		"x${env:A}":                       false,
		"${file:relative:key}":            false,
		"${vault:/a:b}":                   false,
		"hunter2":                         false,
	} {
		if got := box.IsReference(value); got != want {
			t.Errorf("%q is a reference: %v", value, got)
		}
	}
}
