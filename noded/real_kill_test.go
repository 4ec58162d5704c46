package noded

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestRealDaemonIsKilledInLaunch: whatever a launch had come to when the
// daemon was killed, the job runs at most once, and its end is reported.
func TestRealDaemonIsKilledInLaunch(t *testing.T) {
	n := newRealNode(t)
	s := n.startDaemon()
	for job := uint32(1); job <= 8; job++ {
		order := n.order(job, fmt.Sprintf("echo ran >> ran-%d; exit 5", job))
		s.start(order)
		time.Sleep(time.Duration(job-1) * 8 * time.Millisecond)
		n.killDaemon()
		s = n.startDaemon()
		s.start(order) // as a controller does that has not heard of an end
		got := s.ended()
		for got.Alloc.Job != job { // the end of the one before, said once more
			got = s.ended()
		}
		ran, _ := os.ReadFile(filepath.Join(n.directory, "work", fmt.Sprintf("ran-%d", job)))
		finished := got.Cause == pb.EndCause_END_CAUSE_EXITED && got.ExitCode == 5
		cutOff := got.Cause == pb.EndCause_END_CAUSE_SUPERVISOR_DIED
		if times := strings.Count(string(ran), "ran"); times > 1 || finished && times != 1 || !finished && !cutOff {
			t.Errorf("job %d ran %d times and ended: %v", job, times, got)
		}
	}
	// Not before: the daemon that is killed next might not have heard it.
	eventually(t, "all allocations are forgotten", func() bool {
		for job := uint32(1); job <= 8; job++ {
			s.acknowledge(&pb.AllocId{Job: job, Epoch: 1})
		}
		time.Sleep(50 * time.Millisecond)
		return len(n.allocs()) == 0
	})
}

// TestRealStopJobsWhileStarting: the daemon is killed while it starts many
// jobs, and stop-jobs comes at once.
func TestRealStopJobsWhileStarting(t *testing.T) {
	n := newRealNode(t)
	for round := range uint32(4) {
		s := n.startDaemon()
		for job := uint32(1); job <= 6; job++ {
			s.start(n.order(10*round+job, "sleep 600"))
		}
		time.Sleep(time.Duration(round) * 25 * time.Millisecond)
		n.killDaemon()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := StopJobs(ctx, n.config, slog.New(slog.DiscardHandler)); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		cancel()
		if left := n.allocs(); len(left) != 0 {
			t.Errorf("round %d: directories are left: %v", round, left)
		}
	}
}
