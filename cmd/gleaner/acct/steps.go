package acct

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/session"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// maxAsked bounds the running jobs whose nodes are asked.
const maxAsked = 32

// addRunning adds the steps that a job runs now, if --jobs names it and its nodes answer
// the caller: those of others do not.
func (c *choice) addRunning(inv *option.Invocation, controllers *client.Client, run *pb.PastRun) {
	job := run.GetJob()
	if c.jobs || len(c.targets) == 0 || !run.GetLive() || job.GetState() != pb.JobState_JOB_STATE_RUNNING || c.asked >= maxAsked {
		return
	}
	if _, wanted := c.targets.Match(job); !wanted || uint32(console.UID()) != job.GetOwner().GetUid() && console.UID() != 0 {
		return
	}
	c.asked++
	if steps, err := session.Steps(inv.Context, controllers, job); err == nil {
		run.Steps = steps
	}
}

// What a step used. The line of the batch script has what the whole job used on its nodes.

func (r *row) cpuNS() uint64 {
	if r.Of != nil {
		return r.Of.CPUNS()
	}
	return r.Job().GetUsage().GetCpuNs()
}

func (r *row) averageCPU() uint64 {
	if r.Of != nil {
		return r.Of.Average(r.Of.CPUNS())
	}
	return r.cpuNS()
}

func (r *row) leastCPU() string {
	if r.Of != nil {
		return show.Clock(uint32(r.Of.LeastUS / 1e6))
	}
	return show.Clock(uint32(r.cpuNS() / 1e9))
}

func (r *row) leastNode() string {
	if r.Of != nil {
		return r.Of.LeastNode
	}
	return r.Job().GetBatchHost()
}

func (r *row) leastTask() string {
	if r.Of != nil {
		return show.Digits(r.Of.LeastRank)
	}
	return "0"
}

// stepCPU is a part of the time that is known of steps only.
func (r *row) stepCPU(part func(*past.Step) uint64) string {
	if r.Of == nil {
		return ""
	}
	return show.CPUClock(part(r.Of) * 1000)
}

func (r *row) peakMemory() string {
	if r.Of != nil {
		return r.size(r.Of.Peak.Bytes, 'K')
	}
	return r.size(r.Job().GetUsage().GetPeakMemoryBytes(), 'K')
}

func (r *row) averageMemory() string {
	if r.Of != nil {
		return r.size(r.Of.Average(r.Of.SumBytes), 'K')
	}
	return r.peakMemory()
}

func (r *row) peakNode() string {
	if r.Of != nil {
		return r.Of.Peak.Node
	}
	return r.Job().GetBatchHost()
}

func (r *row) peakTask() string {
	if r.Of != nil {
		return show.Digits(r.Of.Peak.Rank)
	}
	return "0"
}

// disk is an average over the tasks, in megabytes as sacct has it.
func (r *row) disk(sum func(*past.Step) uint64) string {
	if r.Of == nil {
		return ""
	}
	return fmt.Sprintf("%.2fM", float64(r.Of.Average(sum(r.Of)))/(1<<20))
}

// mostDisk is of the task that read or wrote the most.
func (r *row) mostDisk(which func(*past.Step) past.Most) string {
	if r.Of == nil {
		return ""
	}
	return fmt.Sprintf("%.2fM", float64(which(r.Of).Bytes)/(1<<20))
}

func (r *row) tasks() string {
	if r.Of != nil {
		return show.Digits(r.Of.Tasks)
	}
	return "1"
}

func (r *row) askedCPUs() string {
	if r.Of != nil {
		return show.Digits(r.Of.CPUs)
	}
	return show.Digits(r.Job().GetCpus())
}

// stepTRES is what a step had: its memory is not told apart.
func (r *row) stepTRES() string {
	parts := []string{fmt.Sprintf("cpu=%d", r.Of.CPUs)}
	if r.Of.GPUs > 0 {
		parts = append(parts, fmt.Sprintf("gres/gpu=%d", r.Of.GPUs))
	}
	return strings.Join(append(parts, fmt.Sprintf("node=%d", len(r.Of.Nodes))), ",")
}
