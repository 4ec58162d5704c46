package explain

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/sched"
)

// TestMovedByLessThanASecond is told to nobody: it reads as a start zero minutes later.
func TestMovedByLessThanASecond(t *testing.T) {
	m := sched.Moved{FromMS: 60_000, By: sched.MovedByJob, Job: 2, Node: "n1"}
	for startMS, told := range map[int64]bool{60_999: false, 61_000: true, 0: true} {
		if text := Moved(m, startMS); (text != "") != told {
			t.Errorf("planned for %d: %q", startMS, text)
		}
	}
}
