package app

import (
	"io/fs"
	"strings"
	"testing"

	"kafka-mirror-proxy/cmd/config"
)

func world(files map[string]string, env map[string]string) World {
	return World{
		ReadFile: func(path string) ([]byte, error) {
			if content, ok := files[path]; ok {
				return []byte(content), nil
			}
			return nil, fs.ErrNotExist
		},
		LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	}
}

func TestResolve(t *testing.T) {
	w := world(map[string]string{
		"/key":      "0123456789abcdef0123456789abcdef\n",
		"/allowed":  "password=p=1\nother:x\n",
		"/secret":   "password=no\n",
		"/notprops": "a=${b}\nc=\\u00zz\n",
	}, map[string]string{"ALLOWED": "from env", "SECRET": "no"})
	s, err := newSecrets(&config.Config{SecretKeyFile: "/key", AllowEnv: []string{"ALLOWED", "ABSENT"}, AllowFiles: []string{"/allowed", "/gone", "/notprops"}}, w)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := s.Seal("hunter2")
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		"plain": "plain", "": "", "${other:x}": "${other:x}", sealed: "hunter2",
		"${env:ALLOWED}": "from env", "${file:/allowed:password}": "p=1", "${file:/allowed:other}": "x",
	} {
		if got, err := s.resolve(value); err != nil || got != want {
			t.Errorf("%s: %q, %v", value, got, err)
		}
	}
	for value, want := range map[string]string{
		"${env:SECRET}":                 "add SECRET to the proxy's allow-env",
		"${env:ABSENT}":                 "no such name",
		"${file:/secret:password}":      "add it to the proxy's allow-files",
		"${file:/gone:password}":        "file does not exist",
		"${file:/allowed:nokey}":        "it has no key nokey",
		"${file:/notprops:c}":           "is no properties file",
		sealed[:len(sealed)-4] + "AAAA": "sealed with another key",
	} {
		got, err := s.resolve(value)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %q, %v", value, got, err)
		}
	}
}

func TestSecretKeyFile(t *testing.T) {
	w := world(map[string]string{"/short": "abc", "/empty": "\n"}, nil)
	for path, want := range map[string]string{"/none": "secret-key-file: ", "/short": "at least 16", "/empty": "is empty"} {
		if _, err := newSecrets(&config.Config{SecretKeyFile: path}, w); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	s, err := newSecrets(&config.Config{}, w)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Seal("x"); err == nil {
		t.Error("sealed without a key")
	}
}
