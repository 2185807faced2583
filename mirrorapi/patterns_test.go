package mirrorapi

import (
	"slices"
	"strings"
	"testing"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

func TestJavaOnlyConstructsAreNamed(t *testing.T) {
	for pattern, construct := range map[string]string{
		`(?=a)b`:       "a lookahead ((?=)",
		`a(?!b)`:       "a negative lookahead ((?!)",
		`(?<=a)b`:      "a lookbehind ((?<=)",
		`(?<!a)b`:      "a negative lookbehind ((?<!)",
		`(?>a)b`:       "an atomic group ((?>)",
		`a*+b`:         "a possessive quantifier (*+)",
		`a++`:          "a possessive quantifier (++)",
		`a?+`:          "a possessive quantifier (?+)",
		`a{1,2}+`:      "a possessive quantifier (}+)",
		`[ab]++`:       "a possessive quantifier (++)",
		`(a)\1`:        `a backreference (\1)`,
		`(?<n>a)\k<n>`: `a backreference (\k)`,
		`[a-z&&[^b]]`:  "a class intersection (&&)",
		`[a[bc]]`:      "a class within a class ([...[)",
		`(?x)a b`:      "an embedded flag (?x)",
		`(?iu)a`:       "an embedded flag (?u)",
		`a\Z`:          `the escape \Z`,
		`\u0041`:       `the escape \u`,
	} {
		_, err := compilePattern(pattern)
		if err == nil || !strings.Contains(err.Error(), construct) || !strings.Contains(err.Error(), "RE2") {
			t.Errorf("%s: error is %v, want one that names %q", pattern, err, construct)
		}
	}
}

func TestPatternsMatchWholeNames(t *testing.T) {
	for _, c := range []struct {
		pattern  string
		yes, no  string
		notFound bool
	}{
		{pattern: `orders.*`, yes: "orders-eu", no: "my-orders"},
		{pattern: `a|b`, yes: "b", no: "ab"},
		{pattern: `my.topic`, yes: "my.topic", no: "my.topic2"},
		{pattern: `[]a]+`, yes: "aa", no: "b"},
		{pattern: `[^]a]`, yes: "b", no: "a"},
		{pattern: `(?i)ORDERS`, yes: "orders", no: "orders1"},
		{pattern: `\Qa.b\E`, yes: "a.b", no: "axb"},
		{pattern: `a+?b`, yes: "aab", no: "b"},
		{pattern: `a\++`, yes: "a+", no: "a"},
		{pattern: `[+*]+`, yes: "+*", no: "a"},
		{pattern: `a{2}`, yes: "aa", no: "a"},
		{pattern: `(?<year>\d+)-x`, yes: "2024-x", no: "x"},
		{pattern: `^a$`, yes: "a", no: "ab"},
	} {
		p, err := compilePattern(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if !p.matches(c.yes) || p.matches(c.no) {
			t.Errorf("%s: matches %s %v, %s %v", c.pattern, c.yes, p.matches(c.yes), c.no, p.matches(c.no))
		}
	}
}

func TestBadPatternsAreRefused(t *testing.T) {
	for _, pattern := range []string{"(", "a)|(b", "*", "[", strings.Repeat("a", maxPatternBytes+1)} {
		if _, err := compilePattern(pattern); err == nil {
			t.Errorf("%.20q is accepted", pattern)
		}
	}
}

func TestSelection(t *testing.T) {
	existing := []string{"__consumer_offsets", "a1", "a2", "b1"}
	read := func(names []string, patterns ...string) ([]string, error) {
		req := &mirrormsg.TopicsRequest{Op: mirrormsg.AddTopicsToMirror, Patterns: patterns}
		for _, n := range names {
			req.Topics = append(req.Topics, mirrormsg.TopicRef{TopicName: n})
		}
		s, err := readSelection(req)
		if err != nil {
			return nil, err
		}
		return s.resolve(existing)
	}
	for _, c := range []struct {
		names, patterns, want []string
	}{
		{names: []string{"b1", "x", "b1"}, want: []string{"b1", "x"}},
		{patterns: []string{".*"}, want: []string{"a1", "a2", "b1"}},
		{names: []string{"a2"}, patterns: []string{"a."}, want: []string{"a2", "a1"}},
		{names: []string{"a.*"}, want: []string{"a1", "a2"}}, // not a topic name: a pattern
	} {
		got, err := read(c.names, c.patterns...)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v %v: %v %v, want %v", c.names, c.patterns, got, err, c.want)
		}
	}
	for _, c := range []struct {
		names, patterns []string
		code            mirrormsg.ErrorCode
		message         string
	}{
		{code: mirrormsg.InvalidRequest, message: "the request names no topic"},
		{names: []string{""}, code: mirrormsg.InvalidRequest, message: "topic name is empty"},
		{patterns: []string{""}, code: mirrormsg.InvalidRequest, message: "pattern is empty"},
		{patterns: []string{"z.*"}, code: mirrormsg.UnknownTopicOrPartition, message: "No topics matching pattern 'z.*' found"},
		{patterns: []string{"__.*"}, code: mirrormsg.UnknownTopicOrPartition, message: "No topics matching pattern '__.*' found"},
	} {
		_, err := read(c.names, c.patterns...)
		if code, message := codeOf(err); code != c.code || message != c.message {
			t.Errorf("%v %v: %s %q, want %s %q", c.names, c.patterns, code, message, c.code, c.message)
		}
	}
}
