package replicate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every reason for FAILED that no retry takes away by itself is in the runbook, by the longest piece of the first sentence of
// its text that is always the same.
func TestRunbookKnowsEveryReason(t *testing.T) {
	text, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	runbook := strings.Join(strings.Fields(string(text)), " ")
	reasons := 0
	for phrase, where := range failedReasons(t) {
		reasons++
		if !strings.Contains(runbook, phrase) {
			t.Errorf("docs/runbook.md does not say what to do about %q (%s)", phrase, where)
		}
	}
	if reasons < 30 {
		t.Errorf("only %d reasons were found in the code", reasons)
	}
}

// failedReasons finds the texts of faults that ask for an operator, with where they are.
func failedReasons(t *testing.T) map[string]string {
	t.Helper()
	reasons := map[string]string{}
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			format := -1
			switch lastName(call.Fun) {
			case "Faultf":
				format = 1
			case "Because":
				format = 2
			}
			verdict := lastName(call.Args[0])
			if format < 0 || verdict != "Quarantined" && verdict != "Refused" && verdict != "Missing" {
				return true
			}
			if phrase := keyPhrase(literal(call.Args[format])); phrase != "" {
				reasons[phrase] = files.Position(call.Pos()).String()
			} else {
				t.Errorf("%s: a fault without a text", files.Position(call.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return reasons
}

// lastName is the name that an expression ends in.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// literal joins the string literals of an expression.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return ""
}

var verb = regexp.MustCompile(`%[a-z]`)

func keyPhrase(format string) string {
	first, _, _ := strings.Cut(format, ". ")
	longest := ""
	for _, piece := range verb.Split(first, -1) {
		if piece = strings.TrimSpace(piece); len(piece) > len(longest) {
			longest = piece
		}
	}
	return strings.TrimSpace(strings.Trim(longest, ";,: "))
}
