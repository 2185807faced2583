package protocol

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type golden struct {
	key, version int16
	what, name   string
	bytes        []byte
}

func goldens(t *testing.T) (all []golden) {
	t.Helper()
	f, err := os.Open("testdata/golden.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		fields := strings.Split(s.Text(), "\t")
		key, err1 := strconv.Atoi(fields[0])
		version, err2 := strconv.Atoi(fields[1])
		b, err3 := hex.DecodeString(fields[4])
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatal(err1, err2, err3)
		}
		all = append(all, golden{int16(key), int16(version), fields[2], fields[3], b})
	}
	if len(all) < 40 {
		t.Fatalf("%d golden rows", len(all))
	}
	return all
}

// The reference's frames all have the client id "golden", so their bodies begin at 17 (requests) and 5 (responses).
func TestGoldenHeaders(t *testing.T) {
	for _, g := range goldens(t) {
		switch g.what {
		case "request-frame":
			if size := binary.BigEndian.Uint32(g.bytes); int(size) != len(g.bytes)-4 {
				t.Fatalf("%s: size %d", g.name, size)
			}
			h, need, err := PeekRequestHeader(g.bytes[4:])
			if err != nil || need != 0 || h != (RequestHeader{Key: g.key, Version: g.version, CorrelationID: 7, BodyOffset: 17, Flexible: true}) {
				t.Errorf("%s: %+v, %d, %v", g.name, h, need, err)
			}
			if !bytes.Equal(appendRequestHeader(nil, g.key, g.version, 7, "golden"), g.bytes[4:4+17]) {
				t.Errorf("%s: written header differs", g.name)
			}
		case "response-frame":
			at, need, err := PeekResponseBody(g.key, g.version, g.bytes[4:])
			if err != nil || need != 0 || at != 5 {
				t.Errorf("%s: body at %d, %d, %v", g.name, at, need, err)
			}
			if !bytes.Equal(AppendResponseHeader(nil, g.key, g.version, 7), g.bytes[4:4+5]) {
				t.Errorf("%s: written header differs", g.name)
			}
		}
	}
}

func TestGoldenCreateTopicsV8(t *testing.T) {
	seen := 0
	for _, g := range goldens(t) {
		if g.key != KeyCreateTopics || g.what != "request" {
			continue
		}
		seen++
		s, err := SplitAdmin(KeyCreateTopics, 8, g.bytes, policy{})
		if err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
		if local := g.name == "mirrorinfo-set" || g.name == "mirrorinfo-mixed"; local {
			if s.Upstream != nil || !bytes.Equal(s.Local, g.bytes) {
				t.Errorf("%s: local % x, upstream % x", g.name, s.Local, s.Upstream)
			}
			continue
		}
		if s.Local != nil || s.UpstreamVersion != 7 {
			t.Fatalf("%s: %+v", g.name, s)
		}
		// kmsg, which knows v7 only, reads and writes what goes upstream.
		m := reread(t, 7, s.Upstream, kmsg.NewPtrCreateTopicsRequest())
		if !bytes.Equal(m.AppendTo(nil), s.Upstream) {
			t.Errorf("%s: % x is not v7", g.name, s.Upstream)
		}
		if g.name != "java-defaults" && (len(m.Topics) != 1 || m.Topics[0].Topic != "topic-a" || m.TimeoutMillis != 30000) {
			t.Errorf("%s: %+v", g.name, m)
		}
	}
	if seen != 5 {
		t.Errorf("%d golden requests", seen)
	}
}

func TestGoldenFindCoordinatorV7(t *testing.T) {
	seen := 0
	for _, g := range goldens(t) {
		if g.key != KeyFindCoordinator {
			continue
		}
		switch g.what {
		case "request":
			want := CoordinatorTypeMirror
			if g.name == "java-defaults" {
				want = 0
			}
			if got, err := PeekFindCoordinator(7, g.bytes); err != nil || got != want {
				t.Errorf("%s: key type %d, %v", g.name, got, err)
			}
			seen++
		case "response":
			edited, err := EditFindCoordinator(7, g.bytes, ourAddress)
			if err != nil {
				t.Fatalf("%s: %v", g.name, err)
			}
			if g.name == "mirror-ok" {
				if !bytes.Contains(edited, []byte("proxy-2")) || bytes.Contains(edited, []byte("broker-2")) {
					t.Errorf("%s: % x", g.name, edited)
				}
			} else if !bytes.Equal(edited, g.bytes) {
				t.Errorf("%s: rows without a coordinator changed: % x", g.name, edited)
			}
			seen++
		}
	}
	if seen != 8 {
		t.Errorf("%d golden bodies", seen)
	}
}
