package control

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// fenceReason is what others see when no other reason is given.
const fenceReason = "declared off with gcontrol fence"

// fencePlan is what declaring nodes off would do.
type fencePlan struct {
	Nodes  []string   `json:"nodes"`
	Jobs   []fenceJob `json:"jobs"`
	Fenced bool       `json:"fenced"` // it was done
}

// fenceJob is what becomes of one job.
type fenceJob struct {
	JobID   uint32 `json:"job_id"`
	Name    string `json:"name"`
	User    string `json:"user_name"`
	Outcome string `json:"outcome"` // "requeued", "ended" or "completes"
	Why     string `json:"why"`
}

// controlFence is "fence LIST [Reason=TEXT]": the administrator's word that
// machines are off. It shows what becomes of their jobs, and asks.
func controlFence(c *controlRun, words []string) error {
	if len(words) == 0 {
		return c.tooFew("fence")
	}
	list, reason := words[0], fenceReason
	for _, word := range words[1:] {
		key, value, attached := strings.Cut(word, "=")
		if !attached || !strings.EqualFold(key, "reason") {
			return c.tooMany("fence")
		}
		reason = strings.Trim(value, `"'`)
	}
	nodes, err := c.fenceable(list)
	if err != nil {
		return err
	}
	plan, err := c.planFence(nodes)
	if err != nil {
		return err
	}
	names := spec.FormatHostList(plan.Nodes)
	if c.json == show.JSONNone {
		if err := c.printFence(plan, names); err != nil {
			return err
		}
	}
	question := fmt.Sprintf("Is %s switched off, or is it certain that nothing runs there?", names)
	if err := c.confirm(question, false, "declare "+names+" off"); err != nil {
		return err
	}
	request := &pb.UpdateNodeRequest{RequestId: uuid.NewString(), Names: names, Action: pb.NodeAction_NODE_ACTION_FENCED, Reason: reason}
	if _, err := client.Call(c.inv.Context, c.client, c.client.UpdateNode, request); err != nil {
		return client.LoadError(c.inv, "slurm_update error", err)
	}
	plan.Fenced = true
	if c.json != show.JSONNone {
		return show.WriteJSON(c.inv, c.json, "fence", []*fencePlan{plan})
	}
	if !c.inv.Given("quiet") {
		_, err = fmt.Fprintf(c.inv.Stdout, "fenced; when it is repaired: gcontrol update NodeName=%s State=RESUME\n", names)
	}
	return err
}

// fenceable finds the nodes, and refuses those that respond.
func (c *controlRun) fenceable(list string) ([]*pb.Node, error) {
	wanted, err := spec.ParseHostList(list)
	if err != nil {
		return nil, c.inv.Fail("%w", err)
	}
	all, err := c.client.Nodes(c.inv.Context, &pb.ListNodesRequest{})
	if err != nil {
		return nil, client.LoadError(c.inv, client.LoadNodes, err)
	}
	nodes, unknown := pickNodes(all, wanted)
	if len(unknown) > 0 {
		return nil, c.inv.Fail("Node %s not found", strings.Join(unknown, ","))
	}
	for _, node := range nodes {
		if node.GetInventory() != nil && !node.NotResponding {
			return nil, c.inv.Fail("node %s responds, so jobs may run on it: drain it or cancel its jobs; if the machine has just been switched off, wait until ginfo shows it as not responding (*)", node.Name)
		}
	}
	return nodes, nil
}

// planFence looks at the jobs that hold the nodes.
func (c *controlRun) planFence(nodes []*pb.Node) (*fencePlan, error) {
	plan := &fencePlan{Nodes: []string{}, Jobs: []fenceJob{}}
	filter := &pb.JobFilter{}
	for _, node := range nodes {
		plan.Nodes = append(plan.Nodes, node.Name)
		filter.Nodes = append(filter.Nodes, node.Name)
	}
	request := &pb.ListJobsRequest{Filter: filter}
	restart := func() bool { plan.Jobs = []fenceJob{}; return true }
	err := client.List(c.inv.Context, c.client, c.client.ListJobs, request, restart, func(answer *pb.ListJobsResponse) error {
		for _, job := range answer.Jobs {
			if others, holds := heldElsewhere(job, plan.Nodes); holds {
				plan.Jobs = append(plan.Jobs, fenceOutcome(job, others))
			}
		}
		return nil
	})
	if err != nil {
		return nil, client.LoadError(c.inv, client.LoadJobs, err)
	}
	slices.SortFunc(plan.Jobs, func(a, b fenceJob) int { return cmp.Compare(a.JobID, b.JobID) })
	return plan, nil
}

// heldElsewhere reports whether a job holds one of the nodes, and which others.
func heldElsewhere(job *pb.Job, nodes []string) (others []string, holds bool) {
	for _, part := range job.Allocation {
		switch {
		case part.Released:
		case slices.Contains(nodes, part.Node):
			holds = true
		default:
			others = append(others, part.Node)
		}
	}
	return others, holds
}

func fenceOutcome(job *pb.Job, others []string) fenceJob {
	is := fenceJob{JobID: job.GetId().GetJob(), Name: job.GetSpec().GetName(), User: job.GetOwner().GetUser()}
	switch {
	case job.Completing:
		is.Outcome, is.Why = "completes", "its end was decided before"
	case job.GetSpec().GetRequeue() && job.Configuring:
		is.Outcome, is.Why = "requeued", "it had not started on all its nodes"
	case job.GetSpec().GetRequeue():
		is.Outcome, is.Why = "requeued", "it starts over"
	default:
		is.Outcome, is.Why = "ended", "as NODE_FAIL, because it was submitted without --requeue"
	}
	if len(others) > 0 {
		is.Why += "; first it is ended on " + spec.FormatHostList(others)
	}
	return is
}

func (c *controlRun) printFence(plan *fencePlan, names string) error {
	out := bufio.NewWriter(c.inv.Stdout)
	fmt.Fprintf(out, "%s does not respond. Declared off, it is taken to run nothing: should it run on, its jobs run twice.\n", names)
	if len(plan.Jobs) == 0 {
		fmt.Fprintln(out, "No job holds it.")
	}
	for _, job := range plan.Jobs {
		fmt.Fprintf(out, "job %d (%s, %s) is %s: %s\n", job.JobID, format.Printable(job.User), format.Printable(job.Name), fenceWord[job.Outcome], job.Why)
	}
	return out.Flush()
}

// fenceWord is an outcome in a sentence.
var fenceWord = map[string]string{"requeued": "requeued", "ended": "ended", "completes": "over"}
