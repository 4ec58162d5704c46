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
	thisNode string
	socket   string // of process 1 of this node's container
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
	shape := &jobShape{job: get("JOB_ID"), socket: getenv("GLEANER_STEP_SOCKET"), thisNode: getenv("SLURMD_NODENAME")}
	if shape.job == "" || shape.socket == "" {
		return nil, errOutside
	}
	var err error
	if shape.nodes, err = spec.ParseHostList(get("JOB_NODELIST")); err != nil {
		return nil, fmt.Errorf("SLURM_JOB_NODELIST is damaged: %w", err)
	}
	if text := get("NTASKS"); text != "" {
		if tasks, err := strconv.Atoi(text); err != nil || tasks < 1 || tasks > grant.MaxStepTasks {
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

// formatCounts writes 2, 2, 2, 1 as "2(x3),1".
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
