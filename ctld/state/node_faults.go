package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// A launch that failed by the node's fault, as its supervisor sees it, may be
// the fault of the node or of the job: a user's choices can fail in ways that
// nobody foresaw, and a user who finds one must not be able to take nodes from
// others. So a node tests itself when a launch has failed, and says so if it
// can start nothing (Inventory.Trouble). A fault that this test misses drains
// the node only when the jobs of several users meet it, one soon after the
// other, and nobody's job starts.
const (
	// drainingUsers is how many different users' jobs have to fail.
	drainingUsers = 3
	// faultMemoryMS is how long a failed launch counts, in the log's time.
	faultMemoryMS = 3600 * 1000
)

// LaunchFault is the last failed launch of a user's on a node.
type LaunchFault struct {
	UID uint32 `cbor:"1,keyasint"`
	MS  int64  `cbor:"2,keyasint"`
}

// noteFault counts a launch that failed by the node's fault, and drains the
// node when the launches of enough users did. The list is empty again when a
// job starts there, or when the node is resumed or restarted.
func (s *State) noteFault(report *AllocReport, uid uint32) {
	old, known := s.nodes.Get(report.Node)
	if report.Cause != pb.EndCause_END_CAUSE_NODE_FAULT || !known || old.Drain {
		return
	}
	node := *old
	node.Faults = slices.DeleteFunc(slices.Clone(old.Faults), func(f LaunchFault) bool {
		return f.UID == uid || f.MS+faultMemoryMS <= s.timeMS
	})
	node.Faults = append(node.Faults, LaunchFault{UID: uid, MS: s.timeMS})
	if len(node.Faults) >= drainingUsers {
		node.Drain = true
		node.Reason = bounds.Clip(fmt.Sprintf("jobs of %d users could not start within an hour, and no other did: see journalctl -u gnoded there and gdoctor, then gcontrol update NodeName=%s State=RESUME; the last was job %d: %s",
			len(node.Faults), report.Node, report.Job, report.Detail), bounds.MaxTextBytes)
		node.ReasonMS = s.timeMS
		node.ReasonUser = systemUser
		node.Faults = nil
	}
	s.putNode(&node)
}

// launched notes that a job has started on a node.
func (s *State) launched(name string) {
	old, known := s.nodes.Get(name)
	if !known || len(old.Faults) == 0 {
		return
	}
	node := *old
	node.Faults = nil
	s.putNode(&node)
}

// launchFailed ends a run that failed by the node's fault. One whose container
// was up has run. Any other has not, and waits again: elsewhere, if the node
// has found itself unfit, and held if that happens too often (maxBatchRequeue).
func launchFailed(job *Job, report *AllocReport) End {
	if job.Alloc(report.Node).Ready {
		return nodeFailure(job, ReasonNodeDown, withColon("the job was stopped", report.Node, report.Detail))
	}
	return End{
		State: pb.JobState_JOB_STATE_NODE_FAIL, Requeue: true,
		Reason: ReasonJobLaunchFailure, Detail: withColon("the launch failed", report.Node, report.Detail),
	}
}
