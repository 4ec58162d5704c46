package queue

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// jobChoice is which jobs were asked for: what the controller filters, and
// what is left for the client.
type jobChoice struct {
	filter  *pb.JobFilter
	targets show.JobTargets // -j; empty = all
	qos     []string        // -q; empty = all
	// licenses is -L; empty = all.
	licenses []string
	// special: of the waiting jobs only those in the state SPECIAL_EXIT. never: no
	// job at all, because none is ever in the states that are asked for.
	special, never bool
	// users and uids are here, and not in the filter, when both were given:
	// there, conditions of two kinds must both hold.
	users []string
	uids  []uint32
}

func chooseJobs(inv *option.Invocation) (*jobChoice, error) {
	choice := &jobChoice{filter: &pb.JobFilter{
		Partitions: inv.List("partition"), Names: inv.List("name"), Accounts: inv.List("account"), Reservations: inv.List("reservation"),
	}, qos: inv.List("qos"), licenses: inv.List("licenses")}
	if err := choice.addTargets(inv); err != nil {
		return nil, err
	}
	if err := choice.addStates(inv); err != nil {
		return nil, err
	}
	choice.addUsers(inv)
	for _, text := range inv.All("nodelist") {
		nodes, err := spec.ParseHostList(text)
		if err != nil {
			return nil, inv.Fail("'%s' invalid entry for --nodelist: %w", text, err)
		}
		choice.filter.Nodes = append(choice.filter.Nodes, nodes...)
	}
	return choice, nil
}

func (c *jobChoice) addTargets(inv *option.Invocation) error {
	lists := inv.All("jobs")
	if inv.Given("jobs") {
		// The argument is optional, so that of "-j 12" is an operand.
		lists = append(slices.Clone(lists), inv.Operands...)
	}
	for _, text := range lists {
		if strings.TrimSpace(text) == "" {
			continue // --jobs alone asks for all
		}
		targets, err := spec.ParseJobTargets(text)
		if err != nil {
			return inv.Fail("%w", err)
		}
		c.targets = append(c.targets, targets...)
	}
	c.filter.Ids = c.targets.Ids()
	return nil
}

func (c *jobChoice) addStates(inv *option.Invocation) error {
	states := inv.List("states")
	if len(states) == 0 && inv.Given("start") {
		states = []string{"PENDING"}
	}
	for _, word := range states {
		if strings.EqualFold(word, "all") {
			c.filter.AllStates = true
			c.filter.States, c.filter.Completing, c.filter.Configuring, c.special = nil, false, false, false
			return nil
		}
		choice, err := spec.ParseState(word)
		if err != nil {
			return inv.Fail("%w", err)
		}
		c.filter.Completing = c.filter.Completing || choice.Completing
		c.filter.Configuring = c.filter.Configuring || choice.Configuring
		c.special = c.special || choice.SpecialExit
		if choice.State != pb.JobState_JOB_STATE_UNSPECIFIED {
			c.filter.States = append(c.filter.States, choice.State)
		}
	}
	if c.special = c.special && !slices.Contains(c.filter.States, pb.JobState_JOB_STATE_PENDING); c.special {
		c.filter.States = append(c.filter.States, pb.JobState_JOB_STATE_PENDING)
	}
	c.never = len(states) > 0 && len(c.filter.States) == 0 && !c.filter.Completing && !c.filter.Configuring
	return nil
}

// addUsers takes names and numbers. A name unknown on this machine is asked
// for all the same: the controller's machine may know it.
func (c *jobChoice) addUsers(inv *option.Invocation) {
	if inv.Given("me") {
		c.filter.Uids = append(c.filter.Uids, uint32(console.UID()))
	}
	for _, word := range inv.List("user") {
		if n, err := strconv.ParseUint(word, 10, 32); err == nil {
			c.filter.Uids = append(c.filter.Uids, uint32(n))
			continue
		}
		c.filter.Users = append(c.filter.Users, word)
	}
	if len(c.filter.Users) > 0 && len(c.filter.Uids) > 0 {
		c.users, c.filter.Users = c.filter.Users, nil
		c.uids, c.filter.Uids = c.filter.Uids, nil
	}
}

// drops reports whether match may refuse a job that the controller let through.
func (c *jobChoice) drops() bool {
	return c.special || c.never || len(c.qos) > 0 || len(c.licenses) > 0 || len(c.users) > 0 || len(c.targets) > 0
}

// match reports whether a job is wanted, and which of its waiting tasks if they
// are to be shown one by one (nil: the job as a whole).
func (c *jobChoice) match(job *pb.Job) ([]*pb.ArrayRange, bool) {
	if c.never || c.special && show.Pending(job) && !job.SpecialExit {
		return nil, false
	}
	if len(c.qos) > 0 && !slices.Contains(c.qos, show.QosOf(job)) {
		return nil, false
	}
	if len(c.licenses) > 0 && !wantsLicense(job, c.licenses) {
		return nil, false
	}
	if len(c.users) > 0 && !slices.Contains(c.users, job.GetOwner().GetUser()) && !slices.Contains(c.uids, job.GetOwner().GetUid()) {
		return nil, false
	}
	return c.targets.Match(job)
}

// wantsLicense reports whether a job asks for one of the licenses.
func wantsLicense(job *pb.Job, names []string) bool {
	asked, err := spec.ParseLicenses(job.GetSpec().GetLicenses())
	return err == nil && slices.ContainsFunc(asked, func(l *pb.License) bool { return slices.Contains(names, l.Name) })
}
