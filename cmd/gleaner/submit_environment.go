package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// exportedEnvironment is the part of the caller's environment that --export
// hands to the job:
//
//	ALL (or nothing given)  everything
//	NONE                    SLURM_* and GLEANER_* only
//	A,B=value               these, beside SLURM_* and GLEANER_*
//	ALL,B=value             everything, and B with this value
//
// Variables that a surrounding job was given by the scheduler describe that
// job and are never handed on: a step of the new job would otherwise take the
// task counts of the old one for its own.
func exportedEnvironment(environ []string, export string) ([]string, error) {
	return chosenVariables(outsideJob(environ), export)
}

// readableEnvironment leaves out the variables that no message can carry, and
// warns of them: a submission must not fail because of a variable that the job
// does not even look at.
func readableEnvironment(environ []string) (kept, warnings []string) {
	var unreadable []string
	for _, entry := range environ {
		if utf8.ValidString(entry) {
			kept = append(kept, entry)
		} else {
			unreadable = append(unreadable, strings.ToValidUTF8(nameOf(entry), "?"))
		}
	}
	if len(unreadable) > 0 {
		warnings = []string{"not handed to the job, because they are not UTF-8: " + strings.Join(unreadable, " ")}
	}
	return kept, warnings
}

// stepEnvironment is the same for a step: the variables of the job stay, and
// those without which hardly a program starts.
func stepEnvironment(environ []string, export string) ([]string, error) {
	chosen, err := chosenVariables(environ, export)
	if err != nil {
		return nil, err
	}
	var all environment
	for _, entry := range environ {
		switch nameOf(entry) {
		case "HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "LANG":
			all.set(entry)
		}
	}
	all.merge(chosen)
	return all.entries, all.check()
}

// chosenVariables are those of mine that the argument of --export chooses.
func chosenVariables(mine []string, export string) ([]string, error) {
	var job environment
	if export == "" || strings.EqualFold(export, "ALL") {
		job.merge(mine)
		return job.entries, job.check()
	}
	for _, entry := range mine {
		if name := nameOf(entry); strings.HasPrefix(name, "SLURM_") || strings.HasPrefix(name, "GLEANER_") {
			job.set(entry)
		}
	}
	if strings.EqualFold(export, "NONE") {
		return job.entries, job.check()
	}
	words, err := splitExport(export)
	if err != nil {
		return nil, err
	}
	for _, word := range words {
		name, _, hasValue := strings.Cut(word, "=")
		switch {
		case strings.EqualFold(word, "ALL"):
			job.merge(mine)
		case strings.EqualFold(word, "NONE"):
			return nil, option.Fail(1, "Invalid --export specification: NONE cannot be combined with other names")
		case !validName(name):
			return nil, option.Fail(1, "Invalid --export specification: %q is not the name of a variable", name)
		case hasValue:
			job.set(word)
		default:
			for _, entry := range mine {
				if nameOf(entry) == name {
					job.set(entry)
				}
			}
		}
	}
	return job.entries, job.check()
}

// environment is a list of NAME=VALUE with one entry a name, in the order in
// which names first came.
type environment struct {
	entries []string
	index   map[string]int
}

func (e *environment) set(entry string) {
	if e.index == nil {
		e.index = map[string]int{}
	}
	name := nameOf(entry)
	if at, known := e.index[name]; known {
		e.entries[at] = entry
		return
	}
	e.index[name] = len(e.entries)
	e.entries = append(e.entries, entry)
}

func (e *environment) merge(entries []string) {
	for _, entry := range entries {
		e.set(entry)
	}
}

// check refuses what no controller would take.
func (e *environment) check() error {
	size := 0
	for _, entry := range e.entries {
		size += len(entry) + 1
	}
	if size > spec.MaxEnvironmentBytes || len(e.entries) > spec.MaxEnvironmentEntries {
		return fmt.Errorf("the environment is too large: %d variables in %s, at most %d in %s are taken\nHand over only what the job needs: --export=NONE, or --export=NAME,NAME",
			len(e.entries), spec.FormatSize(uint64(size)), spec.MaxEnvironmentEntries, spec.FormatSize(spec.MaxEnvironmentBytes))
	}
	return nil
}

// splitExport cuts the argument of --export at commas outside quotes and
// removes the quotes.
func splitExport(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	quote := rune(0)
	for _, letter := range text {
		switch {
		case quote != 0 && letter == quote:
			quote = 0
		case quote == 0 && (letter == '\'' || letter == '"'):
			quote = letter
		case quote == 0 && letter == ',':
			words = append(words, word.String())
			word.Reset()
		default:
			word.WriteRune(letter)
		}
	}
	if quote != 0 {
		return nil, option.Fail(1, "Invalid --export specification: %w", ErrQuote)
	}
	words = append(words, word.String())
	kept := words[:0]
	for _, word := range words {
		if word != "" {
			kept = append(kept, word)
		}
	}
	return kept, nil
}

// outsideJob drops what is not a variable, and, inside a job, what the
// scheduler set for that job.
func outsideJob(environ []string) []string {
	inJob := false
	for _, entry := range environ {
		inJob = inJob || nameOf(entry) == "GLEANER_JOB_ID"
	}
	var kept []string
	for _, entry := range environ {
		name := nameOf(entry)
		if name != "" && len(name) < len(entry) && !(inJob && setForJob(name)) {
			kept = append(kept, entry)
		}
	}
	return kept
}

// setForJob says whether a variable describes the job or step it is found in.
func setForJob(name string) bool {
	switch name {
	case "SLURMD_NODENAME", "GLEANER_CONTROLLER", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "NVIDIA_VISIBLE_DEVICES":
		return true
	}
	rest, ours := strings.CutPrefix(name, "GLEANER_")
	if !ours {
		if rest, ours = strings.CutPrefix(name, "SLURM_"); !ours {
			return false
		}
	}
	for _, prefix := range []string{"JOB_", "ARRAY_", "STEP", "SUBMIT_", "MEM_PER_", "CPUS_", "GPUS", "NTASKS", "TASK", "SRUN_COMM_", "TOPOLOGY_"} {
		if strings.HasPrefix(rest, prefix) {
			return true
		}
	}
	switch rest {
	case "JOBID", "NODELIST", "NNODES", "NPROCS", "PROCID", "LOCALID", "NODEID", "GTIDS", "RESTART_COUNT", "CLUSTER_NAME",
		"EXPORT_ENV", "PRIO_PROCESS", "NODE_ALIASES", "WORKING_CLUSTER", "DISTRIBUTION", "LAUNCH_NODE_IPADDR", "UMASK", "CHECKPOINT_DIR":
		return true
	}
	return false
}

func nameOf(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}

func validName(name string) bool {
	for i, letter := range name {
		digit := letter >= '0' && letter <= '9'
		if letter != '_' && (letter < 'a' || letter > 'z') && (letter < 'A' || letter > 'Z') && (!digit || i == 0) {
			return false
		}
	}
	return name != ""
}
