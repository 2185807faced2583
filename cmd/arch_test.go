package cmd_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const module = "kafka-mirror-proxy/"

// layers lists, for every package of ours (or tree of packages, "/..."), what it may import: packages of ours, and
// modules of others by prefix. The first row that matches counts. Imports go down only (DESIGN.md, layers).
var layers = []struct {
	of      string
	ours    []string
	modules []string
}{
	{"protocol", nil, []string{"github.com/twmb/franz-go"}},
	{"protocol/batch", nil, []string{"github.com/twmb/franz-go", "github.com/klauspost/compress", "github.com/pierrec/lz4", "github.com/hashicorp/golang-lru"}},
	{"protocol/mirrormsg", nil, []string{"github.com/twmb/franz-go"}},
	{"state", []string{"protocol/..."}, []string{"github.com/twmb/franz-go", "github.com/rs/zerolog", "golang.org/x/sync"}},
	{"enforce", []string{"state", "protocol/..."}, nil},
	{"proxy", []string{"protocol/...", "enforce"}, []string{"github.com/rs/zerolog", "github.com/prometheus/client_golang", "golang.org/x/sync", "golang.org/x/time"}},
	{"mirrorapi", []string{"state", "protocol/..."}, []string{"github.com/twmb/franz-go", "github.com/rs/zerolog", "golang.org/x/sync", "github.com/hashicorp/golang-lru"}},
	{"replicate/connect", []string{"protocol/..."}, []string{"github.com/twmb/franz-go", "github.com/rs/zerolog"}},
	{"replicate/verify", []string{"protocol/..."}, []string{"github.com/twmb/franz-go", "golang.org/x/sync", "golang.org/x/time"}},
	{"replicate/produce", []string{"state", "protocol/...", "replicate/connect"}, []string{"github.com/twmb/franz-go", "github.com/rs/zerolog", "golang.org/x/sync"}},
	{"replicate", []string{"state", "protocol/...", "replicate/connect", "replicate/produce"}, []string{"github.com/twmb/franz-go", "github.com/rs/zerolog", "golang.org/x/sync", "golang.org/x/time", "github.com/prometheus/client_golang"}},
	{"cmd/...", []string{"cmd/...", "proxy", "mirrorapi", "replicate/...", "enforce", "state", "protocol/..."}, []string{""}},
	{"testenv/...", []string{"..."}, []string{""}},
}

type goPackage struct {
	Dir        string
	ImportPath string
	GoFiles    []string
	Imports    []string
}

func TestImportsGoDownOnly(t *testing.T) {
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		row := -1
		for i, l := range layers {
			if matches(name, l.of) {
				row = i
				break
			}
		}
		if row < 0 {
			t.Errorf("%s is in no layer: add it to the table", name)
			continue
		}
		for _, imported := range p.Imports {
			if !allowed(imported, layers[row].ours, layers[row].modules) {
				t.Errorf("%s must not import %s", name, imported)
			}
		}
	}
}

// Nobody but cmd and testenv reads files, flags or the environment. Package os may be imported for its sentinel errors.
func TestOnlyCmdReadsTheWorld(t *testing.T) {
	uses := regexp.MustCompile(`\bos\.[A-Z]\w*`)
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if matches(name, "cmd/...") || matches(name, "testenv/...") {
			continue
		}
		for _, imported := range p.Imports {
			switch imported {
			case "flag", "io/ioutil", "os/exec":
				t.Errorf("%s must not import %s", name, imported)
			case "os":
				for _, file := range p.GoFiles {
					source, err := os.ReadFile(filepath.Join(p.Dir, file))
					if err != nil {
						t.Fatal(err)
					}
					for _, use := range uses.FindAllString(string(source), -1) {
						if !strings.HasPrefix(use, "os.Err") {
							t.Errorf("%s must not use %s (%s)", name, use, file)
						}
					}
				}
			}
		}
	}
}

func TestTheCheckItself(t *testing.T) {
	for _, c := range []struct {
		imported string
		want     bool
	}{{module + "state", true}, {module + "protocol/batch", true}, {module + "mirrorapi", false}, {"github.com/rs/zerolog/log", true}, {"github.com/spf13/pflag", false}, {"net/http", true}} {
		if got := allowed(c.imported, []string{"state", "protocol/..."}, []string{"github.com/rs/zerolog"}); got != c.want {
			t.Errorf("%s: %v", c.imported, got)
		}
	}
}

func allowed(imported string, ours, modules []string) bool {
	if name, own := strings.CutPrefix(imported, module); own {
		for _, pattern := range ours {
			if matches(name, pattern) {
				return true
			}
		}
		return false
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	for _, prefix := range modules {
		if strings.HasPrefix(imported, prefix) {
			return true
		}
	}
	return false
}

func matches(name, pattern string) bool {
	if pattern == "..." {
		return true
	}
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == tree || strings.HasPrefix(name, tree+"/")
	}
	return name == pattern
}

func list(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=Dir,ImportPath,GoFiles,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	d := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	return all
}
