package state

import (
	"fmt"
	"testing"
)

// TestSavedDelayIsBounded: a script that always says that it has saved its work
// is started once an hour in the end, and is never held.
func TestSavedDelayIsBounded(t *testing.T) {
	s := New()
	d := &dialogue{t: t, state: s, nowMS: 1_000_000}
	for _, line := range []string{"register n1 cpus=4 boot=b1", "submit by=1000 requeue checkpoint=app"} {
		d.play(line)
	}
	for run, waitS := range []int64{30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600} {
		d.play("place 1 n1:0")
		job, _ := s.Job(1)
		if job.Phase != Running {
			t.Fatalf("run %d: the job does not start", run)
		}
		d.play(fmt.Sprintf("ended 1.%d n1 cause=exited code=85", job.Epoch))
		job, _ = s.Job(1)
		if job.Phase != Waiting || job.Held != 0 || job.Failures != 0 || job.BeginMS-d.nowMS != waitS*1000 {
			t.Fatalf("run %d: phase %d, held %d, %d failures, begins in %d ms; want %d s", run, job.Phase, job.Held, job.Failures, job.BeginMS-d.nowMS, waitS)
		}
		d.nowMS = job.BeginMS
	}
}
