package state

// WantedAction says what should happen to a part on its node.
type WantedAction uint8

// Wanted actions.
const (
	RunPart WantedAction = 1 // it should run: send StartPart if the node does not have it
	EndPart WantedAction = 2 // it should end: send EndPart, also if the node does not have it
)

// WantedPart is one part that a node should have or be ending. A part that a
// node has and that is not wanted there should be ended at once.
type WantedPart struct {
	Job, Epoch uint32
	Action     WantedAction
	Ready      bool
	// ReleaseBatch: every part of a gang is ready, and the node runs its script, or
	// the gang goes on from an image on all its nodes: send ReleaseBatch.
	ReleaseBatch bool
	// For EndPart: seconds between TERM and KILL, when in between TERM is sent
	// again (0 = never), and whether the end of the script is the cause rather
	// than a cancellation.
	GraceS     uint32
	TermAgainS uint32
	BatchEnded bool
	// TimeLimitS is the limit of a part that should run, in seconds, if it was
	// changed since the start: send SetTimeLimit. 0 = it was not.
	TimeLimitS uint32
	// SuspendNumber is that of the last order to stand still, or to go on, and
	// Suspended which of these it is: send SuspendPart. 0 = there was none.
	SuspendNumber uint32
	Suspended     bool
	// Save is the save that is under way: send SavePart; 0 = none. Stand: the part
	// stands still after it. Abandon is one that was taken back: what stands for it
	// goes on, or has its time to end, which it is told first.
	Save    uint32
	Stand   bool
	Abandon uint32
}

// WantedParts is what should run on a node, ascending by job.
func (t *tables) WantedParts(node string) []WantedPart {
	var wanted []WantedPart
	for job := range t.JobsOn(node) {
		part := job.Part(node)
		w := WantedPart{Job: job.ID, Epoch: job.Epoch, Action: RunPart, Ready: part.Ready}
		if job.Phase == Ending {
			w.Action = EndPart
			w.GraceS = t.policy.KillWaitS
			w.BatchEnded = job.Run.Parts[0].Released
			if p := job.End.Preempted; p != nil && !w.BatchEnded {
				w.TermAgainS = p.GraceS
				w.GraceS += p.GraceS
			}
			if job.End.Stands {
				w.GraceS = 0
			}
			w.Abandon = job.Run.Abandoned
		} else {
			if job.Run.Relimited {
				w.TimeLimitS = job.TimeLimitS()
			}
			w.SuspendNumber, w.Suspended = job.Run.SuspendNumber, job.Suspended()
			// What stands still can not start a script.
			w.ReleaseBatch = job.IsGang() && (job.Run.BatchHost() == node || job.Run.Restore != nil) && !job.Configuring() && !w.Suspended
			w.Abandon = job.Run.Abandoned
			if saving := job.Saving(); saving != nil {
				// The parts of a gang stand until all are saved.
				w.Save, w.Stand = saving.Number, saving.Purpose.stands() || job.IsGang()
			}
		}
		wanted = append(wanted, w)
	}
	return wanted
}

// IsGang says whether the present run has several parts, so that the script
// waits until all are ready.
func (j *Job) IsGang() bool { return j.Run != nil && len(j.Run.Parts) > 1 }
