package jobspec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file has the options that say where a job lands, except for how many
// nodes, tasks and GPUs it gets.

const (
	optContiguous   = "contiguous"
	optCPUsPerGPU   = "cpus-per-gpu"
	OptGPUsPerTask  = "gpus-per-task"
	optMemPerGPU    = "mem-per-gpu"
	optNtasksPerGPU = "ntasks-per-gpu"
	optSpreadJob    = "spread-job"
	optSwitches     = "switches"
	optUseMinNodes  = "use-min-nodes"
	optWait4Switch  = "wait4switch"
)

func placementOptions() []option.Option {
	return []option.Option{
		{Long: OptConstraint, Short: 'C', Argument: "features", InScript: true, Environment: variables("CONSTRAINT"), Help: "features of the nodes: a&b both, a|b one of them, !a not that, ( ) to group; a*2&b*4 counts nodes of each, [a|b] means the same one for all nodes"},
		{Long: OptExclusive, Argument: "user|mcs", OptionalArgument: true, InScript: true, Environment: variables("EXCLUSIVE"), Help: "whole nodes, shared with no other job; with user, nodes shared with your own jobs only; mcs is not supported"},
		{Long: OptGPUsPerTask, Argument: "[model:]count", InScript: true, Environment: variables("GPUS_PER_TASK"), Help: "GPUs for each task of --ntasks, or with --gpus the number of tasks; each task that grun starts sees its own"},
		{Long: optNtasksPerGPU, Argument: "count", InScript: true, Help: "tasks for each GPU: of the number of tasks and that of GPUs, one follows from the other"},
		{Long: optCPUsPerGPU, Argument: "count", InScript: true, Environment: variables("CPUS_PER_GPU"), Help: "CPUs for each GPU, in place of --cpus-per-task"},
		{Long: optMemPerGPU, Argument: "size[K|M|G|T]", InScript: true, Environment: variables("MEM_PER_GPU"), Help: "memory for each GPU, in place of --mem"},
		{Long: optSwitches, Argument: "count[@time]", InScript: true, Environment: variables("REQ_SWITCH"), Help: "nodes on at most so many leaf switches; after that time of waiting, on any"},
		{Long: optWait4Switch, Argument: "time", Environment: variables("WAIT4SWITCH"), Help: "the time of --switches, where it has none"},
		{Long: optContiguous, InScript: true, Help: "nodes that follow each other in the list of nodes"},
		{Long: optSpreadJob, InScript: true, Environment: variables("SPREAD_JOB"), Help: "as many nodes as possible, with as many tasks on each"},
		{Long: optUseMinNodes, InScript: true, Environment: variables("USE_MIN_NODES"), Help: "of a range of --nodes the lowest number, and not the highest that is free"},
	}
}

// placement reads them.
func (b *Builder) placement() {
	v, s := b.Values, b.spec
	if v.Given(OptConstraint) {
		s.Constraint = v.Text(OptConstraint)
		if _, err := spec.ParseConstraint(s.Constraint); err != nil {
			b.Fail(1, "Invalid --constraint specification: %w", err)
		}
	}
	if v.Given(OptExclusive) {
		switch sharing := v.Text(OptExclusive); sharing {
		case "":
			s.Exclusive = true
		case "user":
			s.ExclusiveUser = true
		case "mcs":
			b.Fail(255, "--exclusive=mcs is not supported: use --exclusive=user, which shares with your own jobs only")
		default:
			b.Fail(255, "Invalid --exclusive specification: %q: type --exclusive, or --exclusive=user", sharing)
		}
	}
	s.CpusPerGpu, s.TasksPerGpu = b.Count(optCPUsPerGPU), b.Count(optNtasksPerGPU)
	s.MemoryPerGpuBytes = b.size(optMemPerGPU)
	s.Contiguous, s.SpreadJob, s.UseMinNodes = v.Given(optContiguous), v.Given(optSpreadJob), v.Given(optUseMinNodes)
	b.switches()
}

// switches reads "2" or "2@30".
func (b *Builder) switches() {
	if !b.Values.Given(optSwitches) {
		return
	}
	text := b.Values.Text(optSwitches)
	if !strings.Contains(text, "@") && b.Values.Given(optWait4Switch) {
		text += "@" + b.Values.Text(optWait4Switch)
	}
	var err error
	if b.spec.Switches, b.spec.SwitchesWaitS, err = ParseSwitches(text); err != nil {
		b.Fail(1, "Invalid --switches specification: %w", err)
	}
}

// ParseSwitches reads "2", or "2@30" with a time; 0 is forever.
func ParseSwitches(text string) (count, waitS uint32, err error) {
	countText, wait, hasWait := strings.Cut(text, "@")
	number, err := strconv.ParseUint(countText, 10, 31)
	if err != nil || number > spec.MaxHostListNames {
		return 0, 0, fmt.Errorf("%q: type a number of switches, or also how long to wait for that, as in 1@30", text)
	}
	if !hasWait || number == 0 {
		return uint32(number), 0, nil
	}
	if wait == "" {
		return 0, 0, errors.New("there is no time after the @")
	}
	seconds, err := spec.ParseTime(wait)
	if seconds == spec.Unlimited {
		seconds = 0
	}
	return uint32(number), seconds, err
}
