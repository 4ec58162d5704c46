package main

import (
	"fmt"
	"slices"
)

// aim is a goal, and how it went. Missing one fails nothing.
type aim struct {
	What     string `json:"what"`
	Figure   string `json:"figure"`
	Reached  bool   `json:"reached"`
	Measured bool   `json:"measured"`
}

func (a aim) verdict() string {
	switch {
	case !a.Measured:
		return "not measured"
	case a.Reached:
		return "reached"
	default:
		return "MISSED"
	}
}

// sameCost is how much more an array of a million may cost than one job and
// still cost "the same": what two measurements of the same thing differ by.
const sameCost = 1.25

// aims judges the table.
func (t *table) aims() []aim {
	atMost := func(what string, limit, x float64) aim {
		return aim{what, fmt.Sprintf("%.3g x", x), x > 0 && x <= limit, x > 0}
	}
	atLeast := func(what string, limit, x float64) aim {
		return aim{what, fmt.Sprintf("%.3g x", x), x >= limit, x > 0}
	}
	below := func(what, unit string, limit float64, measures ...measure) aim {
		worst := 0.0
		for _, m := range measures {
			if f := t.figures(m, ours); f != nil {
				worst = max(worst, f.Median)
			}
		}
		return aim{what, thousands(worst, 0) + " " + unit, worst > 0 && worst < limit, worst > 0}
	}
	within := func(what string, limit float64, m measure, share float64) aim {
		f := t.figures(m, ours)
		if f == nil {
			return aim{What: what}
		}
		at := quantile(f.Values, share)
		return aim{what, thousands(at, 0) + " ms", at <= limit, true}
	}
	return append([]aim{
		atMost("submit to first instruction at most 2 x bare libcontainer's", 2, t.ratio(startBare, bareColumn)),
		atMost("submit to first instruction at most 1/4 of tuned Slurm's", 0.25, t.ratio(startBare, slurmTuned)),
		atLeast("jobs per second at least 2 x default Slurm's", 2, t.ratio(trueJobs, slurmPlain)),
		atLeast("jobs per second at least tuned Slurm's", 1, t.ratio(trueJobs, slurmTuned)),
		atLeast("submissions by API with 8 clients at least 3 x libslurm's with 8 threads, default", 3, t.ratio(apiEight, slurmPlain)),
		atLeast("submissions by API with 8 clients at least 3 x libslurm's with 8 threads, tuned", 3, t.ratio(apiEight, slurmTuned)),
		below("under 1,000 bytes per waiting job of the longer queue, alike or not", "B", 1000, memoryAlikeMany, memoryDifferMany),
		atMost("an array of a million tasks takes the memory of one job", sameCost, t.pairedRatio(millionMemory, ours, oneMemory, ours)),
		atMost("an array of a million tasks takes the time of one job", sameCost, t.pairedRatio(millionTime, ours, oneTime, ours)),
		below("first line of the longer queue in under 100 ms", "ms", 100, listFirstMany),
		t.threeAim(atLeast("three controllers take at least 0.8 of one's submissions per second", 0.8, t.pairedRatio(crowdThree, ours, crowdOne, ours))),
		within("a submission succeeds at most 3 s after the leader's kill, at the median", 3000, failoverSubmit, 0.5),
		within("and at most 6 s at the 99th percentile", 6000, failoverSubmit, 0.99),
		within("ready at most 3 s after a restart with many jobs", 3000, restartTime, 0.5),
		below("the image of a job that has not changed writes under 5 %", "%", 5, imageWritten),
		within("a snapshot holds up submissions for at most 200 ms", 200, snapshotStall, 1),
		t.privateAim(),
	}, slices.Concat(t.networkAims(), t.stepAims(), t.historyAims(), t.cycleAims(), t.savingAims(), t.reclaimAims())...)
}

// threeAim says beside what three controllers take how much of one peer's entries three peers
// of raft alone take on the same disk.
func (t *table) threeAim(of aim) aim {
	if alone := t.pairedRatio(crowdThree, bareColumn, crowdOne, bareColumn); alone > 0 {
		of.Figure += fmt.Sprintf("; raft alone %.3g x", alone)
	}
	return of
}

// notes are what a reader of the table has to know.
func notes() []string {
	return []string{
		"Networks are measured by one TCP connection, both ends of which are in one process, between network namespaces of this machine: where packets are encrypted, the same CPUs do it at both ends. pasta and slirp4netns are Debian's, with packets of 65,520 bytes.",
		"An image is half noise, a quarter text and a quarter zeros, in runs of pages. It is put when it was written a moment before, as a dump is. Bare is what writing the same bytes into one file and syncing it took in the same round.",
		"Figures are medians (least–most). ÷ is Gleaner's figure divided by the other's: the median over rounds of ratios within a round; the sides take turns.",
		"Gleaner answers a submission when it is on the disk; Slurm answers before its state is on disk, and writes it some seconds later. Both keep their state on the same disk.",
		"By API is, for Slurm, by libslurm: each thread or client waits for one answer before it asks again.",
		"Slurm runs at its lightest: no accounting, no cgroups, no container. Gleaner's jobs have all their isolation: namespaces, user mapping, own root, system-call filter, device rules, cgroups.",
		"Both nodes pretend 16 CPUs. A first instruction is a bash script's first command, which writes the time. Memory is what gctld and slurmctld have resident with the jobs waiting, less that before, without the pages of mapped files.",
		"Raft alone is as many peers of hashicorp/raft in the benchmark's process, without any controller, with stores as a controller's on the same disk; their clients commit entries of 512 bytes. What three controllers take is asked of all three in turn, so that two of three requests are passed on to the one that leads. Each request waits for two disks, one after the other, in place of one: 64 clients leave the machine a third of its time, and the aim is about as many as leave it none. A fail-over is measured from the kill to the answer of a gsubmit that begins at that moment, while four clients submit; it counts only if at the end every number that was answered is there once and the jobs that ran have not noticed. All controllers share this machine and its disk.",
		"A job that is saved is a Perl program of one process, half of whose memory is noise and half text, in no two pages the same. Its supervisor gets its orders from the benchmark. Saved is when the image is durable; frozen is what the job itself has seen; restored, from the store, whose bytes are not in the page cache any more, and by way of memory where the node has plenty, is when the program runs. Once more is the save of a move, after which the job stands. Bare is CRIU on a program like it, without a container; its restore finds the files in the page cache, where the dump has just left them, and a row says how long it takes without that. A freeze is measured from the order until the supervisor says that every process stands, of a job that keeps writing to its memory. A move is gcontrol migrate between two nodes of one machine, from the command until the program has run again; its image goes through a controller, or, where the row says so, over a port that one node opens for the other.",
		"An owner waits from the first command (greclaim --wait, then gsubmit; sbatch to a partition that goes before the others) to the first instruction of their job, on a node all of whose CPUs a guest has. Gleaner's guest is parked and keeps its memory; Slurm's is killed and starts over, and has no memory, which makes no difference to it. Elsewhere is on the nodes of the same machine that are not reclaimed.",
		"\"Tuned\" has SchedulerParameters=" + highThroughput + ".",
	}
}
