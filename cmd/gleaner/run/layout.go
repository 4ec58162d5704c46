package run

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

// jobShape is what a job looks like from inside.
type jobShape struct {
	job      string
	nodes    []string // in the order of the job
	cpus     []int    // of each node; nil = not told
	tasks    []int    // that the job laid out on each node; nil = not told
	ntasks   int      // that the job asked for; 0 = no number
	thisNode string
	socket   string // of process 1 of this node's container
	port     string // of those of the other nodes, in the job's own network; "" = they are reached through a tunnel
}

// errOutside is returned when the variables of a job are damaged.
var errOutside = errors.New("SLURM_JOB_ID or GLEANER_STEP_SOCKET is missing: do not change the variables of a job; outside of one unset both")

// readShape reads the variables of the job.
func readShape(getenv func(string) string) (*jobShape, error) {
	get := func(name string) string {
		if value := getenv("SLURM_" + name); value != "" {
			return value
		}
		return getenv("GLEANER_" + name)
	}
	shape := &jobShape{job: get("JOB_ID"), socket: getenv("GLEANER_STEP_SOCKET"), port: getenv("GLEANER_STEP_PORT"), thisNode: getenv("SLURMD_NODENAME")}
	if shape.job == "" || shape.socket == "" {
		return nil, errOutside
	}
	var err error
	if shape.nodes, err = spec.ParseHostList(get("JOB_NODELIST")); err != nil {
		return nil, fmt.Errorf("SLURM_JOB_NODELIST is damaged: %w", err)
	}
	if shape.cpus, err = parseCounts(get("JOB_CPUS_PER_NODE")); err != nil || len(shape.cpus) != len(shape.nodes) {
		shape.cpus = nil
	}
	if shape.tasks, err = parseCounts(get("TASKS_PER_NODE")); err != nil || len(shape.tasks) != len(shape.nodes) {
		shape.tasks = nil
	}
	if text := get("NTASKS"); text != "" {
		if shape.ntasks, err = strconv.Atoi(text); err != nil || shape.ntasks < 1 || shape.ntasks > grant.MaxStepTasks {
			return nil, fmt.Errorf("SLURM_NTASKS is %q: set it to a number of tasks, or unset it", text)
		}
	}
	if len(shape.nodes) == 0 || !slices.Contains(shape.nodes, shape.thisNode) {
		return nil, fmt.Errorf("SLURMD_NODENAME is %q, which is not in SLURM_JOB_NODELIST %q: do not change these variables", shape.thisNode, get("JOB_NODELIST"))
	}
	return shape, nil
}

// nodeTasks are the tasks of a step on one node.
type nodeTasks struct {
	node     string
	jobIndex int // of the node in the job
	ranks    []uint32
	share    grant.Share
}

// laidOut is a step's grant with the names of the nodes.
func (shape *jobShape) laidOut(granted *grant.Grant) ([]nodeTasks, error) {
	plan := make([]nodeTasks, len(granted.Shares))
	for i, share := range granted.Shares {
		if share.Node >= len(shape.nodes) || !slices.IsSorted(share.Ranks) {
			return nil, fmt.Errorf("process 1 gave this step a part of node %d, and SLURM_JOB_NODELIST has %d: do not change the variables of a job", share.Node, len(shape.nodes))
		}
		plan[i] = nodeTasks{node: shape.nodes[share.Node], jobIndex: share.Node, ranks: share.Ranks, share: share}
	}
	return plan, nil
}

// grantJob is the job as its variables show it: for a process 1 that does not know.
func (shape *jobShape) grantJob() grant.Job {
	job := grant.Job{Tasks: shape.ntasks, Nodes: make([]grant.Node, len(shape.nodes))}
	for i, name := range shape.nodes {
		job.Nodes[i] = grant.Node{Name: name, CPUs: grant.MaxTasks}
		if shape.cpus != nil {
			job.Nodes[i].CPUs = min(shape.cpus[i], 1<<16)
		}
		if shape.tasks != nil {
			job.Nodes[i].Tasks = shape.tasks[i]
		}
	}
	return job
}

// parseCounts reads "2(x3),1": 2, 2, 2, 1.
func parseCounts(text string) ([]int, error) {
	var counts []int
	for word := range strings.SplitSeq(text, ",") {
		number, times, repeated := strings.Cut(word, "(x")
		count, err := strconv.Atoi(number)
		repeat := 1
		if repeated && err == nil {
			repeat, err = strconv.Atoi(strings.TrimSuffix(times, ")"))
		}
		if err != nil || count < 0 || repeat < 1 || repeated && !strings.HasSuffix(times, ")") || len(counts)+repeat > spec.MaxHostListNames {
			return nil, fmt.Errorf("%q is not a list of counts such as 2(x3),1", text)
		}
		for range repeat {
			counts = append(counts, count)
		}
	}
	return counts, nil
}

// formatCounts writes what parseCounts reads.
func formatCounts(counts []int) string {
	var words []string
	for i := 0; i < len(counts); {
		same := i
		for same < len(counts) && counts[same] == counts[i] {
			same++
		}
		word := strconv.Itoa(counts[i])
		if same-i > 1 {
			word += fmt.Sprintf("(x%d)", same-i)
		}
		words = append(words, word)
		i = same
	}
	return strings.Join(words, ",")
}

// formatRanks writes ascending task numbers as "0-2,5".
func formatRanks(ranks []uint32) string {
	var words []string
	for i := 0; i < len(ranks); {
		last := i
		for last+1 < len(ranks) && ranks[last+1] == ranks[last]+1 {
			last++
		}
		word := strconv.FormatUint(uint64(ranks[i]), 10)
		if last > i {
			word += "-" + strconv.FormatUint(uint64(ranks[last]), 10)
		}
		words = append(words, word)
		i = last + 1
	}
	return strings.Join(words, ",")
}
