package app

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"kafka-mirror-proxy/cmd/config"
	"kafka-mirror-proxy/mirrorapi"
)

// World is what the program reads and writes besides its arguments. Tests give their own.
type World struct {
	ReadFile  func(path string) ([]byte, error)
	LookupEnv func(name string) (string, bool)
	Err       io.Writer // the log
}

// secrets seals what is stored and turns stored values into what a connection needs.
type secrets struct {
	*mirrorapi.SecretBox
	world      World
	env, files []string // what references may read
}

func newSecrets(cfg *config.Config, world World) (*secrets, error) {
	var key []byte
	if cfg.SecretKeyFile != "" {
		b, err := world.ReadFile(cfg.SecretKeyFile)
		if err != nil {
			return nil, fmt.Errorf("secret-key-file: %w", err)
		}
		if key = []byte(strings.TrimSpace(string(b))); len(key) == 0 {
			return nil, fmt.Errorf("secret-key-file: %s is empty", cfg.SecretKeyFile)
		}
	}
	box, err := mirrorapi.NewSecretBox(key)
	if err != nil {
		return nil, fmt.Errorf("secret-key-file: %w", err)
	}
	return &secrets{SecretBox: box, world: world, env: cfg.AllowEnv, files: cfg.AllowFiles}, nil
}

// resolve returns the value that a stored config stands for: it opens what is sealed and reads what a reference names,
// if the proxy's own config allows that. It is called only when a connection is made.
func (s *secrets) resolve(value string) (string, error) {
	switch {
	case s.IsSealed(value):
		return s.Open(value)
	case !s.IsReference(value):
		return value, nil
	}
	kind, rest, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(value, "${"), "}"), ":")
	if kind == "env" {
		return s.fromEnv(rest)
	}
	path, key, _ := strings.Cut(rest, ":")
	return s.fromFile(path, key)
}

func (s *secrets) fromEnv(name string) (string, error) {
	if !slices.Contains(s.env, name) {
		return "", fmt.Errorf("the reference ${env:%s} is not allowed: add %s to the proxy's allow-env", name, name)
	}
	value, ok := s.world.LookupEnv(name)
	if !ok {
		return "", fmt.Errorf("the reference ${env:%s}: the proxy's environment has no such name", name)
	}
	return value, nil
}

func (s *secrets) fromFile(path, key string) (string, error) {
	if !slices.Contains(s.files, path) {
		return "", fmt.Errorf("the reference to %s is not allowed: add it to the proxy's allow-files", path)
	}
	b, err := s.world.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read what a reference names: %w", err)
	}
	named, err := config.Properties(b)
	if err != nil {
		// The parser's words may repeat a line of the file.
		return "", fmt.Errorf("read what a reference names: %s is no properties file", path)
	}
	value, ok := named[key]
	if !ok {
		return "", errors.New("the reference to " + path + ": it has no key " + key)
	}
	return value, nil
}
