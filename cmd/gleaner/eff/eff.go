// Package eff is geff, Slurm's seff: what a job used of what it had, and what to ask for
// next time.
package eff

import (
	"bufio"
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func runEff(inv *option.Invocation) error {
	if len(inv.Operands) != 1 {
		return inv.Fail("name one job, as in %s 12", inv.Command.Program())
	}
	targets, err := spec.ParseJobTargets(inv.Operands[0])
	if err != nil {
		return inv.Fail("%w", err)
	}
	controllers, err := past.Connect(inv)
	if err != nil {
		return err
	}
	defer controllers.Close()
	view := show.NewView(inv.Getenv, console.Clock())
	runs, err := past.All(inv.Context, inv, controllers, view, targets[0], true)
	if err != nil {
		return past.Failed(inv, err)
	}
	runs = slices.DeleteFunc(runs, func(run *pb.PastRun) bool {
		_, wanted := show.JobTargets(targets[:1]).Match(run.GetJob())
		return !wanted
	})
	if len(runs) == 0 {
		return inv.Fail("Job not found.")
	}
	out := bufio.NewWriter(inv.Stdout)
	for i, run := range runs {
		if i > 0 {
			fmt.Fprintln(out)
		}
		about(out, view, past.Row{Run: run})
	}
	return console.Output(out.Flush())
}

// about prints one run.
func about(out *bufio.Writer, view *show.View, r past.Row) {
	job := r.Job()
	fmt.Fprintf(out, "Job ID: %d\n", job.GetId().GetJob())
	if job.GetArrayJobId() != 0 {
		fmt.Fprintf(out, "Array Job ID: %s\n", view.JobName(job))
	}
	fmt.Fprintf(out, "Cluster: %s\nUser/Group: %s/%s\n", format.Printable(view.Cluster), format.Printable(job.GetOwner().GetUser()), format.Printable(job.GetOwner().GetGroup()))
	word, _ := r.State()
	code, _ := r.Exit()
	if r.Run.GetLive() {
		fmt.Fprintf(out, "State: %s\n", word)
	} else {
		fmt.Fprintf(out, "State: %s (exit code %d)\n", word, code)
	}
	if job.GetStartMs() == 0 || word == "PENDING" {
		fmt.Fprintln(out, "Efficiency not available for jobs that have not run.")
		return
	}
	u := useOf(r)
	if nodes := job.GetNodes(); nodes > 1 {
		fmt.Fprintf(out, "Nodes: %d\nCores per node: %d\n", nodes, job.GetCpus()/nodes)
	} else {
		fmt.Fprintf(out, "Cores: %d\n", job.GetCpus())
	}
	fmt.Fprintf(out, "CPU Utilized: %s\nCPU Efficiency: %s of %s core-walltime\n", show.Clock(u.cpuS), percent(uint64(u.cpuS), uint64(u.coreS)), show.Clock(u.coreS))
	fmt.Fprintf(out, "Job Wall-clock time: %s\n", show.Clock(u.wallS))
	fmt.Fprintf(out, "Memory Utilized: %s\nMemory Efficiency: %s of %s%s\n", size(u.peak), percent(u.peak, u.memory), size(u.memory), perNode(job))
	gpus(out, r)
	if r.Run.GetLive() {
		fmt.Fprintf(out, "WARNING: Efficiency statistics may be misleading for %s jobs.\n", word)
		return
	}
	for _, line := range advice(r, u) {
		fmt.Fprintln(out, line)
	}
}

// use is what a run used and had.
type use struct {
	cpuS, coreS, wallS uint32
	peak, memory       uint64 // bytes, on the node where it used the most
}

func useOf(r past.Row) use {
	job := r.Job()
	u := use{cpuS: uint32(min(job.GetUsage().GetCpuNs()/1e9, uint64(spec.Unlimited)-1)), wallS: r.ElapsedS(), peak: job.GetUsage().GetPeakMemoryBytes()}
	u.coreS = uint32(min(uint64(u.wallS)*uint64(job.GetCpus()), uint64(spec.Unlimited)-1))
	for _, node := range job.GetAllocation() {
		u.memory = max(u.memory, node.GetMemoryBytes())
	}
	return u
}

func perNode(job *pb.Job) string {
	if job.GetNodes() > 1 {
		return " a node"
	}
	return ""
}

func percent(part, whole uint64) string {
	if whole == 0 {
		return "0.00%"
	}
	return fmt.Sprintf("%.2f%%", 100*float64(part)/float64(whole))
}

// size is an amount of memory as seff writes it.
func size(bytes uint64) string {
	number, unit := float64(bytes), 0
	names := []string{"B", "KB", "MB", "GB", "TB", "PB", "EB"}
	for number >= 1024 && unit < len(names)-1 {
		number, unit = number/1024, unit+1
	}
	return fmt.Sprintf("%.2f %s", number, names[unit])
}

// What is advised: memory with a fifth to spare, and at least 64 MiB; CPUs as many as were
// busy; a limit half as long again as the run. Little differences are not worth a word,
// and a run of less than a minute says nothing about time or CPUs.
const (
	spareMemory  = 64 << 20
	shortRunS    = 60
	wasteful     = 2 // times what was used
	minuteS      = 60
	tightPercent = 90
)

func advice(r past.Row, u use) []string {
	var options, lines []string
	job := r.Job()
	state := job.GetState()
	if want := roundUp(u.peak+max(u.peak/5, spareMemory), spareMemory); u.peak > 0 && want*wasteful <= u.memory {
		options = append(options, fmt.Sprintf("--mem=%dM", want>>20))
	}
	if busy := (u.cpuS + u.wallS - 1) / max(u.wallS, 1); u.wallS >= shortRunS && job.GetCpus() > 1 && max(busy, 1)*wasteful <= job.GetCpus() {
		options = append(options, fmt.Sprintf("as few CPUs as were busy (%d of %d)", max(busy, 1), job.GetCpus()))
	}
	fewer, idle := gpuAdvice(r, u)
	if fewer != "" {
		options = append(options, fewer)
	}
	if limit := job.GetTimeLimitS(); limit != spec.Unlimited && limit > 0 && u.wallS >= shortRunS && state == pb.JobState_JOB_STATE_COMPLETED {
		if want := uint32(roundUp(uint64(u.wallS)*3/2, minuteS)); want*wasteful <= limit {
			options = append(options, "--time="+show.Clock(want))
		}
	}
	if len(options) > 0 {
		text := "Next time ask for " + options[0]
		for _, option := range options[1:] {
			text += ", " + option
		}
		lines = append(lines, text+": it will start sooner.")
	}
	if idle != "" {
		lines = append(lines, idle)
	}
	switch {
	case state == pb.JobState_JOB_STATE_OUT_OF_MEMORY:
		lines = append(lines, fmt.Sprintf("It needed more memory than it had: next time ask for --mem=%dM or more.", roundUp(u.memory*3/2, spareMemory)>>20))
	case u.memory > 0 && u.peak/100*100 >= u.memory/100*tightPercent:
		lines = append(lines, fmt.Sprintf("Its memory was nearly full: next time ask for --mem=%dM, to be safe.", roundUp(u.peak+u.peak/5, spareMemory)>>20))
	case state == pb.JobState_JOB_STATE_TIMEOUT:
		lines = append(lines, "It reached its time limit: next time ask for more --time, or save its work with --checkpoint.")
	}
	return lines
}

func roundUp(n, step uint64) uint64 { return (n + step - 1) / step * step }
