package state

// WantedAction says what should happen to an allocation on its node.
type WantedAction uint8

// Wanted actions.
const (
	RunAlloc WantedAction = 1 // it should run: send StartAlloc if the node does not have it
	EndAlloc WantedAction = 2 // it should end: send EndAlloc, also if the node does not have it
)

// WantedAlloc is one allocation that a node should have or be ending. An
// allocation that a node has and that is not wanted there should be ended at
// once.
type WantedAlloc struct {
	Job, Epoch uint32
	Action     WantedAction
	Ready      bool
	// ReleaseBatch: every allocation of a gang is ready, and the node runs its script, or
	// the gang resumes from an image on all its nodes; or the run took the place of
	// another one: send ReleaseBatch. So does every node of a job with a network between
	// its nodes, and NetworkNodes are all of them, in the order of its allocations.
	ReleaseBatch bool
	NetworkNodes []string
	// For EndAlloc: seconds between TERM and KILL, when TERM is sent again in
	// between (0 = never), and whether the cause is the end of the script
	// rather than a cancellation.
	GraceS     uint32
	TermAgainS uint32
	BatchEnded bool
	// TimeLimitS is the limit of an allocation that should run, in seconds, if it was
	// changed since the start: send SetTimeLimit. 0 = it was not.
	TimeLimitS uint32
	// SuspendNumber is that of the last order to stop or to continue, and
	// Suspended which of these it is: send SuspendAlloc. 0 = there was none.
	SuspendNumber uint32
	Suspended     bool
	// Park: with Suspended, its devices are to be free too; ParkByMS is until when,
	// in log time. What is over by then is killed by its node.
	Park     bool
	ParkByMS int64
	// EndByMS, of an EndAlloc, is until when it has to be over, in log time,
	// however long its grace time is, because the node is reclaimed, or about to be
	// switched off; 0 = no such time.
	EndByMS int64
	// Save is the save that is under way: send SaveAlloc; 0 = none. Stand: the
	// allocation is frozen after it. Abandon is one that was taken back: an
	// allocation that is frozen for it continues, or has its time to end, which
	// it is told first.
	Save    uint32
	Stand   bool
	Abandon uint32
	// Successor: it is of a run that should take the place of another one, and
	// is not the job's run yet: it is restored, and frozen.
	Successor bool
}

// WantedAllocs is what should run on a node, ascending by job.
func (t *tables) WantedAllocs(node string) []WantedAlloc {
	var wanted []WantedAlloc
	record, _ := t.nodes.Get(node)
	for job := range t.JobsOn(node) {
		if job.Phase != Ending && job.Run.Moved && job.Run.Restore == nil {
			continue // there is nothing to resume from yet
		}
		alloc := job.Alloc(node)
		w := WantedAlloc{Job: job.ID, Epoch: job.Epoch, Action: RunAlloc, Ready: alloc.Ready}
		if job.Phase == Ending && (!job.copies() || t.keptFrom(job, record)) {
			w.Action = EndAlloc
			w.GraceS = t.policy.KillWaitS
			w.BatchEnded = job.Run.Allocs[0].Released && !job.stages()
			if p := job.End.Preempted; p != nil && !w.BatchEnded {
				w.TermAgainS = p.GraceS
				w.GraceS += p.GraceS
			}
			if job.End.Frozen {
				w.GraceS = 0
			}
			switch kept := t.keptFrom(job, record); {
			case kept && alloc.Parked: // others have its CPUs: it does not run again
				w.GraceS, w.TermAgainS = 0, 0
			case kept:
				w.EndByMS = record.Reclaim.DeadlineMS
			case job.End.Preempted != nil:
				w.EndByMS = job.End.Preempted.ByMS
			}
			w.Abandon = job.Run.Abandoned
		} else {
			if job.Run.Relimited {
				w.TimeLimitS = job.TimeLimitS()
			}
			w.SuspendNumber, w.Suspended = job.Run.SuspendNumber, job.Suspended()
			w.Park, w.ParkByMS = w.Suspended && alloc.ParkByMS != 0, alloc.ParkByMS
			// A stopped allocation cannot start a script.
			w.ReleaseBatch = job.IsGang() && !job.stages() && (job.Run.BatchHost() == node || job.Run.Restore != nil || job.HasNetwork()) && !job.Configuring() && !w.Suspended
			w.ReleaseBatch = w.ReleaseBatch || job.Run.Moved && !w.Suspended
			if w.ReleaseBatch && job.HasNetwork() {
				w.NetworkNodes = job.Run.nodes()
			}
			if t.isSuccessor(job) { // it runs once that is decided
				w.Successor, w.ReleaseBatch = true, false
			}
			w.Abandon = job.Run.Abandoned
			if saving := job.Saving(); saving != nil {
				// The allocations of a gang are frozen until all are saved.
				w.Save, w.Stand = saving.Number, saving.Purpose.stands() || job.IsGang()
			}
		}
		wanted = append(wanted, w)
	}
	return wanted
}

// isSuccessor reports whether a job as a node has it is the successor of the
// job's run.
func (t *tables) isSuccessor(job *Job) bool {
	present, _ := t.Job(job.ID)
	return present.Epoch != job.Epoch && job.Phase == Running
}

// IsGang reports whether the present run has several allocations, so that the script
// waits until all are ready.
func (j *Job) IsGang() bool { return j.Run != nil && len(j.Run.Allocs) > 1 }
