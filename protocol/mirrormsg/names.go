package mirrormsg

import (
	"errors"
	"fmt"
	"strings"
)

// Suffixes of the topic config mirror.name: the mirror's name, then what the operator asked for.
const (
	PausedSuffix  = ".paused"
	RemovedSuffix = ".removed"
)

const maxNameBytes = 249

// errMirrorSuffix has the reference's text, which clients may look for.
var errMirrorSuffix = errors.New("Mirror name must not end with '.removed' or '.paused'") //nolint:staticcheck // shown to Kafka clients as is

// CheckTopicName returns why name is not a legal topic name: 1 to 249 of [a-zA-Z0-9._-], not "." or ".." (Kafka's
// Topic.validate). The error never repeats more than 249 bytes of the name.
func CheckTopicName(name string) error {
	switch {
	case name == "":
		return errors.New("name is empty")
	case len(name) > maxNameBytes:
		return fmt.Errorf("name has %d characters, more than %d", len(name), maxNameBytes)
	case name == "." || name == "..":
		return fmt.Errorf("name must not be %q", name)
	}
	for i := 0; i < len(name); i++ {
		if !legalNameByte(name[i]) {
			return fmt.Errorf("name %q holds a character that is not an ASCII letter, a digit, '.', '_' or '-'", name)
		}
	}
	return nil
}

// CheckMirrorName returns why name is not a legal mirror name: the rules of topic names, and not ending in a suffix that
// mirror.name uses for paused and removed topics. Answer InvalidMirrorName (135).
func CheckMirrorName(name string) error {
	if err := CheckTopicName(name); err != nil {
		return fmt.Errorf("mirror %w", err)
	}
	if strings.HasSuffix(name, PausedSuffix) || strings.HasSuffix(name, RemovedSuffix) {
		return errMirrorSuffix
	}
	return nil
}

func legalNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}
