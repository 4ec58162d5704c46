package run

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

// readStepRequest reads the options that say what a step asks for, and refuses
// unsupported values. What is the job's own, memory and GPUs, counts only if typed: the
// variables of a job give its numbers for the whole of it.
func readStepRequest(inv *option.Invocation, typed option.Values) (*grant.Request, error) {
	values := inv.Values
	// The numbers are read as gsubmit reads them.
	builder := &jobspec.Builder{Values: values}
	least, most := builder.NodeCount()
	request := &grant.Request{
		Tasks: int(builder.Count(jobspec.OptNtasks)), Least: int(least), Most: int(most),
		TasksPerNode: int(builder.Count(jobspec.OptNtasksPerNode)), CPUsPerTask: int(builder.Count(jobspec.OptCPUsPerTask)),
		Overcommit: values.Given(optOvercommit), Overlap: values.Given(optOverlap),
		// Slurm: a step that counts its CPUs gets only those.
		Exact: values.Given(optExact) || values.Given(jobspec.OptExclusive) || values.Given(jobspec.OptCPUsPerTask),
	}
	for _, list := range []struct {
		long  string
		names *[]string
	}{{jobspec.OptNodelist, &request.Nodes}, {jobspec.OptExclude, &request.Exclude}} {
		if !values.Given(list.long) {
			continue
		}
		names, err := spec.ParseHostList(values.Text(list.long))
		if err != nil {
			builder.Fail(1, "Invalid --%s specification: %w", list.long, err)
		}
		*list.names = names
	}
	var err error
	if request.Distribution, err = readDistribution(inv); err != nil {
		return nil, err
	}
	if request.Memory, err = readStepMemory(typed); err != nil {
		return nil, err
	}
	if request.GPUs, err = readStepGPUs(values, typed); err != nil {
		return nil, err
	}
	if id, err := strconv.ParseUint(inv.Getenv("SLURM_STEP_ID"), 10, 32); err == nil {
		parent := uint32(id)
		request.Parent = &parent
	}
	checkWords(builder, values)
	return request, builder.Err
}

// checkWords refuses words that options do not have.
func checkWords(builder *jobspec.Builder, values option.Values) {
	checkMPI(builder, values.Text(optMPI))
	if _, err := readCPUBind(values, 0); err != nil && builder.Err == nil {
		builder.Err = err
	}
	switch values.Text(optKillOnBadExit) {
	case "", "0", "1":
	default:
		builder.Fail(1, "Invalid --%s value %q: type 0 or 1", optKillOnBadExit, values.Text(optKillOnBadExit))
	}
	switch mode := values.Text(jobspec.OptOpenMode); mode {
	case "", "append", "truncate", "a", "t":
	default:
		builder.Fail(1, "Invalid --open-mode specification: %q: type append or truncate", mode)
	}
}

// readStepMemory reads --mem and --mem-per-cpu of a step.
func readStepMemory(typed option.Values) (grant.Memory, error) {
	memory := grant.Memory{}
	for _, one := range []struct{ long, per string }{{jobspec.OptMemPerCPU, grant.PerCPU}, {jobspec.OptMem, grant.PerNode}} {
		if !typed.Given(one.long) {
			continue
		}
		size, err := spec.ParseSize(typed.Text(one.long), 1<<20)
		if err != nil {
			return memory, option.Fail(255, "Invalid --%s specification: %w", one.long, err)
		}
		memory = grant.Memory{Per: one.per, MiB: min((size+1<<20-1)>>20, math.MaxInt32>>2)}
	}
	return memory, nil
}

// readStepGPUs reads the options about the GPUs of a step; --gpus-per-task is also the
// job's. A job has GPUs of one model, so that a model says nothing here.
func readStepGPUs(values, typed option.Values) (grant.GPUs, error) {
	scopes := []struct{ long, per string }{
		{jobspec.OptGres, grant.PerNode}, {jobspec.OptGPUsPerNode, grant.PerNode}, {jobspec.OptGPUs, grant.PerStep}, {jobspec.OptGPUsPerTask, grant.PerTask},
	}
	for _, one := range scopes {
		if !typed.Given(one.long) {
			continue
		}
		count, err := readGPUCount(one.long, typed.Text(one.long))
		return grant.GPUs{Per: one.per, Count: count}, err
	}
	bind, err := jobspec.ReadGPUBind(values.Text(jobspec.OptGPUBind))
	if err == nil && bind.Kind == jobspec.GPUBindEach {
		return grant.GPUs{Per: grant.PerTask, Count: bind.Count}, nil
	}
	if text := values.Text(jobspec.OptGPUsPerTask); err == nil && text != "" && bind.Kind != jobspec.GPUBindNone {
		count, err := readGPUCount(jobspec.OptGPUsPerTask, text)
		return grant.GPUs{Per: grant.PerTask, Count: count}, err
	}
	return grant.GPUs{}, err
}

// readDistribution reads --distribution, and for one that is arbitrary the list of nodes.
func readDistribution(inv *option.Invocation) (grant.Distribution, error) {
	kind, plane, err := jobspec.ReadDistribution(inv.Text(jobspec.OptDistribution))
	if err != nil || kind != grant.Arbitrary {
		return grant.Distribution{Kind: kind, Plane: plane}, err
	}
	hosts, err := readHostFile(inv)
	return grant.Distribution{Kind: kind, Hosts: hosts}, err
}

// maxHostFile bounds the file that lists a node for each task.
const maxHostFile = 16 << 20

// readHostFile reads the nodes of an arbitrary distribution: SLURM_HOSTFILE, or
// --nodelist as a list in which a name may come several times.
func readHostFile(inv *option.Invocation) ([]string, error) {
	path := inv.Getenv("SLURM_HOSTFILE")
	if path == "" {
		hosts := strings.Split(inv.Text(jobspec.OptNodelist), ",")
		hosts = slices.DeleteFunc(hosts, func(name string) bool { return name == "" })
		if len(hosts) == 0 {
			return nil, option.Fail(1, "--distribution=arbitrary needs a node for each task: name a file of them in SLURM_HOSTFILE, or list them with --nodelist")
		}
		return expand(hosts)
	}
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxHostFile) {
		err = fmt.Errorf("it is no file of at most %d bytes", maxHostFile)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, option.Fail(1, "SLURM_HOSTFILE %s: %w", path, console.Reason(err))
	}
	return expand(strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' || r == ',' || r == ' ' || r == '\r' || r == '\t' }))
}

// expand writes out n[1-3], and keeps names that come several times.
func expand(words []string) ([]string, error) {
	var names []string
	for _, word := range words {
		some, err := spec.ParseHostList(word)
		if err != nil {
			return nil, option.Fail(1, "Invalid list of nodes: %w", err)
		}
		if names = append(names, some...); len(names) > grant.MaxStepTasks {
			return nil, option.Fail(1, "a step has at most %d tasks", grant.MaxStepTasks)
		}
	}
	return names, nil
}
