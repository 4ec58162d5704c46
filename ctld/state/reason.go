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
	default:
		return "Unknown"
	}
}

// ReasonWord is why the job is as it is at a time, in Slurm's word, as far as
// the state knows: why it is held, whom it waits for, or why it ended. For other
// waiting jobs the reason is the scheduler's, which the leader knows.
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

// silence says what becomes of a job of which a node does not respond; "" when
// all do.
func (t *tables) silence(job *Job) string {
	for i := range job.Run.Parts {
		part := &job.Run.Parts[i]
		node, known := t.nodes.Get(part.Node)
		if !known || !node.NotResponding || part.Released {
			continue
		}
		if job.Run.Fence {
			return "node " + part.Node + " does not respond: the job is frozen there at the end of its lease, and is over there a margin after that"
		}
		return "node " + part.Node + " does not respond: the job goes on there as far as anybody knows, until the node is back or declared off (gcontrol fence " + part.Node + ")"
	}
	return ""
}

// joinSentences puts what is known into one text, either part of which may be
// missing.
func joinSentences(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "; " + second
}
