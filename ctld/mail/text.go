package mail

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// letter writes an event out.
func (e *event) letter(view *state.View) letter {
	settings := *view.Policy().Mail
	owner := e.job.Owner().User
	users, err := spec.ParseMailUsers(e.job.Spec.MailUser)
	if err != nil { // none was named
		users = []string{owner}
	}
	for i, user := range users {
		if settings.Domain != "" && !strings.Contains(user, "@") {
			users[i] = user + "@" + settings.Domain
		}
	}
	return letter{settings: settings, user: owner, to: users, subject: e.subject(view), body: e.body(view)}
}

var happened = map[spec.MailTypes]string{
	spec.MailBegin: "Began", spec.MailEnd: "Ended", spec.MailFail: "Failed", spec.MailRequeue: "Requeued", spec.MailInvalidDepend: "Invalid dependency",
	spec.MailTimeLimit: "Reached time limit", spec.MailTimeLimit90: "Reached 90% of time limit",
	spec.MailTimeLimit80: "Reached 80% of time limit", spec.MailTimeLimit50: "Reached 50% of time limit",
}

// subject is Slurm's, word by word: filters of mail look for it.
func (e *event) subject(view *state.View) string {
	job, own := e.job, e.job.Own()
	which := fmt.Sprintf("Job_id=%d", job.ID)
	switch {
	case e.array != nil:
		which = fmt.Sprintf("Array Summary Job_id=%d_* (%d)", job.Array, job.ID)
	case job.Array != 0 && job.HasTask:
		which = fmt.Sprintf("Array Task Job_id=%d_%d (%d)", job.Array, job.Task, job.ID)
	}
	return fmt.Sprintf("Slurm %s Name=%s %s%s%s", which, plain(own.Name), happened[e.kind], e.span(view), e.term())
}

// span is how long the job waited, or ran.
func (e *event) span(view *state.View) string {
	run := e.job.Run
	switch {
	case e.kind == spec.MailBegin && run != nil:
		return ", Queued time " + clock(run.StartMS-e.job.SubmitMS)
	case e.kind == spec.MailInvalidDepend, e.kind == spec.MailRequeue:
		return ""
	}
	return ", Run time " + clock(e.ranMS(view))
}

func (e *event) ranMS(view *state.View) int64 {
	run, end := e.job.Run, e.job.End
	switch {
	case run == nil:
		return 0
	case end != nil && end.EndMS != 0:
		return end.EndMS - run.StartMS
	}
	return view.TimeMS() - run.StartMS
}

// term is how it ended.
func (e *event) term() string {
	if e.kind != spec.MailEnd && e.kind != spec.MailFail {
		return ""
	}
	if e.array == nil {
		text := ", " + word(e.job.End.State)
		if e.job.End.ExitSignal == 0 {
			text += fmt.Sprintf(", ExitCode %d", e.job.End.ExitCode)
		}
		return text
	}
	text := ", Mixed"
	if len(e.array.states) == 1 {
		text = ", " + word(e.job.End.State)
	}
	return fmt.Sprintf("%s, ExitCode [%d-%d]", text, e.array.codes[0], e.array.codes[1])
}

func word(s pb.JobState) string { return strings.TrimPrefix(s.String(), "JOB_STATE_") }

// body says how the job went and what it used of what it had, in seff's lines.
func (e *event) body(view *state.View) string {
	job, owner, own := e.job, e.job.Owner(), e.job.Own()
	var out strings.Builder
	line := func(format string, arguments ...any) { fmt.Fprintf(&out, format+"\n", arguments...) }
	line("Job ID: %d", job.ID)
	if job.Array != 0 {
		line("Array Job ID: %d", job.Array)
	}
	line("Cluster: %s", plain(view.Policy().ClusterName))
	line("User/Group: %s/%s", plain(owner.User), plain(owner.Group))
	if e.array != nil && e.array.over > 0 {
		var states []string
		for s := range e.array.states {
			states = append(states, word(s))
		}
		slices.Sort(states)
		line("State: %d tasks: %s (exit codes %d to %d)", e.array.over, strings.Join(states, ", "), e.array.codes[0], e.array.codes[1])
	} else if job.End != nil && job.Phase == state.Finished {
		line("State: %s (exit code %d)", word(job.End.State), job.End.ExitCode)
		if job.End.Detail != "" {
			line("Reason: %s", plain(job.End.Detail))
		}
	} else if job.Detail != "" {
		line("Reason: %s", plain(job.Detail))
	}
	if job.Run != nil {
		line("Nodes: %s", spec.FormatHostList(job.Nodes()))
	}
	if job.Run != nil && job.Phase == state.Finished && e.array == nil {
		e.efficiency(view, line)
	}
	line("Work directory: %s", plain(own.WorkDirectory))
	if job.Phase == state.Finished {
		line("\ngeff %d says what to ask for next time, and gacct -j %d how each step went.", job.ID, job.ID)
	}
	return out.String()
}

// efficiency is what the run used of what it had, as geff counts it.
func (e *event) efficiency(view *state.View, line func(string, ...any)) {
	var cores, memory uint64
	for i := range e.job.Run.Allocs {
		cores += uint64(len(e.job.Run.Allocs[i].CPUs))
		memory = max(memory, e.job.Run.Allocs[i].MemoryBytes)
	}
	wallMS := max(e.ranMS(view), 0)
	end := e.job.End
	cpuMS, coreMS := int64(end.CPUNS/1e6), wallMS*int64(cores)
	line("Cores: %d", cores)
	line("CPU Utilized: %s", clock(cpuMS))
	line("CPU Efficiency: %s of %s core-walltime", percent(uint64(cpuMS), uint64(coreMS)), clock(coreMS))
	line("Job Wall-clock time: %s", clock(wallMS))
	line("Memory Utilized: %.2f MB", float64(end.PeakMemoryBytes)/(1<<20))
	line("Memory Efficiency: %s of %.2f MB", percent(end.PeakMemoryBytes, memory), float64(memory)/(1<<20))
}

func percent(part, whole uint64) string {
	if whole == 0 {
		return "0.00%"
	}
	return fmt.Sprintf("%.2f%%", 100*float64(part)/float64(whole))
}

// clock is a span as Slurm writes it: "1-02:03:04".
func clock(ms int64) string {
	s := max(ms, 0) / 1000
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		text = fmt.Sprintf("%d-%s", days, text)
	}
	return text
}

// plain is a text on one line, not too long.
func plain(s string) string {
	const longest = 256
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if r := []rune(s); len(r) > longest {
		s = string(r[:longest]) + "..."
	}
	return s
}
