package state

import (
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// firstJob is a job's record as programs before LevelShares know it.
type firstJob struct {
	ID          uint32      `cbor:"1,keyasint"`
	Array       uint32      `cbor:"2,keyasint"`
	HasTask     bool        `cbor:"3,keyasint"`
	Task        uint32      `cbor:"4,keyasint"`
	Tasks       []TaskRange `cbor:"5,keyasint"`
	Phase       Phase       `cbor:"7,keyasint"`
	Held        uint8       `cbor:"8,keyasint"`
	Epoch       uint32      `cbor:"9,keyasint"`
	Restarts    uint32      `cbor:"10,keyasint"`
	SubmitMS    int64       `cbor:"11,keyasint"`
	EligibleMS  int64       `cbor:"12,keyasint"`
	Run         *firstRun   `cbor:"13,keyasint"`
	End         *firstEnd   `cbor:"14,keyasint"`
	Detail      string      `cbor:"15,keyasint"`
	Failures    uint32      `cbor:"16,keyasint"`
	Own         Own         `cbor:"20,keyasint"`
	Spec        uint32      `cbor:"21,keyasint"`
	Script      uint32      `cbor:"22,keyasint"`
	Environment uint32      `cbor:"23,keyasint"`
}

type firstRun struct {
	Partition string `cbor:"1,keyasint"`
	StartMS   int64  `cbor:"2,keyasint"`
	Parts     []Part `cbor:"3,keyasint"`
	Fence     bool   `cbor:"4,keyasint"`
}

type firstEnd struct {
	State           pb.JobState `cbor:"1,keyasint"`
	Requeue         bool        `cbor:"2,keyasint"`
	Held            uint8       `cbor:"3,keyasint"`
	Reason          Reason      `cbor:"4,keyasint"`
	Detail          string      `cbor:"5,keyasint"`
	Cancelled       bool        `cbor:"7,keyasint"`
	CancelledBy     uint32      `cbor:"8,keyasint"`
	ExitCode        uint32      `cbor:"9,keyasint"`
	ExitSignal      uint32      `cbor:"10,keyasint"`
	PeakMemoryBytes uint64      `cbor:"11,keyasint"`
	CPUNS           uint64      `cbor:"12,keyasint"`
	EndMS           int64       `cbor:"13,keyasint"`
}

// TestFirstLevelWaits: what jobs go through at the first level leaves records
// that programs of that level read: no age, no memory of failed tasks, no hold
// of what runs.
func TestFirstLevelWaits(t *testing.T) {
	s := New()
	d := &dialogue{t: t, state: s, nowMS: 1_000_000}
	for _, line := range []string{
		"register n1 cpus=8 boot=b", "submit by=1000", "submit by=1000 array=0-3", "wait seconds=5", "hold 1 by=1000", "wait seconds=5",
		"release 1 by=1000", "place 2 n1:0", "hold 3 by=1000", "ended 3.1 n1 cause=exited code=1", "hold 2_3 by=1000", "place 1 n1:1", "requeue 1 by=1000",
		"ended 1.1 n1 cause=cancelled", "wait seconds=500", "barrier", "purge",
	} {
		d.play(line)
	}
	jobs := 0
	for rest := persisted(t, s)[len(magic):]; len(rest) > 0; {
		length := int(rest[0])<<24 | int(rest[1])<<16 | int(rest[2])<<8 | int(rest[3])
		kind, body := frameKind(rest[4]), rest[9:9+length]
		rest = rest[9+length:]
		if kind != frameJob {
			continue
		}
		jobs++
		var job firstJob
		if err := decoding.Unmarshal(body, &job); err != nil {
			t.Errorf("a job holds what the first programs do not know: %v", err)
		}
	}
	if jobs != 3 {
		t.Errorf("%d jobs are left", jobs)
	}
}
