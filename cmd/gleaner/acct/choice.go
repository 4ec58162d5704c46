package acct

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// choice is which rows are wanted: what the controller chooses, and what is left for here.
type choice struct {
	request *pb.ListRunsRequest
	targets show.JobTargets // -j; empty = all
	steps   map[string]bool // JOB.STEP of -j, as they are shown; nil = all
	groups  []string        // -g
	narrow  narrow
	window  *window         // -T; nil = times are as they were
	states  map[string]bool // -s; nil = all
	sinceMS int64
	untilMS int64
	jobs    bool // -X
	asked   int  // jobs whose nodes were asked for their steps
}

func choose(inv *option.Invocation, now time.Time) (*choice, error) {
	filter := &pb.JobFilter{
		Accounts: inv.List("accounts"), Names: inv.List("name"), Partitions: inv.List("partition"), Qos: inv.List("qos"),
	}
	c := &choice{request: &pb.ListRunsRequest{Filter: filter, Live: true, Duplicates: inv.Given("duplicates"), Steps: !inv.Given("allocations")}, jobs: inv.Given("allocations"), groups: inv.List("gid")}
	for _, text := range inv.All("nodelist") {
		nodes, err := spec.ParseHostList(text)
		if err != nil {
			return nil, inv.Fail("'%s' invalid entry for --nodelist: %w", text, err)
		}
		filter.Nodes = append(filter.Nodes, nodes...)
	}
	if err := c.addTargets(inv); err != nil {
		return nil, err
	}
	if err := c.addStates(inv); err != nil {
		return nil, err
	}
	if err := c.addTime(inv, now); err != nil {
		return nil, err
	}
	c.addUsers(inv)
	var err error
	if c.narrow, err = readNarrow(inv); err != nil {
		return nil, err
	}
	if inv.Given("truncate") {
		c.window = &window{c.sinceMS, c.untilMS}
	}
	return c, nil
}

// addTargets reads -j: 12, 12_3, 12.batch, separated by commas.
func (c *choice) addTargets(inv *option.Invocation) error {
	for _, text := range inv.All("jobs") {
		for _, word := range splitJobs(text) {
			name, step, isStep := strings.Cut(word, ".")
			targets, err := spec.ParseJobTargets(name)
			if err != nil || isStep && !validStep(step) {
				fmt.Fprintf(inv.Stderr, "%s: fatal: Bad job/step specified: %s\n", inv.Command.Program(), format.Printable(word))
				return option.Exit(1)
			}
			c.targets = append(c.targets, targets...)
			if isStep {
				if c.steps == nil {
					c.steps = map[string]bool{}
				}
				c.steps[word] = true
			}
		}
	}
	c.request.Filter.Ids = c.targets.Ids()
	return nil
}

// splitJobs splits at commas that are in no brackets.
func splitJobs(text string) (words []string) {
	depth, from := 0, 0
	add := func(word string) {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	for i := range len(text) {
		switch text[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth <= 0 {
				add(text[from:i])
				from = i + 1
			}
		}
	}
	add(text[from:])
	return words
}

func validStep(step string) bool {
	_, err := strconv.ParseUint(step, 10, 32)
	return err == nil || step == past.Batch || step == "extern" || step == "interactive"
}

func (c *choice) addStates(inv *option.Invocation) error {
	for _, word := range inv.List("state") {
		if c.states == nil {
			c.states = map[string]bool{}
		}
		if upper := strings.ToUpper(word); upper == "REQUEUED" || upper == "RQ" {
			c.states["REQUEUED"] = true
			continue
		}
		known, err := spec.ParseState(word)
		if err != nil {
			return inv.Fail("%w", err)
		}
		if known.State != pb.JobState_JOB_STATE_UNSPECIFIED {
			c.states[spec.StateName(known.State)] = true
		}
	}
	return nil
}

// addTime is the window of time, with the defaults of sacct(1), "DEFAULT TIME WINDOW".
func (c *choice) addTime(inv *option.Invocation, now time.Time) error {
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	since, until := midnight, now
	switch jobs, states := len(c.targets) > 0, c.states != nil; {
	case jobs:
		since = time.Unix(0, 0)
	case states:
		since = now
	}
	var err error
	if text, given := inv.Text("starttime"), inv.Given("starttime"); given {
		if since, err = parsePast(text, now); err != nil {
			return inv.Fail("%w", err)
		}
	}
	if text, given := inv.Text("endtime"), inv.Given("endtime"); given {
		if until, err = parsePast(text, now); err != nil {
			return inv.Fail("%w", err)
		}
	}
	if until.Before(since) {
		return inv.Fail("Start time (%s) requested is after end time (%s).", since.Format("2006-01-02T15:04:05"), until.Format("2006-01-02T15:04:05"))
	}
	c.sinceMS, c.untilMS = since.UnixMilli(), until.UnixMilli()
	c.request.SinceMs = c.sinceMS
	if inv.Given("endtime") { // now means: also what was submitted since
		c.request.UntilMs = c.untilMS
	}
	return nil
}

// parsePast reads a time that has been: a time of day is today's, and a day without a year
// the last one.
func parsePast(text string, now time.Time) (time.Time, error) {
	when, err := spec.ParseMoment(text, now)
	if err != nil {
		return when, err
	}
	word := strings.ToLower(strings.TrimSpace(text))
	if when.Before(now) || strings.HasPrefix(word, "now") || strings.HasPrefix(word, "tomorrow") {
		return when, nil
	}
	if day := when.AddDate(0, 0, -1); !day.After(now) && !strings.ContainsAny(word, "-/.") {
		return day, nil
	}
	if year := when.AddDate(-1, 0, 0); !year.After(now) && when.Year() != now.Year() && !strings.Contains(word, strconv.Itoa(when.Year())) {
		return year, nil
	}
	return when, nil
}

// addUsers: without -u, -a and -j it is one's own jobs, and root sees all.
func (c *choice) addUsers(inv *option.Invocation) {
	words := inv.List("user")
	if len(words) == 0 {
		if uid := console.UID(); !inv.Given("allusers") && uid != 0 && len(c.targets) == 0 {
			c.request.Filter.Uids = []uint32{uint32(uid)}
		}
		return
	}
	for _, word := range words {
		if _, err := strconv.ParseUint(word, 10, 32); err == nil {
			if name, err := console.UserName(word); err == nil {
				word = name
			}
		}
		c.request.Filter.Users = append(c.request.Filter.Users, word)
	}
	if len(words) == 1 { // one number that has no name here
		if uid, err := strconv.ParseUint(c.request.Filter.Users[0], 10, 32); err == nil {
			c.request.Filter.Users, c.request.Filter.Uids = nil, []uint32{uint32(uid)}
		}
	}
}

// rows are the rows of a run that are wanted.
func (c *choice) rows(run *pb.PastRun, view *show.View) []past.Row {
	job := run.GetJob()
	if _, wanted := c.targets.Match(job); !wanted || !c.inState(run) || !c.narrow.wants(job) {
		return nil
	}
	if len(c.groups) > 0 && !slices.Contains(c.groups, job.GetOwner().GetGroup()) && !slices.Contains(c.groups, show.Digits(job.GetOwner().GetGid())) {
		return nil
	}
	rows := past.Rows(run)
	if c.jobs {
		rows = rows[:1]
	}
	if c.steps == nil || c.namesWhole(run, view) {
		return rows
	}
	return slices.DeleteFunc(rows, func(r past.Row) bool {
		return !c.steps[view.JobName(job)+"."+r.Step] && !c.steps[show.Digits(job.GetId().GetJob())+"."+r.Step]
	})
}

// namesWhole reports whether -j names the job without a step.
func (c *choice) namesWhole(run *pb.PastRun, view *show.View) bool {
	job := run.GetJob()
	name, raw := view.JobName(job)+".", show.Digits(job.GetId().GetJob())+"."
	for step := range c.steps {
		if strings.HasPrefix(step, name) || strings.HasPrefix(step, raw) {
			return false
		}
	}
	return true
}

// inState reports whether a run was in one of the states in the window: PENDING and
// RUNNING at some time of it, all others if it ended so in it.
func (c *choice) inState(run *pb.PastRun) bool {
	if c.states == nil {
		return true
	}
	job := run.GetJob()
	if c.states["PENDING"] && (job.GetStartMs() == 0 && run.GetLive() || job.GetStartMs() > c.sinceMS) && job.GetSubmitMs() <= c.untilMS {
		return true
	}
	began := job.GetStartMs() != 0 && job.GetStartMs() <= c.untilMS
	if c.states["RUNNING"] && began && (run.GetLive() && job.GetState() != pb.JobState_JOB_STATE_PENDING || !run.GetLive() && job.GetEndMs() > c.sinceMS) {
		return true
	}
	word, _ := past.Row{Run: run}.State()
	if word == "PENDING" || word == "RUNNING" {
		return false
	}
	return c.states[word] && (run.GetLive() || job.GetEndMs() >= c.sinceMS && job.GetEndMs() <= c.untilMS)
}
