package mirrorapi

import (
	"fmt"
	"regexp"
	"strings"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

const (
	maxPatternBytes = 4096
	maxPatterns     = 1000

	// internalPrefix begins the names that no mirror takes: Kafka's and our own internal topics.
	internalPrefix = "__"
)

// pattern chooses topics: by a name that equals it, or by a regular expression that matches the whole name.
type pattern struct {
	text string
	re   *regexp.Regexp
}

func (p pattern) matches(name string) bool { return name == p.text || p.re.MatchString(name) }

// compilePattern compiles a regular expression for full matches. RE2 has all of Java's syntax but the constructs that need
// backtracking and some rare ones; where the two would read the same text differently it is an error too, so that no
// pattern that worked with the reference's tool chooses other topics here.
func compilePattern(text string) (pattern, error) {
	if len(text) > maxPatternBytes {
		return pattern{}, fmt.Errorf("pattern has %d bytes, more than %d", len(text), maxPatternBytes)
	}
	if construct := javaOnly(text); construct != "" {
		return pattern{}, fmt.Errorf("pattern %q uses %s, which Java's regular expressions have and RE2, used here, does not",
			text, construct)
	}
	// Compiled alone first: within the group that anchors it, a pattern such as "a)|(b" would be accepted.
	if _, err := regexp.Compile(text); err != nil {
		return pattern{}, fmt.Errorf("pattern %q: %w", text, err)
	}
	re, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return pattern{}, fmt.Errorf("pattern %q: %w", text, err)
	}
	return pattern{text: text, re: re}, nil
}

// javaOnly names the first construct of text that RE2 does not have or reads differently, "" when there is none.
func javaOnly(text string) string {
	inClass := false
	quantified := false // the last token was a quantifier
	for i := 0; i < len(text); {
		rest := text[i:]
		if strings.HasPrefix(rest, `\Q`) {
			end := strings.Index(rest, `\E`)
			if end < 0 {
				return ""
			}
			i, quantified = i+end+2, false
			continue
		}
		if rest[0] == '\\' {
			if construct := javaEscape(rest); construct != "" {
				return construct
			}
			i, quantified = i+2, false
			continue
		}
		if inClass {
			switch {
			case rest[0] == ']':
				inClass = false
			case rest[0] == '[':
				return "a class within a class ([...[)"
			case strings.HasPrefix(rest, "&&"):
				return "a class intersection (&&)"
			}
			i++
			continue
		}
		if construct := javaGroup(rest); construct != "" {
			return construct
		}
		switch c := rest[0]; {
		case quantified && c == '+':
			return "a possessive quantifier (" + text[i-1:i+1] + ")"
		case c == '[':
			inClass = true
			i += classStart(rest)
			quantified = false
			continue
		default:
			quantified = c == '*' || c == '+' || c == '}' || c == '?' && !quantified && i > 0 && text[i-1] != '('
		}
		i++
	}
	return ""
}

// classStart returns how many bytes open a class: a "]" right behind the bracket is a member of the class.
func classStart(rest string) int {
	n := 1
	if strings.HasPrefix(rest[n:], "^") {
		n++
	}
	if strings.HasPrefix(rest[n:], "]") {
		n++
	}
	return n
}

func javaGroup(rest string) string {
	for _, g := range [...]struct{ prefix, name string }{
		{"(?=", "a lookahead ((?=)"},
		{"(?!", "a negative lookahead ((?!)"},
		{"(?<=", "a lookbehind ((?<=)"},
		{"(?<!", "a negative lookbehind ((?<!)"},
		{"(?>", "an atomic group ((?>)"},
	} {
		if strings.HasPrefix(rest, g.prefix) {
			return g.name
		}
	}
	if !strings.HasPrefix(rest, "(?") {
		return ""
	}
	for _, c := range rest[len("(?"):] {
		switch c {
		case 'u', 'x', 'd', 'c':
			return "an embedded flag (?" + string(c) + ")"
		case 'U':
			return "an embedded flag (?U), which means something else in RE2"
		case 'i', 'm', 's', '-':
		default:
			return ""
		}
	}
	return ""
}

func javaEscape(rest string) string {
	if len(rest) < 2 {
		return ""
	}
	switch c := rest[1]; {
	case '1' <= c && c <= '9':
		return `a backreference (\` + string(c) + ")"
	case c == 'k':
		return `a backreference (\k)`
	case strings.IndexByte("GZRXNhHVuecv0", c) >= 0:
		return `the escape \` + string(c)
	}
	return ""
}

// topicSelection is what a topics request chooses topics with.
type topicSelection struct {
	names    []string // legal topic names, in the request's order, each once
	patterns []pattern
}

// readSelection sorts a request's topics into names and patterns. A name that is no legal topic name is taken as a regular
// expression: the reference's tool sends names only, so nothing that it sends is read differently. Errors are
// INVALID_REQUEST for the request as a whole: nothing of it must be done when part of it is not understood.
func readSelection(req *mirrormsg.TopicsRequest) (topicSelection, error) {
	var s topicSelection
	texts := make([]string, 0, len(req.Patterns))
	seen := make(map[string]bool, len(req.Topics))
	for _, t := range req.Topics {
		switch {
		case t.TopicName == "":
			return s, failf(mirrormsg.InvalidRequest, "topic name is empty")
		case seen[t.TopicName]:
		case mirrormsg.CheckTopicName(t.TopicName) == nil:
			s.names = append(s.names, t.TopicName)
		default:
			texts = append(texts, t.TopicName)
		}
		seen[t.TopicName] = true
	}
	texts = append(texts, req.Patterns...)
	if len(texts) > maxPatterns {
		return s, failf(mirrormsg.InvalidRequest, "the request holds %d patterns, more than %d", len(texts), maxPatterns)
	}
	for _, text := range texts {
		if text == "" {
			return s, failf(mirrormsg.InvalidRequest, "pattern is empty")
		}
		if isInternalName(text) && mirrormsg.CheckTopicName(text) == nil {
			// It is meant as a name, and "no topic matches" would not say what is wrong with it.
			s.names = append(s.names, text)
			continue
		}
		p, err := compilePattern(text)
		if err != nil {
			return s, failf(mirrormsg.InvalidRequest, "%v", err)
		}
		s.patterns = append(s.patterns, p)
	}
	if len(s.names) == 0 && len(s.patterns) == 0 {
		return s, failf(mirrormsg.InvalidRequest, "the request names no topic")
	}
	return s, nil
}

// resolve returns the names chosen: those given by name whether or not they exist, then what the patterns match of
// existing, which must be sorted. A pattern that matches nothing is an error: it is a mistake more often than not.
func (s topicSelection) resolve(existing []string) ([]string, error) {
	chosen := append([]string(nil), s.names...)
	have := make(map[string]bool, len(chosen))
	for _, name := range chosen {
		have[name] = true
	}
	for _, p := range s.patterns {
		matched := false
		for _, name := range existing {
			if isInternalName(name) || !p.matches(name) {
				continue
			}
			matched = true
			if !have[name] {
				have[name] = true
				chosen = append(chosen, name)
			}
		}
		if !matched {
			return nil, failf(mirrormsg.UnknownTopicOrPartition, "No topics matching pattern '%s' found", p.text)
		}
	}
	return chosen, nil
}

func isInternalName(name string) bool { return strings.HasPrefix(name, internalPrefix) }
