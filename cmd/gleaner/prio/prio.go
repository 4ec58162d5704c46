// Package prio is gprio, Slurm's sprio: what the priority of each waiting job is
// made of.
package prio

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// prioRow is a line of gprio: a job in one of its partitions, or the weights.
type prioRow struct {
	job     *pb.JobPriority // nil = the weights
	weights *pb.PriorityPolicy
}

func runPrio(inv *option.Invocation) error {
	if err := console.FillFromEnvironment(inv); err != nil {
		return err
	}
	choice, err := choosePrio(inv)
	if err != nil {
		return err
	}
	shape, err := show.JSONShapeOf(inv)
	if err != nil {
		return err
	}
	less, err := prioTable.ParseSort(cmp.Or(inv.Text("sort"), "i"))
	if err != nil {
		return inv.Fail("Invalid sort specification: %w", err)
	}
	controllers, err := client.Connect(inv)
	if err != nil {
		return err
	}
	defer controllers.Close()
	if _, err := controllers.Cluster(inv.Context, inv.Values); err != nil {
		return err
	}
	config, err := client.AskOne(inv.Context, controllers, controllers.ShowConfig, &pb.ShowConfigRequest{})
	if err != nil {
		return client.LoadError(inv, client.LoadConfig, err)
	}
	weights := config.GetPolicy().GetPriority()
	layout, err := prioTable.ParseShort(prioFormat(inv, weights))
	if err != nil {
		return console.FormatError(inv, "job", err)
	}
	if inv.Given("weights") {
		if shape != show.JSONNone {
			return show.WriteJSON(inv, shape, "weights", []map[string]any{weightRecord(weights)})
		}
		return printPrio(inv, layout, []*prioRow{{weights: weights}})
	}
	rows, err := choice.ask(inv, controllers, weights)
	if err != nil && status.Code(err) != codes.NotFound { // no job is no error, as in sprio
		return client.LoadError(inv, client.LoadJobs, err)
	}
	if len(choice.ids) == 1 && len(rows) == 0 && !choice.narrows() {
		fmt.Fprintf(inv.Stderr, "Unable to find jobs matching user/id(s) specified\n%s: job %s is unknown, is not waiting, is held, waits for another job or for its begin time: gcontrol show job tells which\n", inv.Command.Program(), spec.FormatJobID(choice.ids[0]))
	}
	slices.SortStableFunc(rows, less)
	if shape != show.JSONNone {
		records := make([]*prioRecord, len(rows))
		for i, row := range rows {
			records[i] = recordOf(row)
		}
		return show.WriteJSON(inv, shape, "priorities", records)
	}
	if err := printPrio(inv, layout, rows); err != nil {
		return err
	}
	if !weighs(weights) && !inv.Given("noheader") && !inv.Given("format") {
		fmt.Fprintf(inv.Stderr, "%s: No factor has a weight: jobs go in the order of their numbers, less their nice values. An administrator gives weights in [priority] of cluster.toml.\n", inv.Command.Program())
	}
	return nil
}

func printPrio(inv *option.Invocation, layout *format.Layout[*prioRow], rows []*prioRow) error {
	out := bufio.NewWriter(inv.Stdout)
	var line []byte
	if !inv.Given("noheader") {
		line = layout.Header(line)
	}
	for _, row := range rows {
		_, _ = out.Write(line) // a bufio.Writer keeps its error for Flush
		line = layout.Row(line[:0], row)
	}
	_, _ = out.Write(line)
	return console.Output(out.Flush())
}

// prioChoice is which jobs were asked for.
type prioChoice struct {
	ids        []*pb.JobId
	users      []string
	uids       []uint32
	partitions []string
}

func (c *prioChoice) narrows() bool { return len(c.users)+len(c.uids)+len(c.partitions) > 0 }

func choosePrio(inv *option.Invocation) (*prioChoice, error) {
	choice := &prioChoice{partitions: inv.List("partition")}
	lists := inv.All("jobs")
	if inv.Given("jobs") {
		// The argument is optional, so that of "-j 12" is an operand.
		lists = append(slices.Clone(lists), inv.Operands...)
	} else if len(inv.Operands) > 0 {
		return nil, inv.Fail("Unrecognized option: %s", inv.Operands[0])
	}
	for _, text := range lists {
		if strings.TrimSpace(text) == "" {
			continue
		}
		targets, err := spec.ParseJobTargets(text)
		if err != nil {
			return nil, inv.Fail("%w", err)
		}
		for _, target := range targets {
			id := &pb.JobId{Job: target.Job}
			if first, any := spec.FirstTask(target.Tasks); any && spec.CountTasks(target.Tasks) == 1 {
				id.ArrayTask = &first
			}
			choice.ids = append(choice.ids, id)
		}
	}
	for _, word := range inv.List("user") {
		if n, err := strconv.ParseUint(word, 10, 32); err == nil {
			choice.uids = append(choice.uids, uint32(n))
			continue
		}
		choice.users = append(choice.users, word)
	}
	return choice, nil
}

// ask lists the jobs. Users are chosen here: names and numbers are alternatives.
func (c *prioChoice) ask(inv *option.Invocation, controllers *client.Client, weights *pb.PriorityPolicy) ([]*prioRow, error) {
	var rows []*prioRow
	restart := func() bool { rows = nil; return true }
	request := &pb.ListPrioritiesRequest{Ids: c.ids, Partitions: c.partitions}
	err := client.List(inv.Context, controllers, controllers.ListPriorities, request, restart, func(answer *pb.ListPrioritiesResponse) error {
		for _, job := range answer.Jobs {
			if len(c.users)+len(c.uids) == 0 || slices.Contains(c.users, job.User) || slices.Contains(c.uids, job.Uid) {
				rows = append(rows, &prioRow{job: job, weights: weights})
			}
		}
		return nil
	})
	return rows, err
}
