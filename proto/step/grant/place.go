package grant

import (
	"cmp"
	"fmt"
	"slices"
)

// shape is a request after its numbers were settled.
type shape struct {
	job     *Job
	request *Request
	tasks   int
	perNode int // tasks on a node at most; 0 = any number
	least   int // nodes
	most    int
	// index of the nodes that must take part, and of those that may, in the order of
	// the job.
	must, may []int
	warnings  []string
}

// settle reads a request as srun does inside an allocation.
func (job *Job) settle(r *Request) (*shape, error) {
	s := &shape{job: job, request: r, perNode: r.TasksPerNode}
	if err := s.findNodes(); err != nil {
		return nil, err
	}
	if err := s.countNodes(); err != nil {
		return nil, err
	}
	if s.tasks > MaxStepTasks {
		return nil, refuse(tooManyCPUs, "%d tasks are more than a step may have (%d)", s.tasks, MaxStepTasks)
	}
	if s.perNode > 0 && s.perNode*s.most < s.tasks {
		s.warn("can't honor --ntasks-per-node set to %d which doesn't match the requested tasks %d with the number of requested nodes %d. Ignoring --ntasks-per-node.", s.perNode, s.tasks, s.most)
		s.perNode = 0
	}
	if s.tasks < s.most {
		if r.Least == 0 || s.tasks < s.least {
			s.warn("can't run %d processes on %d nodes, setting nnodes to %d", s.tasks, s.most, s.tasks)
		}
		s.most = s.tasks
	}
	s.least = min(s.least, s.most)
	if len(s.may) < s.least || len(s.must) > s.most {
		return nil, refuse(noSuchNodes, "%d nodes are to be used, and %d of the job's may or must be", s.most, max(len(s.must), min(len(s.may), s.most)))
	}
	return s, nil
}

func (s *shape) warn(text string, arguments ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(text, arguments...))
}

// findNodes looks up the names.
func (s *shape) findNodes() error {
	r := s.request
	must := r.Nodes
	if r.Distribution.Kind == Arbitrary {
		must = r.Distribution.Hosts
	}
	for _, name := range must {
		index := slices.IndexFunc(s.job.Nodes, func(n Node) bool { return n.Name == name })
		if index < 0 || slices.Contains(r.Exclude, name) {
			return refuse(noSuchNodes, "%s is not a node of this job that may be used; those are in SLURM_JOB_NODELIST", name)
		}
		if !slices.Contains(s.must, index) {
			s.must = append(s.must, index)
		}
	}
	for index, node := range s.job.Nodes {
		if !slices.Contains(r.Exclude, node.Name) {
			s.may = append(s.may, index)
		}
	}
	return nil
}

// countNodes settles the number of nodes and of tasks.
func (s *shape) countNodes() error {
	r := s.request
	s.least, s.most = max(len(s.may), 1), max(len(s.may), 1)
	if r.Least > len(s.job.Nodes) {
		return &Refusal{Sentence: fmt.Sprintf("Only allocated %d nodes asked for %d", len(s.job.Nodes), r.Least)}
	}
	if r.Least > 0 {
		s.least, s.most = r.Least, min(max(r.Most, r.Least), len(s.job.Nodes))
	}
	s.tasks = r.Tasks
	switch {
	case r.Distribution.Kind == Arbitrary:
		s.least, s.most = len(s.must), len(s.must)
		s.tasks = len(r.Distribution.Hosts)
		if r.Tasks > 0 && r.Tasks != s.tasks {
			return refuse(noSuchNodes, "%d tasks are to run, and the list of --distribution=arbitrary names %d", r.Tasks, s.tasks)
		}
	case s.tasks > 0:
	case s.job.Tasks > 0:
		s.tasks = s.job.Tasks
	default:
		s.tasks = s.most * max(r.TasksPerNode, 1)
	}
	return nil
}

// place finds a place for the step in what is there. The answer is nil, with the
// reason, if there is none.
func (s *shape) place(r room) ([]Share, *Refusal) {
	var why *Refusal
	for nodes := s.most; nodes >= max(s.least, len(s.must), 1); nodes-- {
		if s.request.Least == 0 && nodes < s.most {
			break
		}
		shares, refused := s.placeOn(r, nodes)
		if refused == nil {
			return shares, nil
		}
		if why == nil {
			why = refused
		}
	}
	return nil, why
}

// placeOn finds a place on so many nodes.
func (s *shape) placeOn(r room, nodes int) ([]Share, *Refusal) {
	if s.request.Distribution.Kind == Arbitrary {
		return s.take(r, s.must, s.ofHosts())
	}
	able := make([]int, len(r)) // tasks that a node has room for
	for _, index := range s.may {
		able[index] = s.tasksAt(r, index)
	}
	others := slices.DeleteFunc(slices.Clone(s.may), func(i int) bool { return slices.Contains(s.must, i) || able[i] == 0 })
	var why *Refusal
	for _, order := range []func(a, b int) int{
		func(a, b int) int { return a - b },
		func(a, b int) int { return cmp.Or(able[b]-able[a], a-b) }, // the roomiest first
	} {
		slices.SortFunc(others, order)
		chosen := append(slices.Clone(s.must), others[:min(len(others), nodes-len(s.must))]...)
		slices.Sort(chosen)
		if len(chosen) < nodes {
			return nil, s.tooFew(r, nodes)
		}
		counts, refused := s.countOut(chosen, able)
		if refused == nil {
			var shares []Share
			if shares, refused = s.take(r, chosen, counts); refused == nil {
				return shares, nil
			}
		}
		if why == nil {
			why = refused
		}
	}
	return nil, why
}

// tooFew says why too few nodes have room.
func (s *shape) tooFew(r room, nodes int) *Refusal {
	for _, index := range s.may {
		if s.cpuTasks(r, index) > 0 {
			if _, refused := s.take(r, []int{index}, []int{1}); refused != nil {
				return refused
			}
		}
	}
	return refuse(tooManyCPUs, "%d tasks are to run on %d nodes; choose with -n and -N, or allow more with --overcommit", s.tasks, nodes)
}

func (s *shape) cpusPerTask() int { return max(s.request.CPUsPerTask, 1) }

func (s *shape) cpuTasks(r room, index int) int {
	if s.request.Overcommit {
		if len(r[index].cpus) == 0 {
			return 0
		}
		return MaxTasks
	}
	return min(len(r[index].cpus)/s.cpusPerTask(), MaxTasks)
}

// tasksAt is how many of the step's tasks a node has room for.
func (s *shape) tasksAt(r room, index int) int {
	able := s.cpuTasks(r, index)
	if s.perNode > 0 {
		able = min(able, s.perNode)
	}
	if g := s.request.GPUs; g.Per == PerTask && g.Count > 0 {
		able = min(able, len(r[index].gpus)/g.Count)
	}
	if m := s.request.Memory; m.Per == PerCPU && m.MiB > 0 && s.job.Nodes[index].MemoryMiB > 0 && !s.request.Overcommit {
		able = int(min(uint64(able), r[index].memoryMiB/m.MiB/uint64(s.cpusPerTask())))
	}
	return able
}

// ofHosts are the numbers of tasks on each node of an arbitrary distribution.
func (s *shape) ofHosts() []int {
	slices.Sort(s.must)
	counts := make([]int, len(s.must))
	for _, host := range s.request.Distribution.Hosts {
		for i, index := range s.must {
			if s.job.Nodes[index].Name == host {
				counts[i]++
			}
		}
	}
	return counts
}

// countOut is how many of the tasks each chosen node runs.
func (s *shape) countOut(chosen, able []int) ([]int, *Refusal) {
	if counts := s.asTheJob(chosen); counts != nil {
		return counts, nil
	}
	total, none := 0, false
	for _, index := range chosen {
		total += able[index]
		none = none || able[index] == 0
	}
	if total < s.tasks || none {
		return nil, refuse(tooManyCPUs, "%d tasks are to run on %d nodes, which have CPUs for %d; choose with -n and -N, or allow more with --overcommit", s.tasks, len(chosen), total)
	}
	size := 1
	if s.request.Distribution.Kind == Plane {
		size = max(s.request.Distribution.Plane, 1)
	}
	counts := make([]int, len(chosen))
	for left := s.tasks; left > 0; {
		for i, index := range chosen {
			n := min(size, left, able[index]-counts[i])
			counts[i] += n
			left -= n
		}
	}
	return counts, nil
}

// asTheJob is the layout that the job itself was given, where the step is over all of
// it.
func (s *shape) asTheJob(chosen []int) []int {
	r := s.request
	if len(chosen) != len(s.job.Nodes) || r.TasksPerNode > 0 || r.CPUsPerTask > 0 || r.Distribution.Kind == Plane {
		return nil
	}
	counts, total := make([]int, len(chosen)), 0
	for i, node := range s.job.Nodes {
		if node.Tasks < 1 || node.Tasks > MaxTasks {
			return nil
		}
		counts[i] = node.Tasks
		total += node.Tasks
	}
	if total != s.tasks {
		return nil
	}
	return counts
}

// take gives the tasks of each chosen node what they need.
func (s *shape) take(r room, chosen, counts []int) ([]Share, *Refusal) {
	shares := make([]Share, len(chosen))
	for i, index := range chosen {
		share, refused := s.takeOne(r[index], index, counts[i])
		if refused != nil {
			return nil, refused
		}
		shares[i] = share
	}
	if g := s.request.GPUs; g.Per == PerStep {
		if refused := s.takeGPUs(r, shares, g.Count); refused != nil {
			return nil, refused
		}
	}
	s.number(shares, counts)
	return shares, nil
}

func (s *shape) takeOne(r nodeRoom, index, tasks int) (Share, *Refusal) {
	node := &s.job.Nodes[index]
	need := tasks * s.cpusPerTask()
	asTheJob := tasks == node.Tasks && s.request.CPUsPerTask == 0 // which may itself have more tasks than CPUs
	if s.request.Overcommit || asTheJob {
		need = max(min(need, node.CPUs), 1)
	}
	if need > len(r.cpus) {
		return Share{}, refuse(tooManyCPUs, "%d tasks need %d CPUs of node %s, where the job has %d", tasks, need, node.Name, len(r.cpus))
	}
	share := Share{Node: index, CPUs: r.cpus}
	if s.request.Exact {
		share.CPUs = r.cpus[:need]
	}
	share.MemoryMiB = s.memoryFor(node, len(share.CPUs))
	if node.MemoryMiB > 0 && share.MemoryMiB > r.memoryMiB {
		return Share{}, refuse(tooMuchMemory, "it needs %d MiB on node %s, where the job has %d", share.MemoryMiB, node.Name, r.memoryMiB)
	}
	wanted := node.GPUs
	switch g := s.request.GPUs; g.Per {
	case PerNode:
		wanted = g.Count
	case PerTask:
		wanted = g.Count * tasks
	case PerStep:
		wanted = 0
	}
	if wanted > len(r.gpus) {
		return Share{}, refuse(badGRES, "it needs %d GPUs on node %s, where the job has %d; start fewer tasks, or let all see all GPUs with --gpu-bind=none", wanted, node.Name, len(r.gpus))
	}
	share.GPUs = r.gpus[:wanted]
	return share, nil
}

// memoryFor is what a step with so many CPUs of a node has there.
func (s *shape) memoryFor(node *Node, cpus int) uint64 {
	switch m := s.request.Memory; m.Per {
	case PerNode:
		return m.MiB
	case PerCPU:
		return m.MiB * uint64(cpus)
	}
	return node.MemoryMiB * uint64(cpus) / uint64(max(node.CPUs, 1))
}

// takeGPUs spreads GPUs over the nodes in turn.
func (s *shape) takeGPUs(r room, shares []Share, count int) *Refusal {
	for left := count; left > 0; {
		before := left
		for i := range shares {
			if free := r[shares[i].Node].gpus; left > 0 && len(shares[i].GPUs) < len(free) {
				shares[i].GPUs = free[:len(shares[i].GPUs)+1]
				left--
			}
		}
		if left == before {
			return refuse(badGRES, "it needs %d GPUs on its nodes, where the job has %d", count, count-left)
		}
	}
	return nil
}

// number gives the tasks their ranks.
func (s *shape) number(shares []Share, counts []int) {
	next := uint32(0)
	give := func(i, n int) {
		for range n {
			shares[i].Ranks = append(shares[i].Ranks, next)
			next++
		}
	}
	size := 0
	switch d := s.request.Distribution; d.Kind {
	case Arbitrary:
		for _, host := range d.Hosts {
			give(slices.IndexFunc(shares, func(share Share) bool { return s.job.Nodes[share.Node].Name == host }), 1)
		}
		return
	case Cyclic:
		size = 1
	case Plane:
		size = max(d.Plane, 1)
	default:
		for i := range shares {
			give(i, counts[i])
		}
		return
	}
	for given := true; given; {
		given = false
		for i := range shares {
			n := min(size, counts[i]-len(shares[i].Ranks))
			give(i, n)
			given = given || n > 0
		}
	}
}
