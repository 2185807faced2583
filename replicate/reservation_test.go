package replicate

import (
	"testing"
	"time"
)

// However fast the copy is, one reservation lasts for seconds, none ends far beyond what the
// source will hold by then, and they are made rarely.
func TestReservation(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, test := range []struct {
		name                 string
		backlog, copied, fed float64 // records; records a second by the copy, by the producers
		most                 int     // reservations in a minute
	}{
		{"idle", 0, 0, 0, 1},
		{"one record a second", 0, 1, 1, 3},
		{"steady", 0, 10_000, 10_000, 30},
		{"catching up", 1e9, 500_000, 10_000, 30},
		{"caught up in the middle", 5e6, 500_000, 100, 120},
	} {
		var r reservation
		end, source, reserved, made := 0.0, test.backlog, int64(-1), 0
		for range 6000 { // a minute in steps of 10 ms
			if reserved < 0 || !r.enough(int64(end), reserved) {
				reserved = max(reserved, r.next(now, int64(end), int64(source)))
				made++
			}
			if over := float64(reserved) - source; over > 11*test.fed+2*reserveLeast {
				t.Fatalf("%s: reserved %v beyond the source's end", test.name, over)
			}
			now = now.Add(10 * time.Millisecond)
			source += test.fed / 100
			end = min(end+test.copied/100, source, float64(reserved)+10)
		}
		if made > test.most {
			t.Errorf("%s: %d reservations in a minute, want at most %d", test.name, made, test.most)
		}
		if test.copied > 0 && end < min(test.backlog, test.copied*50) {
			t.Errorf("%s: came to %v only", test.name, end)
		}
	}
}
