package state

import (
	"fmt"
	"math"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file has nodes that are to be empty. What can be saved moves; what finds no room
// elsewhere is saved, and its run ends once the image is off the node; and what cannot
// be saved runs on, until the deadline if there is one. The leader orders the moves and
// saves (leader/evacuate.go).

const (
	// MaxEvacuationMS is the longest time in which a node may be emptied.
	MaxEvacuationMS = 7 * 24 * 3600 * 1000
	// awayMS is for how long a job stands with an image that does not come off its node.
	awayMS = 15 * 60 * 1000
)

// Evacuation says that the jobs of a drained node leave it. A stored one is never changed.
type Evacuation struct {
	AtMS int64 `cbor:"1,keyasint"`
	// DeadlineMS is until when what could not leave runs on; 0 = to its end.
	DeadlineMS int64 `cbor:"2,keyasint,omitempty"`
	// Own: the node says that it leaves, and nobody else; it ends when the node stays after
	// all, or is back. Drained: it was drained before.
	Own     bool `cbor:"420,keyasint,omitempty"`
	Drained bool `cbor:"421,keyasint,omitempty"`
}

// Away is a run that is frozen by an image, and ends once that is off its node.
type Away struct {
	Number  uint32 `cbor:"1,keyasint"`
	UntilMS int64  `cbor:"2,keyasint"` // then it runs on
}

// evacuate notes in a copy of a node that a command has it emptied. Another drain leaves
// that in force, and a deadline only comes nearer.
func (n *Node) evacuate(c *UpdateNodes, nowMS int64) {
	if !c.Evacuate {
		return
	}
	next := Evacuation{AtMS: nowMS}
	if before := n.Evacuation; before != nil {
		next = *before
		next.Own, next.Drained = false, false
	}
	if c.WithinMS != 0 && (next.DeadlineMS == 0 || nowMS+c.WithinMS < next.DeadlineMS) {
		next.DeadlineMS = nowMS + c.WithinMS
	}
	n.Evacuation = &next
}

// mayEvacuate reports whether a coordinator may do to a node what a command says.
func (t *tables) mayEvacuate(c *UpdateNodes, node *Node) bool {
	if !t.MayReclaim(c.Coordinator, false, node.Name) {
		return false
	}
	if c.Action == ResumeNode { // an operator's drain stays
		return node.Evacuation != nil && node.ReasonUser == c.User && !node.Down
	}
	return c.Action == DrainNode && c.Evacuate && !node.Down && (!node.Drain || node.Evacuation != nil)
}

// mayEvacuateJob says why a job is not saved to leave its nodes.
func (t *tables) mayEvacuateJob(job *Job) *Refusal {
	if !t.evacuated(job) {
		return refuse(WrongState, "none of its nodes is being emptied")
	}
	return nil
}

// evacuated reports whether a node of a job's run is being emptied.
func (t *tables) evacuated(job *Job) bool { return len(t.emptied(job)) > 0 }

// emptied are those nodes.
func (t *tables) emptied(job *Job) (names []string) {
	for i := range job.Run.Allocs {
		if node, known := t.nodes.Get(job.Run.Allocs[i].Node); known && node.Evacuation != nil && !job.Run.Allocs[i].Released {
			names = append(names, node.Name)
		}
	}
	return names
}

// MustLeave reports whether a node of a running job is being emptied.
func (v *View) MustLeave(job *Job) bool { return job.Run != nil && v.evacuated(job) }

// savedToLeave handles a job that is frozen by its image to leave its node. next saves
// nothing from now on.
func (s *State) savedToLeave(next *Job, number uint32) {
	switch {
	case !s.evacuated(next):
		next.abortSave(number)
		s.putJob(next)
	case s.offNodes(next, next.Saved.image(number)):
		s.leaveNode(next, number)
	default:
		run := *next.Run
		run.Abandoned, run.Away = 0, &Away{Number: number, UntilMS: s.timeMS + awayMS}
		next.Run = &run
		s.putJob(next)
	}
}

// leaveNode ends a run whose image is off its node. The job waits for room elsewhere.
func (s *State) leaveNode(job *Job, number uint32) {
	next := *job
	next.decided(&End{
		State: pb.JobState_JOB_STATE_PREEMPTED, Requeue: true, Frozen: true, Preempted: &Preempted{AtMS: s.timeMS},
		Detail: fmt.Sprintf("node %s is being emptied: resumes elsewhere from image %d", words.FormatHostList(s.emptied(job)), number),
	})
	s.putJob(&next)
}

// stay has the jobs on a node that stand to leave it run on.
func (s *State) stay(name string) {
	node, _ := s.nodes.Get(name)
	for _, id := range node.use.jobs {
		if job, known := s.Job(id); known && job.Phase == Running && job.Run.Away != nil && !s.evacuated(job) {
			s.putJob(job.staying())
		}
	}
}

// staying is a job that does not leave its node after all.
func (j *Job) staying() *Job {
	next, run := *j, *j.Run
	next.Run = &run
	run.Abandoned, run.Away = run.Away.Number, nil
	return &next
}

// EndEvacuations does what is due by log time: what could not leave a node until its
// deadline ends as if it were preempted, and what has stood for too long with an image
// that does not come off its node runs on.
type EndEvacuations struct{}

func (EndEvacuations) kind() Kind { return KindEndEvacuations }
func (c EndEvacuations) apply(s *State, result *Result) {
	var emptied []*Node
	for node := range s.Nodes() {
		if node.Evacuation != nil {
			emptied = append(emptied, node)
		}
	}
	for _, node := range emptied {
		for _, id := range node.use.jobs {
			job, known := s.Job(id)
			switch {
			case !known || job.Phase != Running:
			case s.dueMS(job, node) <= s.timeMS && job.Alloc(node.Name) != nil:
				s.evict(job, node)
			case job.Run.Away != nil && job.Run.Away.UntilMS <= s.timeMS:
				next, saved := job.staying().withSaved()
				saved.FailedNumber, saved.FailedMS = job.Run.Away.Number, s.timeMS
				saved.Failed = "no second node had a copy of its image in time, so it runs on where it is"
				s.putJob(next)
			}
		}
	}
}

// dueMS is when a job that could not leave a node must begin to end; the largest number
// if there is no deadline.
func (t *tables) dueMS(job *Job, node *Node) int64 {
	if node.Evacuation.DeadlineMS == 0 {
		return math.MaxInt64
	}
	graceMS := int64(t.graceS(job)) * 1000
	if node.Evacuation.Own { // then it is gone: what ends has its time before
		graceMS = min(graceMS+int64(t.policy.KillWaitS)*1000, (node.Evacuation.DeadlineMS-node.Evacuation.AtMS)/2)
	}
	return node.Evacuation.DeadlineMS - graceMS
}

// EvacuationsEndMS is when something is due for EndEvacuations; 0 = nothing ever.
func (v *View) EvacuationsEndMS() (atMS int64) {
	for node := range v.Nodes() {
		if node.Evacuation == nil {
			continue
		}
		for job := range v.JobsOn(node.Name) {
			if job.Phase != Running || v.isSuccessor(job) {
				continue
			}
			at := v.dueMS(job, node)
			if away := job.Run.Away; away != nil {
				at = min(at, away.UntilMS)
			}
			if at != math.MaxInt64 && (atMS == 0 || at < atMS) {
				atMS = max(at, 1)
			}
		}
	}
	return atMS
}

// evict ends the run of a job that could not leave a node in time.
func (s *State) evict(job *Job, node *Node) {
	next := *job
	end := End{
		State: pb.JobState_JOB_STATE_PREEMPTED, Requeue: job.mayGoOn(),
		Preempted: &Preempted{AtMS: s.timeMS, GraceS: s.graceS(job)},
		Detail:    fmt.Sprintf("node %s had to be empty, and the job could not leave it in time", node.Name),
	}
	if node.Evacuation.Own {
		end.Preempted.ByMS = node.Evacuation.DeadlineMS
	}
	switch {
	case job.frozenToMove():
		next, end.Frozen, end.Preempted.GraceS = *s.leaving(job), true, 0
		end.Detail += job.goesOnText()
	case end.Requeue:
		next.notePreemption(job.lostGPUMS(s.timeMS))
		end.Detail += "; requeued" + job.goesOnText()
	default:
		end.Detail += "; not requeued, because it was submitted with --no-requeue"
	}
	end.Detail = bounds.Clip(end.Detail, bounds.MaxTextBytes)
	next.decided(&end)
	s.putJob(&next)
}

// Evacuated are the running jobs on nodes that are being emptied, ascending by node and
// number.
func (v *View) Evacuated(yield func(*Job) bool) {
	for node := range v.Nodes() {
		if node.Evacuation == nil {
			continue
		}
		for job := range v.JobsOn(node.Name) {
			if job.Phase == Running && !v.isSuccessor(job) && !yield(job) {
				return
			}
		}
	}
}

// evacuationMessage is how far a node is from being empty.
func (t *tables) evacuationMessage(node *Node) *pb.Evacuation {
	if node.Evacuation == nil {
		return nil
	}
	out := &pb.Evacuation{AtMs: node.Evacuation.AtMS, DeadlineMs: node.Evacuation.DeadlineMS}
	for job := range t.JobsOn(node.Name) {
		out.Jobs = append(out.Jobs, &pb.LeavingJob{Job: job.ID, State: t.leavingText(job)})
	}
	return out
}

// leavingText says why a job is still on a node that is being emptied.
func (t *tables) leavingText(job *Job) string {
	present, _ := t.Job(job.ID)
	switch {
	case present.Epoch != job.Epoch || job.Phase == Ending:
		return "its run is over, and the node cleans up"
	case job.Run.Away != nil:
		return fmt.Sprintf("it is frozen, and image %d is being copied to another node", job.Run.Away.Number)
	case job.Moving() != nil:
		return fmt.Sprintf("it moves to node %s", words.FormatHostList(job.Successor().Run.nodes()))
	case job.Saving() != nil:
		return "it is being saved"
	case job.Spec.Checkpoint.Mode == words.CheckpointNone:
		return "it runs on, because it was submitted with --checkpoint=none"
	case job.Spec.Checkpoint.Mode == words.CheckpointApp:
		return "it runs on, because it saves itself (--checkpoint=app)"
	case job.NotSavable() != "":
		return "it runs on, because " + job.NotSavable()
	case job.Suspended():
		return "it is suspended"
	case job.Configuring():
		return "it is being started"
	case job.Saved != nil && job.Saved.Failed != "":
		return fmt.Sprintf("it runs on, because it was not saved: gcontrol show job %d says why", job.ID)
	}
	return "it runs on until it can be saved: gcontrol show job says when that is (Checkpointable)"
}
