package state

import "testing"

// TestCanMove writes the table of wire.md section 4 (with the two additions) out once more, row by row, and compares
// every pair of possible bytes.
func TestCanMove(t *testing.T) {
	all := []Status{Preparing, Mirroring, Pausing, Paused, Stopping, Stopped, Failed, Unknown}
	from := map[Status][]Status{ // target: the sources
		Preparing: {Preparing, Unknown, Stopped, Failed},
		Mirroring: {Mirroring, Preparing, Paused},
		Pausing:   {Pausing, Mirroring},
		Paused:    {Paused, Pausing},
		Stopping:  {Stopping, Preparing, Mirroring, Pausing, Paused, Unknown, Failed},
		Stopped:   {Stopped, Stopping},
		Failed:    all,
		Unknown:   nil,
	}
	want := map[[2]Status]bool{}
	for to, sources := range from {
		for _, source := range sources {
			want[[2]Status{source, to}] = true
		}
	}
	for a := -128; a < 128; a++ {
		for b := -128; b < 128; b++ {
			if got := CanMove(Status(a), Status(b)); got != want[[2]Status{Status(a), Status(b)}] {
				t.Errorf("CanMove(%s, %s) = %v", Status(a), Status(b), got)
			}
		}
	}
}

func TestStatusNames(t *testing.T) {
	for status, want := range map[Status]string{
		Preparing: "PREPARING", Mirroring: "MIRRORING", Pausing: "PAUSING", Paused: "PAUSED",
		Stopping: "STOPPING", Stopped: "STOPPED", Failed: "FAILED", Unknown: "UNKNOWN", 7: "STATUS(7)",
	} {
		if got := status.String(); got != want {
			t.Errorf("Status(%d) is %s, want %s", int8(status), got, want)
		}
	}
}
