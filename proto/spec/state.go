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
	{pb.JobState_JOB_STATE_STAGE_OUT, "STAGE_OUT", "SO"},
}

// The names and codes of the flags that Slurm shows in place of a state: a job
// whose nodes are still cleaning up, one whose nodes are getting ready, and one
// that was requeued held because of how it ended.
const (
	Completing      = "COMPLETING"
	CompletingCode  = "CG"
	Configuring     = "CONFIGURING"
	ConfiguringCode = "CF"
	SpecialExit     = "SPECIAL_EXIT"
	SpecialExitCode = "SE"
)

// neverStates are those of Slurm that no job is ever in here, with their codes.
var neverStates = [][2]string{
	{"RESV_DEL_HOLD", "RD"}, {"REQUEUE_FED", "RF"}, {"REQUEUE_HOLD", "RH"}, {"REQUEUED", "RQ"}, {"RESIZING", "RS"},
	{"REVOKED", "RV"}, {"SIGNALING", "SI"}, {"STOPPED", "ST"},
}

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

// StateChoice is the meaning of a state's name where jobs are chosen by it: one
// of the states, or one of the flags that come in addition, for which State is
// unspecified.
type StateChoice struct {
	State                                pb.JobState
	Completing, Configuring, SpecialExit bool
	Never                                bool // Slurm has it, and no job is ever in it here
}

// ParseState reads a state's long or short name in either case. The error is
// Slurm's, in two lines, the second with all names.
func ParseState(s string) (StateChoice, error) {
	word := strings.ToUpper(s)
	switch word {
	case Completing, CompletingCode:
		return StateChoice{Completing: true}, nil
	case Configuring, ConfiguringCode:
		return StateChoice{Configuring: true}, nil
	case SpecialExit, SpecialExitCode:
		return StateChoice{SpecialExit: true}, nil
	}
	names := make([]string, 0, len(jobStates)+len(neverStates)+3)
	for _, known := range jobStates {
		if word == known.name || word == known.code {
			return StateChoice{State: known.state}, nil
		}
		names = append(names, known.name)
	}
	names = append(names, Completing, Configuring, SpecialExit)
	for _, known := range neverStates {
		if word == known[0] || word == known[1] {
			return StateChoice{Never: true}, nil
		}
		names = append(names, known[0])
	}
	return StateChoice{}, Sentence("Invalid job state specified: " + shorten(s) +
		"\nValid job states include: " + strings.Join(names, ","))
}
