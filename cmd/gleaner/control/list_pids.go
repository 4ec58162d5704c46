package control

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/steps"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// controlListPids is "listpids [JOB[.STEP]] [NODE]": the processes of steps on one node.
func controlListPids(c *controlRun, words []string) error {
	if len(words) > 2 {
		return c.tooMany("listpids")
	}
	list := pidList{controlRun: c}
	if len(words) == 2 {
		list.node = words[1]
	}
	filter := &pb.JobFilter{}
	if len(words) > 0 && words[0] != "*" && words[0] != "*.*" {
		var err error
		list.asked = words[0]
		if list.targets, err = steps.Parse(strings.TrimSuffix(words[0], ".*")); err != nil {
			return err
		}
		if len(list.targets) != 1 {
			return c.inv.Fail("listpids takes one job or step: list %q one after the other", format.Printable(words[0]))
		}
		filter.Ids = list.targets.Jobs()
	}
	jobs, err := c.jobsWithSteps(filter)
	if status.Code(err) == codes.NotFound {
		jobs, err = nil, nil
	}
	if err != nil {
		return client.LoadError(c.inv, client.LoadJobs, err)
	}
	if jobs, err = list.onNode(jobs); err != nil {
		return err
	}
	rows, err := steps.Ask(c.inv.Context, c.client, jobs, list.targets, c.view, list.tell)
	if err != nil {
		return option.Fail(1, "%w", err)
	}
	if len(rows) == 0 {
		return list.nothing()
	}
	return list.write(rows)
}

// pidList is one call of listpids.
type pidList struct {
	*controlRun
	asked   string // JOB[.STEP]; "" = all of the node
	targets steps.Targets
	node    string
	told    bool // why something is missing
}

func (l *pidList) tell(text string) {
	l.told = true
	fmt.Fprintf(l.inv.Stderr, "%s: %s\n", l.inv.Command.Program(), format.Printable(text))
}

// onNode chooses the node, and answers the running jobs with only what they hold there.
func (l *pidList) onNode(jobs []*pb.Job) ([]*pb.Job, error) {
	jobs = slices.DeleteFunc(jobs, func(job *pb.Job) bool { return job.GetState() != pb.JobState_JOB_STATE_RUNNING })
	if l.node == "" {
		nodes := map[string]bool{}
		for _, job := range jobs {
			for _, on := range job.GetAllocation() {
				nodes[on.GetNode()] = true
			}
		}
		here := l.here()
		switch {
		case l.asked == "" || nodes[here] || len(nodes) == 0:
			l.node = here
		case len(nodes) == 1:
			for name := range nodes {
				l.node = name
			}
		default:
			var names []string
			for name := range nodes {
				names = append(names, name)
			}
			slices.Sort(names)
			return nil, l.inv.Fail("%s runs on %s, not here: name one of them, as in %s listpids %s %s", l.asked, spec.FormatHostList(names), l.inv.Command.Program(), l.asked, names[0])
		}
	}
	var there []*pb.Job
	for _, job := range jobs {
		at := slices.IndexFunc(job.GetAllocation(), func(on *pb.NodeAllocation) bool { return on.GetNode() == l.node && !on.GetReleased() })
		if at >= 0 {
			job = proto.CloneOf(job)
			job.Allocation = job.Allocation[at : at+1]
			there = append(there, job)
		}
	}
	return there, nil
}

// here is the name that this machine would have as a node: in a job it is known.
func (l *pidList) here() string {
	if l.inv.Getenv("GLEANER_STEP_SOCKET") != "" {
		if name := l.inv.Getenv("SLURMD_NODENAME"); name != "" {
			return name
		}
	}
	name, _ := os.Hostname()
	name, _, _ = strings.Cut(name, ".")
	return name
}

// nothing says in Slurm's words that no step was found.
func (l *pidList) nothing() error {
	switch _, _, one := strings.Cut(l.asked, "."); {
	case l.told:
	case l.asked == "":
		fmt.Fprintf(l.inv.Stderr, "No job steps exist on node %s.\n", format.Printable(l.node))
	case one:
		fmt.Fprintf(l.inv.Stderr, "StepId=%s does not exist on node %s.\n", format.Printable(l.asked), format.Printable(l.node))
	default:
		fmt.Fprintf(l.inv.Stderr, "There are no steps for job %s on node %s.\n", format.Printable(l.asked), format.Printable(l.node))
	}
	return option.Exit(1)
}

// write shows the processes of the steps, those that the tasks started after them. A job
// whose processes are not seen from here has only its tasks, as it numbers them itself.
func (l *pidList) write(rows []*steps.Row) error {
	out := bufio.NewWriter(l.inv.Stdout)
	fmt.Fprintf(out, "%-8s %-8s %-8s %-7s %-8s\n", "PID", "JOBID", "STEPID", "LOCALID", "GLOBALID")
	seen := map[uint32]*processTable{}
	unseen := false
	for _, row := range rows {
		job := row.Job.GetId().GetJob()
		table := seen[job]
		if table == nil {
			table = l.processes(row.Job)
			seen[job] = table
			unseen = unseen || len(table.byInner) == 0
		}
		line := func(pid int, local, global string) {
			fmt.Fprintf(out, "%-8d %-8d %-8s %-7s %-8s\n", pid, job, row.Step.ID(), local, global)
		}
		ids := row.Step.TaskIDs[l.node]
		var started []int
		for i, inner := range row.Step.Pids[l.node] {
			local, global := "-", "-"
			if i < len(ids) {
				local, global = show.Digits(ids[i].Local), show.Digits(ids[i].Global)
			}
			if len(table.byInner) == 0 {
				line(int(inner), local, global)
			} else if pid, found := table.byInner[int(inner)]; found { // else it has just ended
				line(pid, local, global)
				started = append(started, table.below(pid)...)
			}
		}
		slices.Sort(started)
		for _, pid := range started {
			line(pid, "-", "-")
		}
	}
	if unseen {
		fmt.Fprintf(l.inv.Stderr, "%s: the processes on node %s are not seen from here: each PID is the number inside the job\n", l.inv.Command.Program(), format.Printable(l.node))
	}
	return out.Flush()
}
