package state

import "cmp"

// String is Slurm's word for the reason.
func (r Reason) String() string {
	switch r {
	case ReasonNone:
		return "None"
	case ReasonNonZeroExitCode:
		return "NonZeroExitCode"
	case ReasonTimeLimit:
		return "TimeLimit"
	case ReasonOutOfMemory:
		return "OutOfMemory"
	case ReasonNodeDown, ReasonSupervisorDied:
		return "NodeDown"
	case ReasonJobLaunchFailure:
		return "JobLaunchFailure"
	case ReasonDeadline:
		return "DeadLine"
	case ReasonDependencyNeverSatisfied:
		return "DependencyNeverSatisfied"
	case ReasonBurstBufferOperation:
		return "BurstBufferOperation"
	default:
		return "Unknown"
	}
}

// ReasonWord is why the job is as it is at a time, in Slurm's word, as far as
// the state knows: why it is held, which job it waits for, or why it ended. For
// other waiting jobs the reason is the scheduler's, which the leader knows.
func (j *Job) ReasonWord(nowMS int64) (word, detail string) {
	switch {
	case j.End != nil && j.End.Requeue:
		return "None", j.End.Detail
	case j.End != nil:
		return j.End.Reason.String(), j.End.Detail
	case j.Phase != Waiting:
		return "None", ""
	}
	word, sentence := j.waitWord(nowMS)
	return cmp.Or(word, "None"), joinSentences(j.Detail, sentence)
}

// silence says what becomes of a job when one of its nodes does not respond; ""
// when all do.
func (t *tables) silence(job *Job) string {
	for i := range job.Run.Allocs {
		alloc := &job.Run.Allocs[i]
		node, known := t.nodes.Get(alloc.Node)
		if !known || !node.NotResponding || alloc.Released {
			continue
		}
		if job.Run.Fence {
			return "node " + alloc.Node + " does not respond: the job is frozen there at the end of its lease, and is over there a margin after that"
		}
		return "node " + alloc.Node + " does not respond: the job is taken to run there until the node is back or declared off (gcontrol fence " + alloc.Node + ")"
	}
	return ""
}

// joinSentences joins two texts, either of which may be empty.
func joinSentences(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "; " + second
}
