package control

import (
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestCompleting: jobs that are over while nodes clean up after them, with the time that
// this has taken, and no others.
func TestCompleting(t *testing.T) {
	clienttest.FixTime(t)
	over := func(id uint32, completing bool) *pb.Job {
		return &pb.Job{Id: &pb.JobId{Job: id}, Owner: clienttest.Ada, State: pb.JobState_JOB_STATE_COMPLETED, Completing: completing, NodeList: "n[1-2]",
			EndMs: clienttest.StubNow.Add(-95 * time.Second).UnixMilli(), Spec: &pb.JobSpec{Name: "x"}}
	}
	clienttest.ServeStub(t, &clienttest.StubController{Jobs: []*pb.Job{over(1, false), over(2, true)}})
	out, stderr, status := typed(t, t.Context(), nil, "gcontrol completing")
	want := "JobId=2 EndTime=" + clienttest.StubNow.Add(-95*time.Second).Local().Format("2006-01-02T15:04:05") + " CompletingTime=00:01:35 Nodes(COMPLETING)=n[1-2] \n"
	if out != want || status != 0 {
		t.Errorf("status %d, %q, want %q; %s", status, out, want, stderr)
	}
}
