package replicate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"kafka-mirror-proxy/testenv"
)

// logLines keeps what is written to a log, one line a write.
type logLines struct {
	mu    sync.Mutex
	lines [][]byte
}

func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, bytes.Clone(line))
	return len(line), nil
}

// wantLog waits for a line that has these fields (as JSON has them: a number is a float64) and contains a text.
func (r *rig) wantLog(fields map[string]any, text string) {
	r.t.Helper()
	testenv.Eventually(r.t, patience, "the log to say "+text, func() error {
		r.logs.mu.Lock()
		defer r.logs.mu.Unlock()
		if slices.ContainsFunc(r.logs.lines, func(line []byte) bool { return lineHas(line, fields, text) }) {
			return nil
		}
		return fmt.Errorf("no line of %d has %v and %q", len(r.logs.lines), fields, text)
	})
}

func lineHas(line []byte, fields map[string]any, text string) bool {
	var have map[string]any
	if json.Unmarshal(line, &have) != nil || !strings.Contains(string(line), text) {
		return false
	}
	for key, want := range fields {
		if have[key] != want {
			return false
		}
	}
	return true
}
