package verify

import (
	"bytes"
	"fmt"
	"iter"

	"kafka-mirror-proxy/protocol/batch"
)

// recordDifference says how two records at the same offset differ, "" when they do not.
func recordDifference(s, d *batch.Record) string {
	switch {
	case s.Timestamp != d.Timestamp:
		return fmt.Sprintf("offset %d: the timestamp is %d, the source's %d", s.Offset, d.Timestamp, s.Timestamp)
	case !same(s.Key, d.Key):
		return fmt.Sprintf("offset %d: the key is %s, the source's %s", s.Offset, show(d.Key), show(s.Key))
	case !same(s.Value, d.Value):
		return fmt.Sprintf("offset %d: the value is %s, the source's %s", s.Offset, show(d.Value), show(s.Value))
	}
	if headers := headerDifference(s, d); headers != "" {
		return fmt.Sprintf("offset %d: %s", s.Offset, headers)
	}
	return ""
}

func headerDifference(s, d *batch.Record) string {
	if s.HeaderCount() != d.HeaderCount() {
		return fmt.Sprintf("there are %d headers, on the source %d", d.HeaderCount(), s.HeaderCount())
	}
	if s.HeaderCount() == 0 {
		return ""
	}
	next, stop := iter.Pull2(d.Headers())
	defer stop()
	i := 0
	for key, value := range s.Headers() {
		k, v, _ := next()
		if !same(key, k) || !same(value, v) {
			return fmt.Sprintf("header %d is %s=%s, the source's %s=%s", i, show(k), show(v), show(key), show(value))
		}
		i++
	}
	return ""
}

// same tells null from empty.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func show(b []byte) string {
	if b == nil {
		return "null"
	}
	if len(b) > 40 {
		return fmt.Sprintf("%q... (%d bytes)", b[:40], len(b))
	}
	return fmt.Sprintf("%q", b)
}
