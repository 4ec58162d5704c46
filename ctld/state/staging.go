package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// A job whose files are staged has up to three runs: one that copies them in, on one CPU
// of each node and without GPUs; the job's own, on the same nodes; and one that copies its
// results out, again without GPUs. Between them the job waits like any other, and its nodes
// keep its disks. Each run is placed and reported as all are, and ends when all its nodes
// have copied: see copied.go. To users the first is a wait, with Slurm's reason for it, and
// the last is STAGE_OUT.

// Stage is which of the runs a job waits for or has. Numbers are persisted: append only.
type Stage uint8

// Stages.
const (
	StageIn  Stage = 1
	StageRun Stage = 2
	StageOut Stage = 3
)

// Staged is how far a job is with its stages. A stored one is never changed.
type Staged struct {
	Stage Stage `cbor:"1,keyasint"`
	// Nodes have the job's disks, ascending; with StageOut those from which results are not
	// away. nil = none has.
	Nodes []string `cbor:"2,keyasint,omitempty"`
	// Run and End are the job's own, with StageOut.
	Run *Run `cbor:"3,keyasint,omitempty"`
	End *End `cbor:"4,keyasint,omitempty"`
	// Copies: some nodes of the present run are over, and the others still copy.
	Copies bool `cbor:"5,keyasint,omitempty"`
	// Failed says which results did not go, and why; with StageOut.
	Failed string `cbor:"6,keyasint,omitempty"`
}

// Staging is one copy.
type Staging struct {
	Source string `cbor:"1,keyasint"`
	Target string `cbor:"2,keyasint"`
	Out    bool   `cbor:"3,keyasint,omitempty"`
	Once   bool   `cbor:"4,keyasint,omitempty"`
}

// has reports whether files are staged out, or in.
func (s *Spec) has(out bool) bool {
	return slices.ContainsFunc(s.Staging, func(one Staging) bool { return one.Out == out })
}

// firstStage is where a job begins; nil if it has no files to stage.
func (s *Spec) firstStage() *Staged {
	switch {
	case s.has(false):
		return &Staged{Stage: StageIn}
	case s.has(true):
		return &Staged{Stage: StageRun}
	}
	return nil
}

// stages reports whether the job's present run, or the next one, only copies files.
func (j *Job) stages() bool { return j.Staged != nil && j.Staged.Stage != StageRun }

// Stages is stages of a job that holds nodes.
func (j *Job) Stages() bool { return j.stages() && j.HoldsNodes() }

// stagesOut reports whether the job has run, and its results are not all away.
func (j *Job) stagesOut() bool {
	return j.stages() && j.Staged.Stage == StageOut && j.Phase != Finished
}

// stagesIn reports whether the job's files come, and it has not begun for users.
func (j *Job) stagesIn() bool {
	return j.Stages() && j.Staged.Stage == StageIn && (j.End == nil || j.End.Requeue || j.copies())
}

// waitsFor are the nodes on which a waiting job has to run, because they have its files, or
// its results; nil = there are none.
func (s *Staged) waitsFor() []string {
	if s == nil {
		return nil
	}
	return s.Nodes
}

// pinnedOff reports whether a job may not have a node because its files are on others. A job
// that runs with its files takes them along, in its image.
func (j *Job) pinnedOff(node string) bool {
	moves := j.Phase != Waiting && j.Staged != nil && j.Staged.Stage == StageRun
	return j.Staged.waitsFor() != nil && !slices.Contains(j.Staged.Nodes, node) && !moves
}

// checkStagedNodes says why a run of the job cannot be on so many nodes. Results may go from
// some of the nodes that have them, while others are away.
func (j *Job) checkStagedNodes(count int) error {
	if j.Staged == nil || j.Staged.Stage == StageOut {
		return nil
	}
	if want := int(j.Spec.MinNodes); count != want {
		return fmt.Errorf("job %d has files to stage to %d nodes, and is placed on %d", j.ID, want, count)
	}
	return nil
}

// nextStage is what becomes of a job after a run of it, whose last allocation is released:
// it waits again for the next stage, or is over as the answer says, or as its run says if
// that is nil.
func (s *State) nextStage(job *Job) (next *Job, again bool) {
	switch {
	case job.Staged == nil:
		return nil, false
	case job.Staged.Stage == StageOut:
		return s.afterStageOut(job)
	case job.End.Requeue:
		return nil, false
	}
	switch done := job.End.State == pb.JobState_JOB_STATE_COMPLETED; {
	case job.Staged.Stage == StageIn && done:
		return s.awaitStage(job, &Staged{Stage: StageRun, Nodes: job.Run.nodes()}), true
	case job.Staged.Stage == StageIn:
		return job.stagingFailed("stage-in", whyNotCopied(job.End), job.End), false
	case job.Spec.has(true) && !job.End.Cancelled:
		end := *job.End
		end.EndMS = s.timeMS
		return s.awaitStage(job, &Staged{Stage: StageOut, Nodes: job.Run.nodes(), Run: job.Run, End: &end}), true
	}
	return nil, false
}

// afterStageOut is nextStage of a job whose results went, or did not.
func (s *State) afterStageOut(job *Job) (next *Job, again bool) {
	staged := job.Staged
	switch {
	case job.End.Cancelled:
		end := *job.End
		return job.over(&end), false
	case len(staged.Nodes) > 0 && job.End.Requeue:
		return nil, false
	case len(staged.Nodes) > 0: // some were away
		rest := *staged
		rest.Copies = false
		return s.awaitStage(job, &rest), true
	case staged.Failed == "":
		return job.over(staged.End), false
	case staged.End.State == pb.JobState_JOB_STATE_COMPLETED:
		return job.stagingFailed("stage-out", staged.Failed, staged.End), false
	}
	end := *staged.End
	end.Detail = bounds.Clip(joinSentences(end.Detail, "stage-out failed: "+staged.Failed), bounds.MaxTextBytes)
	return job.over(&end), false
}

func (j *Job) over(end *End) *Job {
	next := *j
	next.End = end
	return &next
}

// stagingFailed is a job that is over because its files were not copied by its run.
func (j *Job) stagingFailed(what, why string, end *End) *Job {
	if j.End.Cancelled {
		return j
	}
	failed := *end
	failed.State, failed.Reason = pb.JobState_JOB_STATE_FAILED, ReasonBurstBufferOperation
	failed.ExitCode, failed.ExitSignal = 0, 0 // it is that of no script of the user's
	failed.Detail = bounds.Clip(what+" failed: "+why, bounds.MaxTextBytes)
	return j.over(&failed)
}

// awaitStage is a job that waits for its next stage. It keeps its age.
func (s *State) awaitStage(job *Job, stage *Staged) *Job {
	next := *job
	next.Phase, next.Staged = Waiting, stage
	next.Epoch = max(job.Epoch, job.lastEpoch())
	next.AgedMS, next.EligibleMS = job.AgedMS+max(job.Run.StartMS-job.EligibleMS, 0), s.timeMS
	next.Saved, next.Detail = job.Saved.over(), ""
	if stage.Stage == StageOut {
		next.DeadlineMS = 0 // it has ended
	}
	next.Run, next.End = nil, nil
	if next.Dependencies.has(singleton) {
		s.judgeSingleton(&next)
	}
	return &next
}

// stagedAgain is the stage of a job that waits again after a run that was requeued. What is
// in an image has the job's files.
func (j *Job) stagedAgain(next *Job) *Staged {
	switch {
	case j.stagesOut():
		rest := *j.Staged
		rest.Copies = false
		return &rest
	case j.Staged != nil && j.Staged.Stage == StageRun && len(next.Images()) > 0:
		return &Staged{Stage: StageRun}
	}
	return j.Spec.firstStage()
}

// withoutStages is a job that is over at a time: what is told of it is its own run.
func (j *Job) withoutStages(nowMS int64) *Job {
	if j.Staged == nil {
		return j
	}
	next := *j
	next.Staged = nil
	if j.Staged.Run == nil {
		return &next
	}
	own, end := j.Staged.End, *j.End
	end.EndMS, end.ExitCode, end.ExitSignal = own.EndMS, own.ExitCode, own.ExitSignal
	end.OverMS = nowMS
	end.PeakMemoryBytes, end.CPUNS = own.PeakMemoryBytes, own.CPUNS
	next.Run, next.End = j.Staged.Run, &end
	return &next
}

// stagedGone is the end of a run whose node no longer has the job's files.
func stagedGone(job *Job, report *AllocReport) End {
	detail := withColon("the job's files are gone", report.Node, report.Detail)
	if job.stagesOut() {
		return End{State: pb.JobState_JOB_STATE_NODE_FAIL, Reason: ReasonNodeDown, Detail: detail}
	}
	return End{State: pb.JobState_JOB_STATE_NODE_FAIL, Requeue: true, Elsewhere: true, Reason: ReasonNodeDown, Detail: detail + "; they are staged in again"}
}

// indexStaged tells the index of jobs with files to stage of a record.
func indexStaged(job *Job, change func(id uint32)) {
	if job.Staged != nil {
		change(job.ID)
	}
}

// StagedJobs are the jobs whose disks nodes keep for a later run, by node, ascending.
func (t *tables) StagedJobs() map[string][]uint32 {
	kept := make(map[string][]uint32)
	t.staged.Scan(func(id uint32, _ struct{}) bool {
		job, _ := t.live.Get(id)
		for _, node := range job.diskNodes() {
			kept[node] = append(kept[node], id)
		}
		return true
	})
	return kept
}

// diskNodes are the nodes that have a disk of the job, or will, ascending.
func (j *Job) diskNodes() []string {
	if !j.HoldsNodes() {
		return j.Staged.Nodes
	}
	nodes := slices.Concat(j.Staged.Nodes, j.Run.nodes())
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// checkStaged says what is wrong with a job's stages.
func checkStaged(job *Job) error {
	staged := job.Staged
	if staged == nil {
		return nil
	}
	wrong := func(what string) error { return fmt.Errorf("job %d: %s", job.ID, what) }
	switch {
	case job.Phase == Finished:
		return wrong("is over and has a stage")
	case len(job.Spec.Staging) == 0 || staged.Stage < StageIn || staged.Stage > StageOut:
		return wrong("has a stage and nothing to stage")
	case (staged.Stage == StageOut) != (staged.Run != nil && staged.End != nil):
		return wrong("stages results out of a run that it did not have")
	case staged.Stage == StageIn && staged.Nodes != nil, staged.Stage == StageOut && len(staged.Nodes) == 0 && !job.HoldsNodes():
		return wrong("its disks are nowhere, or where they cannot be")
	case !slices.IsSorted(staged.Nodes), staged.Stage == StageRun && staged.Nodes != nil && len(staged.Nodes) != int(job.Spec.MinNodes):
		return wrong("its disks are not on as many nodes as it has")
	case staged.Copies && (job.Phase != Ending || staged.Stage == StageRun), staged.Failed != "" && staged.Stage != StageOut:
		return wrong("still copies, and does not")
	case !job.stages() || !job.HoldsNodes():
		return nil
	}
	for i := range job.Run.Allocs {
		if len(job.Run.Allocs[i].Devices) > 0 {
			return wrong("copies files and has GPUs")
		}
	}
	return nil
}
