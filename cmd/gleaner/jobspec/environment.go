package jobspec

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
//	A,B=value               these, and SLURM_* and GLEANER_*
//	ALL,B=value             everything, and B with this value
//
// Variables that a surrounding job was given by the scheduler describe that
// job and are never handed on: a step of the new job would otherwise take the
// task counts of the old one for its own.
func exportedEnvironment(environ []string, export string) ([]string, error) {
	return chosenVariables(outsideJob(environ), export)
}

// jobEnvironment is that, with what the job's options say of its steps.
func jobEnvironment(environ []string, export string, values option.Values) ([]string, error) {
	exported, err := exportedEnvironment(environ, export)
	if err != nil {
		return nil, err
	}
	defaults, err := stepDefaults(values)
	if err != nil {
		return nil, err
	}
	var all Environment
	all.Merge(exported)
	all.Merge(defaults)
	return all.Entries, all.Check()
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
			unreadable = append(unreadable, strings.ToValidUTF8(NameOf(entry), "?"))
		}
	}
	if len(unreadable) > 0 {
		warnings = []string{"not handed to the job, because they are not UTF-8: " + strings.Join(unreadable, " ")}
	}
	return kept, warnings
}

// StepEnvironment is the same for a step: the variables of the job stay, and
// those without which hardly a program starts.
func StepEnvironment(environ []string, export string) ([]string, error) {
	chosen, err := chosenVariables(environ, export)
	if err != nil {
		return nil, err
	}
	var all Environment
	for _, entry := range environ {
		switch NameOf(entry) {
		case "HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "LANG":
			all.Set(entry)
		}
	}
	all.Merge(chosen)
	return all.Entries, all.Check()
}

// chosenVariables are those of mine that the argument of --export chooses.
func chosenVariables(mine []string, export string) ([]string, error) {
	var job Environment
	if export == "" || strings.EqualFold(export, "ALL") {
		job.Merge(mine)
		return job.Entries, job.Check()
	}
	for _, entry := range mine {
		if name := NameOf(entry); strings.HasPrefix(name, "SLURM_") || strings.HasPrefix(name, "GLEANER_") {
			job.Set(entry)
		}
	}
	if strings.EqualFold(export, "NONE") {
		return job.Entries, job.Check()
	}
	words, err := splitExport(export)
	if err != nil {
		return nil, err
	}
	for _, word := range words {
		name, _, hasValue := strings.Cut(word, "=")
		switch {
		case strings.EqualFold(word, "ALL"):
			job.Merge(mine)
		case strings.EqualFold(word, "NONE"): // beside others it adds nothing
		case !validName(name):
			return nil, option.Fail(1, "Invalid --export specification: %q is not the name of a variable", name)
		case hasValue:
			job.Set(word)
		default:
			for _, entry := range mine {
				if NameOf(entry) == name {
					job.Set(entry)
				}
			}
		}
	}
	return job.Entries, job.Check()
}

// Environment is a list of NAME=VALUE with one entry a name, in the order in
// which names first came.
type Environment struct {
	Entries []string
	index   map[string]int
}

// Set adds a variable, in place of one of the same name.
func (e *Environment) Set(entry string) {
	if e.index == nil {
		e.index = map[string]int{}
	}
	name := NameOf(entry)
	if at, known := e.index[name]; known {
		e.Entries[at] = entry
		return
	}
	e.index[name] = len(e.Entries)
	e.Entries = append(e.Entries, entry)
}

// Merge sets each of the entries.
func (e *Environment) Merge(entries []string) {
	for _, entry := range entries {
		e.Set(entry)
	}
}

// Check refuses what no controller would take.
func (e *Environment) Check() error {
	size := 0
	for _, entry := range e.Entries {
		size += len(entry) + 1
	}
	if size > spec.MaxEnvironmentBytes || len(e.Entries) > spec.MaxEnvironmentEntries {
		return fmt.Errorf("the environment is too large: %d variables in %s, at most %d in %s are taken\nHand over only what the job needs: --export=NONE, or --export=NAME,NAME",
			len(e.Entries), spec.FormatSize(uint64(size)), spec.MaxEnvironmentEntries, spec.FormatSize(spec.MaxEnvironmentBytes))
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
		return nil, option.Fail(1, "Invalid --export specification: %w", option.ErrQuote)
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
		inJob = inJob || NameOf(entry) == "GLEANER_JOB_ID"
	}
	var kept []string
	for _, entry := range environ {
		name := NameOf(entry)
		if name != "" && len(name) < len(entry) && !(inJob && setForJob(name)) {
			kept = append(kept, entry)
		}
	}
	return kept
}

// setForJob reports whether a variable describes the job or step it is found in.
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
		"EXPORT_ENV", "PRIO_PROCESS", "NODE_ALIASES", "WORKING_CLUSTER", "DISTRIBUTION", "GPU_BIND", "LAUNCH_NODE_IPADDR", "UMASK", "CHECKPOINT_DIR":
		return true
	}
	return false
}

// NameOf is the name of a variable NAME=VALUE.
func NameOf(entry string) string {
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
