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
	default:
		return "Unknown"
	}
}

// ReasonWord is why the job is as it is, in Slurm's word, as far as the state
// knows: why it is held, or why it ended. For other waiting jobs the reason is
// the scheduler's, which the leader knows.
func (j *Job) ReasonWord() (word, detail string) {
	switch {
	case j.End != nil && j.End.Requeue:
		return "None", j.End.Detail
	case j.End != nil:
		return j.End.Reason.String(), j.End.Detail
	case j.Phase != Waiting:
		return "None", ""
	}
	word, sentence := j.Held.Words()
	return cmp.Or(word, "None"), joinSentences(j.Detail, sentence)
}

// joinSentences puts what is known into one text, either part of which may be
// missing.
func joinSentences(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "; " + second
}
