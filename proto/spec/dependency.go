package spec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// DependencyKind is a word of --dependency (sbatch(1)).
type DependencyKind uint8

// Kinds of dependency.
const (
	After      DependencyKind = 1 // the job has started or was cancelled, some minutes ago
	AfterOK    DependencyKind = 2
	AfterNotOK DependencyKind = 3
	AfterAny   DependencyKind = 4
	AfterCorr  DependencyKind = 5 // the task of the same index ended well
	Singleton  DependencyKind = 6 // no earlier job of this name and user is left
)

var dependencyWords = map[DependencyKind]string{
	After: "after", AfterOK: "afterok", AfterNotOK: "afternotok", AfterAny: "afterany", AfterCorr: "aftercorr", Singleton: "singleton",
}

// String is Slurm's word.
func (k DependencyKind) String() string { return dependencyWords[k] }

// Dependencies is what --dependency says. Empty: the job waits for none.
type Dependencies struct {
	Any  bool // one of List is enough ("?"), and not all of it (",")
	List []Dependency
}

// Dependency is one condition.
type Dependency struct {
	Kind         DependencyKind
	Job          uint32 // 0 for Singleton
	HasTask      bool   // Task of the array Job is meant
	Task         uint32
	DelayMinutes uint32 // for After
	// Array: Job is one, as a whole. ParseDependencies cannot know that; String
	// writes it as squeue does.
	Array bool
}

// MaxDependencyDelayMinutes bounds the "+time" of an after: ten years.
const MaxDependencyDelayMinutes = 10 * 366 * 24 * 60

// ParseDependencies reads the argument of --dependency: "afterok:20:21_3",
// "after:20+5,singleton", "afterok:20?afterany:21", or jobs without a type,
// "20,21", for which Slurm takes afterany. What squeue writes after a job,
// "(unfulfilled)" or "(failed)", is skipped, so that squeue's output can be
// used as an argument. A dependency that is there twice counts once.
func ParseDependencies(s string) (Dependencies, error) {
	var d Dependencies
	if strings.TrimSpace(s) == "" {
		return d, nil
	}
	d.Any = strings.Contains(s, "?")
	separator := ","
	if d.Any {
		separator = "?"
		if strings.Contains(s, ",") {
			return Dependencies{}, dependencyError(`%q mixes "," (all of them) and "?" (any of them): use only one of the two`, shorten(s))
		}
	}
	s, err := namedTasks(s)
	if err != nil {
		return Dependencies{}, err
	}
	if strings.Count(s, separator)+strings.Count(s, ":") > MaxDependencies {
		return Dependencies{}, errManyDependencies()
	}
	words := strings.Split(s, separator)
	_, untyped := bareJob(words[0])
	for _, word := range words {
		word = strings.TrimSpace(word)
		job, bare := bareJob(word)
		if bare != untyped {
			if bare {
				return Dependencies{}, dependencyError("%q says no type: type afterany:%s, or add it to the list before with a colon", shorten(word), shorten(word))
			}
			return Dependencies{}, dependencyError("give every job a type, or none: type afterany:%s", shorten(strings.TrimSpace(words[0])))
		}
		if bare {
			word = "afterany:" + job
		}
		more, err := parseDependency(word)
		if err != nil {
			return Dependencies{}, err
		}
		for _, one := range more {
			if !slices.Contains(d.List, one) {
				d.List = append(d.List, one)
			}
		}
	}
	if len(d.List) > MaxDependencies {
		return Dependencies{}, errManyDependencies()
	}
	return d, nil
}

// namedTasks writes out what stands in brackets, "afterok:20_[1-2]": several tasks of
// an array, "afterok:20_1:20_2".
func namedTasks(s string) (string, error) {
	var out strings.Builder
	for named := 0; ; {
		before, rest, found := strings.Cut(s, "_[")
		list, after, closed := strings.Cut(rest, "]")
		if !found || !closed {
			out.WriteString(s)
			return out.String(), nil
		}
		start := strings.LastIndexAny(before, ":,?") + 1
		job := before[start:]
		tasks, err := ParseArray(list)
		if err != nil || tasks.GetMaxRunning() != 0 {
			return "", dependencyError("%q names no tasks of an array: type them as 12_[1-3,7]", shorten(job+"_["+list+"]"))
		}
		out.WriteString(before[:start])
		for i, r := range tasks.GetRanges() {
			for task := uint64(r.First); task <= uint64(r.Last); task += uint64(max(r.Step, 1)) {
				if named++; named > MaxDependencies {
					return "", errManyDependencies()
				}
				if i > 0 || task > uint64(r.First) {
					out.WriteByte(':')
				}
				out.WriteString(job + "_" + strconv.FormatUint(task, 10))
			}
		}
		s = after
	}
}

func bareJob(word string) (string, bool) {
	word = strings.TrimSpace(word)
	return word, word != "" && isDigit(word[0])
}

// parseDependency reads "afterok:20:21".
func parseDependency(word string) ([]Dependency, error) {
	name, rest, hasJobs := strings.Cut(word, ":")
	name, state, _ := strings.Cut(name, "(")
	if state != "" && !slices.Contains(dependencyStates, "("+state) {
		return nil, errDependencyForm(word)
	}
	kind, err := dependencyKind(name, word)
	if err != nil {
		return nil, err
	}
	if kind == Singleton {
		if hasJobs {
			return nil, dependencyError("singleton names no job: type it alone")
		}
		return []Dependency{{Kind: Singleton}}, nil
	}
	if !hasJobs || state != "" {
		return nil, dependencyError("%s needs the number of a job: type %s:JOB", kind, kind)
	}
	var list []Dependency
	for text := range strings.SplitSeq(rest, ":") {
		one, err := parseDependencyJob(kind, text, word)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// dependencyStates are what squeue writes behind a dependency.
var dependencyStates = []string{"(unfulfilled)", "(failed)", "(fulfilled)"}

func dependencyKind(name, word string) (DependencyKind, error) {
	switch lower := strings.ToLower(strings.TrimSpace(name)); lower {
	case "expand":
		return 0, dependencyError("expand is not supported: submit a job of the size that is needed")
	case "afterburstbuffer":
		return 0, dependencyError("there are no burst buffers: use afterany")
	default:
		for kind := After; kind <= Singleton; kind++ {
			if kind.String() == lower {
				return kind, nil
			}
		}
	}
	return 0, errDependencyForm(word)
}

// parseDependencyJob reads "20", "20_3", "20+5" or "20_3+5".
func parseDependencyJob(kind DependencyKind, text, word string) (Dependency, error) {
	text = strings.TrimSpace(text)
	for _, state := range dependencyStates {
		text = strings.TrimSuffix(text, state)
	}
	one := Dependency{Kind: kind}
	id, delay, hasDelay := strings.Cut(text, "+")
	switch {
	case hasDelay && kind != After:
		return one, dependencyError("%q: only the jobs of after may be followed by a time, and heterogeneous jobs, whose components are written so, are not supported", shorten(word))
	case hasDelay:
		minutes, err := strconv.ParseUint(delay, 10, 32)
		if err != nil || !allDigits(delay) || minutes > MaxDependencyDelayMinutes {
			return one, dependencyError("%q: + is followed by a number of minutes, at most %d", shorten(text), MaxDependencyDelayMinutes)
		}
		one.DelayMinutes = uint32(minutes)
	}
	job, task, hasTask := strings.Cut(id, "_")
	if hasTask && task == "*" { // Slurm's word for all tasks
		hasTask = false
	}
	number, err := strconv.ParseUint(job, 10, 32)
	switch {
	case errors.Is(err, strconv.ErrRange) && allDigits(job):
		return one, dependencyError("job %s is not known: there is no number so high", shorten(job))
	case err != nil || !allDigits(job):
		return one, errDependencyForm(word)
	case number == 0:
		return one, dependencyError("there is no job 0: job numbers begin at 1")
	}
	one.Job = uint32(number)
	if !hasTask {
		return one, nil
	}
	index, err := strconv.ParseUint(task, 10, 32)
	if err != nil || !allDigits(task) || index > MaxArrayIndex {
		return one, dependencyError("%q: _ is followed by one task of the array, at most %d; name several as %s:%s_1:%s_2", shorten(id), MaxArrayIndex, kind, job, job)
	}
	if kind == AfterCorr {
		return one, dependencyError("aftercorr goes task by task: name the array, aftercorr:%s", job)
	}
	one.HasTask, one.Task = true, uint32(index)
	return one, nil
}

// dependencyError is Slurm's sentence and what is wrong.
func dependencyError(format string, arguments ...any) error {
	return fmt.Errorf("%w: %s", Sentence(DependencyProblem), fmt.Sprintf(format, arguments...))
}

// DependencyProblem is Slurm's sentence for a dependency that cannot be.
const DependencyProblem = "Job dependency problem"

func errDependencyForm(word string) error {
	return dependencyError("%q is no dependency: type after:JOB[+MINUTES], afterok:JOB, afternotok:JOB, afterany:JOB, aftercorr:ARRAY or singleton, JOB being 12 or 12_3, more of them with another colon", shorten(word))
}

func errManyDependencies() error {
	return dependencyError("more than %d jobs are named: make an array of them and depend on that", MaxDependencies)
}

// String writes one as ParseDependencies reads it, "afterok:110".
func (d Dependency) String() string {
	if d.Kind == Singleton {
		return d.Kind.String()
	}
	text := d.Kind.String() + ":" + strconv.FormatUint(uint64(d.Job), 10)
	if d.HasTask {
		text += "_" + strconv.FormatUint(uint64(d.Task), 10)
	} else if d.Array {
		text += "_*"
	}
	if d.DelayMinutes > 0 {
		text += "+" + strconv.FormatUint(uint64(d.DelayMinutes), 10)
	}
	return text
}

// FormatDependencies writes them as squeue does, each with a word behind it
// that says how far it is: "afterok:110(unfulfilled),singleton(unfulfilled)".
// state may be nil for none.
func FormatDependencies(d Dependencies, state func(i int) string) string {
	var out strings.Builder
	for i, one := range d.List {
		if i > 0 && d.Any {
			out.WriteByte('?')
		} else if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(one.String())
		if state != nil {
			out.WriteString("(" + state(i) + ")")
		}
	}
	return out.String()
}
