package pid1

import (
	"fmt"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// binding says on which CPUs, by the node's numbers, the tasks of a step may run.
//
// It is a promise that a task can break: the job's control group holds for all of the
// job, and binding within it is the task's own. A job that is restored, on CPUs with
// other numbers maybe, is not bound any more.
type binding struct {
	bind   step.CPUBind
	node   string
	all    []int // of the job here
	ofStep []int // nil = the job has no CPUs of its own here, and nothing is bound that was not asked for
}

// bindingOf looks which CPUs there are.
func (p *process1) bindingOf(launch *step.Launch) (*binding, error) {
	b := &binding{node: lookup(p.config.StepEnv, "SLURMD_NODENAME")}
	if launch.CPUBind != nil {
		b.bind = *launch.CPUBind
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("ask which CPUs the job has: %w", err)
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			b.all = append(b.all, cpu)
		}
	}
	if lookup(p.config.StepEnv, "SLURM_CPUS_ON_NODE") != strconv.Itoa(len(b.all)) || launch.Share == nil {
		return b, nil
	}
	for _, at := range launch.Share.CPUs {
		if at >= 0 && at < len(b.all) {
			b.ofStep = append(b.ofStep, b.all[at])
		}
	}
	return b, nil
}

// ofTask are the CPUs of the task with a local number; nil = those of the job.
func (b *binding) ofTask(local int) ([]int, error) {
	from := b.ofStep
	if len(from) == 0 {
		from = b.all
	}
	var cpus []int
	switch b.bind.Kind {
	case step.BindThreads, step.BindCores, step.BindSockets:
		each := max(b.bind.CPUsPerTask, 1)
		for i := range min(each, len(from)) {
			cpus = append(cpus, from[(local*each+i)%len(from)])
		}
		switch b.bind.Kind {
		case step.BindCores:
			cpus = alongside(cpus, from, "thread_siblings_list")
		case step.BindSockets:
			cpus = alongside(cpus, from, "core_siblings_list")
		}
	case step.BindSets:
		cpus = b.bind.Sets[local%len(b.bind.Sets)]
		for _, cpu := range cpus {
			if !slices.Contains(b.all, cpu) {
				return nil, fmt.Errorf("--cpu-bind: CPU %d is none of the job's on node %s, which are %s", cpu, b.node, formatCPUs(b.all))
			}
		}
	default:
		cpus = b.ofStep
	}
	cpus = slices.Clone(cpus)
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// alongside adds those of from that share a core, or a socket, with one of cpus.
func alongside(cpus, from []int, siblings string) []int {
	all := slices.Clone(cpus)
	for _, cpu := range cpus {
		text, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/%s", cpu, siblings))
		if err != nil {
			continue // it is alone then
		}
		for _, other := range parseCPUs(strings.TrimSpace(string(text))) {
			if slices.Contains(from, other) {
				all = append(all, other)
			}
		}
	}
	return all
}

// parseCPUs reads the kernel's list, "0-3,8"; what is none is left out.
func parseCPUs(text string) []int {
	var cpus []int
	for word := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(word, "-")
		first, err := strconv.ParseUint(low, 10, 16)
		last := first
		if err == nil && isRange {
			last, err = strconv.ParseUint(high, 10, 16)
		}
		for cpu := first; err == nil && cpu <= last; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus
}

// formatCPUs writes what parseCPUs reads.
func formatCPUs(cpus []int) string {
	var words []string
	for i := 0; i < len(cpus); {
		last := i
		for last+1 < len(cpus) && cpus[last+1] == cpus[last]+1 {
			last++
		}
		word := strconv.Itoa(cpus[i])
		if last > i {
			word += "-" + strconv.Itoa(cpus[last])
		}
		words = append(words, word)
		i = last + 1
	}
	return strings.Join(words, ",")
}

// report is the beginning of Slurm's line about a task; "" = it says nothing.
func (b *binding) report(rank, local uint32) string {
	if !b.bind.Verbose {
		return ""
	}
	units, kind := "", "MASK"
	switch b.bind.Kind {
	case step.BindThreads, step.BindCores, step.BindSockets:
		units = "-" + string(b.bind.Kind)
	case "":
		kind = "NONE"
	}
	return fmt.Sprintf("cpu-bind%s=%s - %s, task %2d %2d", units, kind, b.node, rank, local)
}

// bindTask binds the calling thread, and says so where that was asked for.
func bindTask(list, report string) error {
	var set unix.CPUSet
	for _, cpu := range parseCPUs(list) {
		set.Set(cpu)
	}
	if list != "" {
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return fmt.Errorf("bind to the CPUs %s: %w", list, err)
		}
	}
	if report == "" {
		return nil
	}
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return err
	}
	mask := new(big.Int)
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			mask.SetBit(mask, cpu, 1)
		}
	}
	fmt.Fprintf(os.Stderr, "%s [%d]: mask 0x%X set\n", report, os.Getpid(), mask)
	return nil
}
