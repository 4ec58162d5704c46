package mail

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// letter is one mail.
type letter struct {
	settings      policy.Mail
	to            []string
	subject, body string
	id            string // the same whenever the event is told again
	timeMS        int64
}

// event is something to tell about a job, as it is written.
type event struct{ *state.MailEvent }

// write writes an event out.
func write(of *state.MailEvent, site *policy.Policy) *letter {
	settings, e := *site.Mail, event{of}
	users, err := spec.ParseMailUsers(e.To)
	if err != nil { // none was named
		users = []string{e.User}
	}
	for i, user := range users {
		if settings.Domain != "" && !strings.Contains(user, "@") {
			users[i] = user + "@" + settings.Domain
		}
	}
	return &letter{
		settings: settings, to: users, subject: e.subject(), body: e.body(site.ClusterName),
		id: fmt.Sprintf("gleaner.%d.%d.%d", e.At, e.Job, e.TimeMS), timeMS: e.TimeMS,
	}
}

var happened = map[spec.MailTypes]string{
	spec.MailBegin: "Began", spec.MailEnd: "Ended", spec.MailFail: "Failed", spec.MailRequeue: "Requeued", spec.MailInvalidDepend: "Invalid dependency",
	spec.MailTimeLimit: "Reached time limit", spec.MailTimeLimit90: "Reached 90% of time limit",
	spec.MailTimeLimit80: "Reached 80% of time limit", spec.MailTimeLimit50: "Reached 50% of time limit",
}

func (e event) kind() spec.MailTypes { return spec.MailTypes(e.Kind) }

// subject is Slurm's, word by word: filters of mail look for it.
func (e event) subject() string {
	which := fmt.Sprintf("Job_id=%d", e.Job)
	switch {
	case e.Whole != nil:
		which = fmt.Sprintf("Array Summary Job_id=%d_* (%d)", e.Array, e.Job)
	case e.Array != 0 && e.HasTask:
		which = fmt.Sprintf("Array Task Job_id=%d_%d (%d)", e.Array, e.Task, e.Job)
	}
	return fmt.Sprintf("Slurm %s Name=%s %s%s%s", which, plain(e.Name), happened[e.kind()], e.span(), e.term())
}

// span is how long the job waited, or ran.
func (e event) span() string {
	switch {
	case e.kind() == spec.MailBegin && e.StartMS != 0:
		return ", Queued time " + clock(e.StartMS-e.SubmitMS)
	case e.kind() == spec.MailInvalidDepend, e.kind() == spec.MailRequeue:
		return ""
	}
	return ", Run time " + clock(e.ranMS())
}

func (e event) ranMS() int64 {
	switch {
	case e.StartMS == 0:
		return 0
	case e.EndMS != 0:
		return e.EndMS - e.StartMS
	}
	return e.TimeMS - e.StartMS
}

// term is how it ended.
func (e event) term() string {
	if e.kind() != spec.MailEnd && e.kind() != spec.MailFail {
		return ""
	}
	if e.Whole == nil {
		text := ", " + word(e.State)
		if e.ExitSignal == 0 {
			text += fmt.Sprintf(", ExitCode %d", e.ExitCode)
		}
		return text
	}
	text := ", Mixed"
	if len(e.Whole.States) == 1 {
		text = ", " + word(e.State)
	}
	return fmt.Sprintf("%s, ExitCode [%d-%d]", text, e.Whole.LowCode, e.Whole.HighCode)
}

func word(s pb.JobState) string { return strings.TrimPrefix(s.String(), "JOB_STATE_") }

// body says how the job went and what it used of what it had, in seff's lines.
func (e event) body(cluster string) string {
	var out strings.Builder
	line := func(format string, arguments ...any) { fmt.Fprintf(&out, format+"\n", arguments...) }
	line("Job ID: %d", e.Job)
	if e.Array != 0 {
		line("Array Job ID: %d", e.Array)
	}
	line("Cluster: %s", plain(cluster))
	line("User/Group: %s/%s", plain(e.User), plain(e.Group))
	over := e.EndMS != 0
	if whole := e.Whole; whole != nil && whole.Over > 0 {
		states := make([]string, len(whole.States))
		for i, s := range whole.States {
			states[i] = word(s)
		}
		line("State: %d tasks: %s (exit codes %d to %d)", whole.Over, strings.Join(states, ", "), whole.LowCode, whole.HighCode)
	} else if over {
		line("State: %s (exit code %d)", word(e.State), e.ExitCode)
	}
	if e.Why != "" && e.Whole == nil {
		line("Reason: %s", plain(e.Why))
	}
	if e.StartMS != 0 {
		line("Nodes: %s", e.Nodes)
	}
	if e.StartMS != 0 && over && e.Whole == nil {
		e.efficiency(line)
	}
	line("Work directory: %s", plain(e.WorkDirectory))
	if over {
		line("\ngeff %d says what to ask for next time, and gacct -j %d how each step went.", e.Job, e.Job)
	}
	return out.String()
}

// efficiency is what the run used of what it had, as geff counts it.
func (e event) efficiency(line func(string, ...any)) {
	wallMS := max(e.ranMS(), 0)
	cpuMS, coreMS := int64(e.CPUNS/1e6), wallMS*int64(e.Cores)
	line("Cores: %d", e.Cores)
	line("CPU Utilized: %s", clock(cpuMS))
	line("CPU Efficiency: %s of %s core-walltime", percent(uint64(cpuMS), uint64(coreMS)), clock(coreMS))
	line("Job Wall-clock time: %s", clock(wallMS))
	line("Memory Utilized: %.2f MB", float64(e.PeakMemoryBytes)/(1<<20))
	line("Memory Efficiency: %s of %.2f MB", percent(e.PeakMemoryBytes, e.MemoryBytes), float64(e.MemoryBytes)/(1<<20))
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
		if !unicode.IsPrint(r) { // breaks of lines too, and what turns the direction of writing
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if r := []rune(s); len(r) > longest {
		s = string(r[:longest]) + "..."
	}
	return s
}
