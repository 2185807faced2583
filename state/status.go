package state

import "fmt"

// Status is the actual state of a mirror partition. The numbers are the KIP's.
type Status int8

const (
	Preparing Status = 0
	Mirroring Status = 1
	Pausing   Status = 2
	Paused    Status = 3
	Stopping  Status = 4
	Stopped   Status = 5
	Failed    Status = 6
	Unknown   Status = 16 // no state yet
)

// String is the upper case name, as DescribeMirrors shows it.
func (s Status) String() string {
	switch s {
	case Preparing:
		return "PREPARING"
	case Mirroring:
		return "MIRRORING"
	case Pausing:
		return "PAUSING"
	case Paused:
		return "PAUSED"
	case Stopping:
		return "STOPPING"
	case Stopped:
		return "STOPPED"
	case Failed:
		return "FAILED"
	case Unknown:
		return "UNKNOWN"
	}
	return fmt.Sprintf("STATUS(%d)", int8(s))
}

// CanMove says whether a partition may go from one status to another. It is the KIP's table, and in addition STOPPING
// can be entered from UNKNOWN and FAILED: a failover must work before mirroring began and without the source. Staying
// where it is, is always valid; UNKNOWN is never entered.
func CanMove(from, to Status) bool {
	switch to {
	case Preparing:
		return from == Preparing || from == Unknown || from == Stopped || from == Failed
	case Mirroring:
		return from == Mirroring || from == Preparing || from == Paused
	case Pausing:
		return from == Pausing || from == Mirroring
	case Paused:
		return from == Paused || from == Pausing
	case Stopping:
		return from.legal() && from != Stopped
	case Stopped:
		return from == Stopped || from == Stopping
	case Failed:
		return from.legal()
	}
	return false
}

func (s Status) legal() bool { return s >= Preparing && s <= Failed || s == Unknown }
