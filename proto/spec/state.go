package spec

import (
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// jobState is a state's long and short name, as in squeue(1), "JOB STATE
// CODES".
type jobState struct {
	state      pb.JobState
	name, code string
}

var jobStates = []jobState{
	{pb.JobState_JOB_STATE_PENDING, "PENDING", "PD"},
	{pb.JobState_JOB_STATE_RUNNING, "RUNNING", "R"},
	{pb.JobState_JOB_STATE_SUSPENDED, "SUSPENDED", "S"},
	{pb.JobState_JOB_STATE_COMPLETED, "COMPLETED", "CD"},
	{pb.JobState_JOB_STATE_CANCELLED, "CANCELLED", "CA"},
	{pb.JobState_JOB_STATE_FAILED, "FAILED", "F"},
	{pb.JobState_JOB_STATE_TIMEOUT, "TIMEOUT", "TO"},
	{pb.JobState_JOB_STATE_NODE_FAIL, "NODE_FAIL", "NF"},
	{pb.JobState_JOB_STATE_PREEMPTED, "PREEMPTED", "PR"},
	{pb.JobState_JOB_STATE_BOOT_FAIL, "BOOT_FAIL", "BF"},
	{pb.JobState_JOB_STATE_DEADLINE, "DEADLINE", "DL"},
	{pb.JobState_JOB_STATE_OUT_OF_MEMORY, "OUT_OF_MEMORY", "OOM"},
}

// The names and codes of the flags that Slurm shows in place of a state: a job
// whose nodes are still cleaning up, and one whose nodes are getting ready.
const (
	Completing      = "COMPLETING"
	CompletingCode  = "CG"
	Configuring     = "CONFIGURING"
	ConfiguringCode = "CF"
)

// StateName is Slurm's long name, PENDING; UNKNOWN for none of them.
func StateName(s pb.JobState) string {
	for _, known := range jobStates {
		if known.state == s {
			return known.name
		}
	}
	return "UNKNOWN"
}

// StateCode is Slurm's short name, PD; "?" for none of them.
func StateCode(s pb.JobState) string {
	for _, known := range jobStates {
		if known.state == s {
			return known.code
		}
	}
	return "?"
}

// ParseState reads a state's long or short name in either case. COMPLETING and
// CONFIGURING are flags beside the state: for them the state is unspecified.
// The error is Slurm's, in two lines, the second with all names.
func ParseState(s string) (state pb.JobState, completing, configuring bool, err error) {
	word := strings.ToUpper(s)
	switch word {
	case Completing, CompletingCode:
		return pb.JobState_JOB_STATE_UNSPECIFIED, true, false, nil
	case Configuring, ConfiguringCode:
		return pb.JobState_JOB_STATE_UNSPECIFIED, false, true, nil
	}
	for _, known := range jobStates {
		if word == known.name || word == known.code {
			return known.state, false, false, nil
		}
	}
	names := make([]string, 0, len(jobStates)+2)
	for _, known := range jobStates {
		names = append(names, known.name)
	}
	names = append(names, Completing, Configuring)
	return 0, false, false, Sentence("Invalid job state specified: " + shorten(s) +
		"\nValid job states include: " + strings.Join(names, ","))
}
