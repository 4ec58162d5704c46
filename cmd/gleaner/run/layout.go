package run

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// maxStepTasks bounds the tasks of a step: what a terminal or a file could
// still take the output of.
const maxStepTasks = 1 << 20

// jobShape is what a job looks like from inside.
type jobShape struct {
	job      string
	nodes    []string // in the order of the job
	cpus     []int    // of each node; nil = not told
	tasks    []int    // that the job laid out on each node; nil = not told
	ntasks   int      // that the job asked for; 0 = no number
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
	if shape.cpus, err = parseCounts(get("JOB_CPUS_PER_NODE")); err != nil || len(shape.cpus) != len(shape.nodes) {
		shape.cpus = nil
	}
	if shape.tasks, err = parseCounts(get("TASKS_PER_NODE")); err != nil || len(shape.tasks) != len(shape.nodes) {
		shape.tasks = nil
	}
	if text := get("NTASKS"); text != "" {
		if shape.ntasks, err = strconv.Atoi(text); err != nil || shape.ntasks < 1 || shape.ntasks > maxStepTasks {
			return nil, fmt.Errorf("SLURM_NTASKS is %q: set it to a number of tasks, or unset it", text)
		}
	}
	if len(shape.nodes) == 0 || !slices.Contains(shape.nodes, shape.thisNode) {
		return nil, fmt.Errorf("SLURMD_NODENAME is %q, which is not in SLURM_JOB_NODELIST %q: do not change these variables", shape.thisNode, get("JOB_NODELIST"))
	}
	return shape, nil
}

// stepRequest is what the command line asks for; 0 and nil = not given.
type stepRequest struct {
	tasks        int
	least, most  int // nodes
	tasksPerNode int
	cpusPerTask  int
	nodes        []string
	exclude      []string
	overcommit   bool
}

// nodeTasks are the tasks of a step on one node.
type nodeTasks struct {
	node     string
	jobIndex int // of the node in the job
	ranks    []uint32
}

// layOut decides how many tasks run where, as srun does inside an allocation.
// Tasks are counted out to the nodes in turn as long as they have CPUs, and
// numbered node by node. Warnings are for the user.
func (shape *jobShape) layOut(request stepRequest) (plan []nodeTasks, warnings []string, err error) {
	wanted, err := shape.nodeCount(request)
	if err != nil {
		return nil, nil, err
	}
	tasks := request.tasks
	switch {
	case tasks > 0:
	case shape.ntasks > 0:
		tasks = shape.ntasks
	default:
		tasks = wanted * max(request.tasksPerNode, 1)
	}
	if tasks > maxStepTasks {
		return nil, nil, fmt.Errorf("%d tasks are more than a step may have (%d)", tasks, maxStepTasks)
	}
	perNode := request.tasksPerNode
	if perNode > 0 && perNode*wanted < tasks {
		warnings = append(warnings, fmt.Sprintf("can't honor --ntasks-per-node set to %d which doesn't match the requested tasks %d with the number of requested nodes %d. Ignoring --ntasks-per-node.", perNode, tasks, wanted))
		perNode = 0
	}
	if tasks < wanted {
		warnings = append(warnings, fmt.Sprintf("can't run %d processes on %d nodes, setting nnodes to %d", tasks, wanted, tasks))
		wanted = tasks
	}
	chosen, err := shape.chooseNodes(request, wanted)
	if err != nil {
		return nil, nil, err
	}
	counts, err := shape.countOut(chosen, tasks, perNode, request)
	if err != nil {
		return nil, nil, err
	}
	rank := uint32(0)
	for i, index := range chosen {
		place := nodeTasks{node: shape.nodes[index], jobIndex: index}
		for range counts[i] {
			place.ranks = append(place.ranks, rank)
			rank++
		}
		plan = append(plan, place)
	}
	return plan, warnings, nil
}

func (shape *jobShape) nodeCount(request stepRequest) (int, error) {
	if request.least == 0 {
		available := 0
		for _, node := range shape.nodes {
			if !slices.Contains(request.exclude, node) {
				available++
			}
		}
		return max(available, 1), nil
	}
	if request.least > len(shape.nodes) {
		return 0, option.Fail(1, "Only allocated %d nodes asked for %d", len(shape.nodes), request.least)
	}
	return min(max(request.most, request.least), len(shape.nodes)), nil
}

// chooseNodes picks nodes, by index: those that must take part, then the
// first others of the job, in the order of the job.
func (shape *jobShape) chooseNodes(request stepRequest, wanted int) ([]int, error) {
	chosen := make([]int, 0, wanted)
	for _, node := range request.nodes {
		index := slices.Index(shape.nodes, node)
		if index < 0 || slices.Contains(request.exclude, node) {
			return nil, shape.refuse("Requested node configuration is not available",
				fmt.Sprintf("%s is not a node of this job that may be used; those are %s", node, spec.FormatHostList(shape.nodes)))
		}
		chosen = append(chosen, index)
	}
	for index, node := range shape.nodes {
		if len(chosen) < wanted && !slices.Contains(chosen, index) && !slices.Contains(request.exclude, node) {
			chosen = append(chosen, index)
		}
	}
	if len(chosen) != wanted {
		return nil, shape.refuse("Requested node configuration is not available",
			fmt.Sprintf("%d nodes are to be used, and %d of the job's may or must be", wanted, len(chosen)))
	}
	slices.Sort(chosen)
	return chosen, nil
}

// countOut is how many of the tasks each chosen node runs.
func (shape *jobShape) countOut(chosen []int, tasks, perNode int, request stepRequest) ([]int, error) {
	if counts := shape.asTheJob(chosen, tasks, request); counts != nil {
		return counts, nil
	}
	room, total := make([]int, len(chosen)), 0
	for i, index := range chosen {
		room[i] = step.MaxTasks
		if shape.cpus != nil && !request.overcommit {
			room[i] = shape.cpus[index] / max(request.cpusPerTask, 1)
		}
		if perNode > 0 {
			room[i] = min(room[i], perNode)
		}
		room[i] = min(room[i], step.MaxTasks)
		total += room[i]
	}
	if total < tasks || slices.Contains(room, 0) {
		return nil, shape.refuse("More processors requested than permitted",
			fmt.Sprintf("%d tasks are to run on %d nodes, which have CPUs for %d; choose with -n and -N, or allow more with --overcommit", tasks, len(chosen), total))
	}
	counts := make([]int, len(chosen))
	for left := tasks; left > 0; {
		for i := range counts {
			if left > 0 && counts[i] < room[i] {
				counts[i]++
				left--
			}
		}
	}
	return counts, nil
}

// asTheJob is the layout that the job itself was given, where the step is
// over all of it.
func (shape *jobShape) asTheJob(chosen []int, tasks int, request stepRequest) []int {
	if shape.tasks == nil || len(chosen) != len(shape.nodes) || request.tasksPerNode > 0 || request.cpusPerTask > 0 {
		return nil
	}
	total := 0
	for _, count := range shape.tasks {
		if count < 1 || count > step.MaxTasks {
			return nil
		}
		total += count
	}
	if total != tasks {
		return nil
	}
	return shape.tasks
}

func (shape *jobShape) refuse(sentence, detail string) error {
	return option.Fail(1, "Unable to create step for job %s: %s\n%s", shape.job, sentence, detail)
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
