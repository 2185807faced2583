package protocol

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestFindCoordinatorKeyTypeAgreesWithKmsg(t *testing.T) {
	everyVersion(t, KeyFindCoordinator, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrFindCoordinatorRequest())
		m.CoordinatorType = int8(r.IntN(5))
		body := m.AppendTo(nil)
		want := reread(t, version, body, kmsg.NewPtrFindCoordinatorRequest()).CoordinatorType
		if version == 0 {
			want = 0
		}
		if got, err := PeekFindCoordinator(version, body); err != nil || got != want {
			t.Fatalf("key type %d, want %d, %v", got, want, err)
		}
		if _, err := PeekFindCoordinator(version, body[:r.IntN(len(body))]); !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut off: %v", err)
		}
	})
}

// v7 is ours: its bytes are those of v6.
func TestFindCoordinatorV7(t *testing.T) {
	request := kmsg.NewPtrFindCoordinatorRequest()
	request.Version, request.CoordinatorType, request.CoordinatorKeys = 6, CoordinatorTypeMirror, []string{"dr:AAAAAAAAAAAAAAAAAAAAAQ:0"}
	if got, err := PeekFindCoordinator(7, request.AppendTo(nil)); err != nil || got != CoordinatorTypeMirror {
		t.Errorf("%d, %v", got, err)
	}
	answer := kmsg.NewPtrFindCoordinatorResponse()
	answer.Version = 6
	answer.Coordinators = []kmsg.FindCoordinatorResponseCoordinator{{Key: "g", NodeID: 2, Host: upstreamHost, Port: 1}, {Key: "h", NodeID: -1, Port: -1, ErrorCode: 15}}
	got, err := EditFindCoordinator(7, answer.AppendTo(nil), ourAddress)
	if err != nil {
		t.Fatal(err)
	}
	rows := reread(t, 6, got, kmsg.NewPtrFindCoordinatorResponse()).Coordinators
	if rows[0].Host != "proxy-2" || rows[0].Port != 9095 || rows[1].Host != "" || rows[1].Port != -1 || rows[1].ErrorCode != 15 {
		t.Errorf("%+v", rows)
	}
	for _, version := range []int16{-1, 8} {
		if _, err := PeekFindCoordinator(version, nil); !errors.Is(err, ErrUnsupportedVersion) {
			t.Errorf("v%d: %v", version, err)
		}
	}
}

func TestDowngradeFindCoordinator(t *testing.T) {
	for _, c := range []struct{ version, upstream, want int16 }{
		{7, 6, 6}, {7, 4, 4}, {7, -1, 4}, {6, 6, 6}, {5, 4, 4}, {4, 6, 4}, {3, 6, 3}, {0, -1, 0}, {7, 9, 7},
	} {
		if got := DowngradeFindCoordinator(c.version, c.upstream); got != c.want {
			t.Errorf("v%d to a broker with v%d: v%d, want v%d", c.version, c.upstream, got, c.want)
		}
	}
}
