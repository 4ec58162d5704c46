package sched

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// TestDialogues plays the files in testdata. Run it with -rewrite to write
// down what it answers now, and review the difference.
func TestDialogues(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		d := dialogue{}
		datadriven.RunTest(t, path, func(t *testing.T, data *datadriven.TestData) string {
			answer, err := d.play(data.Cmd, strings.Split(data.Input, "\n"))
			if err != nil {
				t.Fatalf("%s: %s: %v", data.Pos, data.Cmd, err)
			}
			return answer
		})
	})
}

// dialogue is a cluster built up line by line. Commands:
//
//	nodes       NAME [cpus=N] [mem=SIZE] [gpus=MODEL*N,…] [links=0-3,4-7] [features=A,B] [down] [broken=INDEX]
//	switches    NAME nodes=A,B | NAME above=SWITCH,…
//	partitions  NAME [nodes=A,B] [tier=N] [factor=N] [time=MINUTES] [exclusive=user|node] [qos=NAME] [down]
//	running     ID on=NODE [cpus=N] [mem=SIZE] [gpus=N] [alone] [uid=N] [userexclusive]
//	accounts, priority  see dialogue_priority_test.go
//	licenses, qos, associations, enforce, minutes, ended, submit  see dialogue_limits_test.go
//	preempt, gone, wait  see dialogue_preempt_test.go
//	owners, yields  see dialogue_owners_test.go
//	suspend, stands, parked, resume  see dialogue_suspend_test.go
//	backfill  see dialogue_backfill_test.go
//	priorities  answers the factors of each waiting job
//	jobs        ID [PRIORITY] [-begin SECONDS] [-deadline SECONDS] [-depends] [-never] [-p A,B] [-t MINUTES] [--time-min MINUTES] [-N MIN[-MAX]] [-n N] … [--array=N]
//	map         draws what is in use: a device is its number if it is free
//	schedule    answers the plan; what it starts stays started
//	feasible    with one line as for jobs
type dialogue struct {
	snapshot Snapshot
	memo     Memo
	owned    []string // the accounts of snapshot.Owners
}

func (d *dialogue) play(command string, lines []string) (string, error) {
	each := map[string]func(words []string) error{
		"nodes": d.node, "switches": d.wire, "partitions": d.partition, "running": d.running, "jobs": d.job,
		"priority": d.priority, "licenses": d.license, "qos": d.qos, "associations": d.association, "enforce": d.enforce,
		"minutes": d.minutes, "ended": d.ended, "preempt": d.preempt, "gone": d.gone,
		"suspend": d.suspend, "stands": d.stands, "parked": d.parked, "resume": d.resume,
		"owners": d.owners, "yields": d.yields, "backfill": d.backfill,
	}
	switch command {
	case "map":
		return d.draw(), nil
	case "schedule":
		return d.schedule(), nil
	case "accounts":
		return "ok\n", d.accounts(lines)
	case "priorities":
		return d.priorities(), nil
	case "feasible":
		return d.feasible(strings.Fields(lines[0]))
	case "submit":
		return d.submit(strings.Fields(lines[0]))
	case "wait":
		d.snapshot.NowMS += int64(number(options(strings.Fields(lines[0]))["seconds"], 0)) * 1000
		return "ok\n", nil
	}
	if command == "jobs" {
		d.snapshot.Waiting = nil
	}
	for _, line := range lines {
		if err := each[command](strings.Fields(line)); err != nil {
			return "", fmt.Errorf("%q: %w", line, err)
		}
	}
	return "ok\n", nil
}

// options splits words such as "cpus=4" and "down".
func options(words []string) map[string]string {
	values := make(map[string]string)
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		values[key] = value
	}
	return values
}

func number(text string, otherwise uint64) uint64 {
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// size reads "4G" or "512M".
func size(text string, otherwise uint64) uint64 {
	if text == "" || text == "all" {
		return otherwise
	}
	shift := map[byte]int{'M': 20, 'G': 30}[text[len(text)-1]]
	return number(text[:len(text)-1], 0) << shift
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	words := strings.Split(text, ",")
	slices.Sort(words)
	return words
}

func (d *dialogue) node(words []string) error {
	o := options(words[1:])
	_, down := o["down"]
	cpus := place.FirstCPUs(uint32(number(o["cpus"], 8)))
	n := place.Node{
		Name: words[0], Available: !down, CPUs: cpus, FreeCPUs: cpus,
		MemoryBytes: size(o["mem"], 64<<30), FreeMemory: size(o["mem"], 64<<30),
		Features: list(o["features"]),
	}
	for _, gpus := range list(o["gpus"]) {
		model, text, _ := strings.Cut(gpus, "*")
		for range number(text, 1) {
			index := len(n.Devices)
			n.Devices = append(n.Devices, place.Device{
				ID: fmt.Sprintf("%s-%d", n.Name, index), Index: uint32(index), Model: model,
				Healthy: o["broken"] != strconv.Itoa(index), Parent: place.WholeDevice, Shares: 1, FreeShares: 1,
			})
		}
	}
	linkUp(&n, o["links"])
	at, known := d.find(n.Name)
	if known {
		d.snapshot.Nodes[at] = n
		d.forget(place.NodeIndex(at))
		return nil
	}
	d.snapshot.Nodes = append(d.snapshot.Nodes, n)
	return nil
}

func (d *dialogue) find(name string) (int, bool) {
	i := slices.IndexFunc(d.snapshot.Nodes, func(n place.Node) bool { return n.Name == name })
	return i, i >= 0
}

func (d *dialogue) partition(words []string) error {
	o := options(words[1:])
	_, down := o["down"]
	p := Partition{Name: words[0], Up: !down, MaxTimeS: Unlimited, PriorityTier: uint32(number(o["tier"], 1)), PriorityJobFactor: uint32(number(o["factor"], 1)), QOS: -1}
	_, p.PrivateOnly = o["private-only"]
	p.Exclusive, p.ExclusiveUser = o["exclusive"] == "node", o["exclusive"] == "user"
	if o["qos"] != "" {
		p.QOS, _ = d.findQOS(o["qos"])
	}
	p.Preempt, p.GraceTimeS = preemptMode(o["mode"]), uint32(number(o["grace"], 0))
	if o["time"] != "" {
		p.MaxTimeS = uint32(number(o["time"], 0)) * 60
	}
	for i, n := range d.snapshot.Nodes {
		if o["nodes"] == "" || slices.Contains(list(o["nodes"]), n.Name) {
			p.Nodes = append(p.Nodes, place.NodeIndex(i))
		}
	}
	i := slices.IndexFunc(d.snapshot.Partitions, func(other Partition) bool { return other.Name == p.Name })
	if i >= 0 {
		d.snapshot.Partitions[i] = p
	} else {
		d.snapshot.Partitions = append(d.snapshot.Partitions, p)
	}
	return nil
}

func (d *dialogue) running(words []string) error {
	o := options(words[1:])
	var nodes []place.NodeIndex
	for _, name := range list(o["on"]) {
		at, known := d.find(name)
		if !known {
			return fmt.Errorf("no node %q", name)
		}
		nodes = append(nodes, place.NodeIndex(at))
	}
	_, alone := o["alone"]
	_, userOnly := o["userexclusive"]
	r := place.Request{MinNodes: uint32(len(nodes)), ExclusiveUser: userOnly, User: uint32(number(o["uid"], 0)), CPUsPerTask: uint32(number(o["cpus"], 1)), MemoryPerNode: size(o["mem"], 1<<30), GPUsPerNode: uint32(number(o["gpus"], 0)), Exclusive: alone}
	placement, short, fits := place.Fit(d.snapshot.Nodes, nodes, r)
	if !fits {
		return fmt.Errorf("does not fit: %v", short)
	}
	d.book(Job{ID: JobID(number(words[0], 0)), Association: -1, QOS: -1}, Unlimited, -1, placement, alone)
	d.runningAs(&d.snapshot.Running[len(d.snapshot.Running)-1], o)
	return nil
}

func (d *dialogue) book(job Job, timeLimitS uint32, partition int, placement place.Placement, alone bool) {
	place.Take(d.snapshot.Nodes, placement, alone)
	d.snapshot.Running = append(d.snapshot.Running, Running{
		ID: job.ID, StartMS: d.snapshot.NowMS, TimeLimitS: timeLimitS, Partition: partition, Placement: placement, Exclusive: alone,
		Association: job.Association, QOS: job.QOS, UID: job.UID, Licenses: job.Licenses, Suspends: true,
	})
}

// parse reads a job's line, in Slurm's options.
func (d *dialogue) parse(words []string) (Job, Shape, error) {
	job := Job{ID: JobID(number(words[0], 0)), Tasks: 1, Association: -1, QOS: -1}
	if !d.snapshot.Priority.Weighs() {
		job.FixedPriority = 1000
	}
	words = words[1:]
	if len(words) > 0 && words[0][0] != '-' {
		job.FixedPriority, words = uint32(number(words[0], 0)), words[1:]
	}
	shape := Shape{TimeLimitS: 60}
	r := &shape.Request
	set := flag.NewFlagSet("job", flag.ContinueOnError)
	partitions := set.String("p", d.snapshot.Partitions[0].Name, "")
	nodes := set.String("N", "0", "")
	gres, memory, perCPU := set.String("gres", "", ""), set.String("mem", "", ""), set.String("mem-per-cpu", "", "")
	held := set.String("held", "", "")
	begin, deadline := set.Int64("begin", 0, ""), set.Int64("deadline", 0, "")
	depends, never := set.Bool("depends", false, ""), set.Bool("never", false, "")
	required, excluded, features := set.String("w", "", ""), set.String("x", "", ""), set.String("C", "", "")
	gpus := set.String("gpus", "", "")
	pulls := set.Bool("pulls", false, "its container image comes to nodes")
	goesOn := set.String("image", "", "the nodes that can resume it, or none")
	timeMin := set.Uint("time-min", 0, "")
	time, tasks, cpus := set.Uint("t", 1, ""), set.Uint("n", 0, ""), set.Uint("c", 0, "")
	perNode, array := set.Uint("ntasks-per-node", 0, ""), set.Uint("array", 1, "")
	placed := placementFlags(set, &job, &shape)
	owner := set.String("owner", "", "")
	set.BoolVar(&r.Exclusive, "exclusive", false, "")
	set.BoolVar(&job.Throttled, "throttled", false, "")
	set.BoolVar(&shape.Root, "root", false, "")
	set.BoolVar(&shape.PrivateNetwork, "private-network", false, "")
	shares := d.shareOptions(set)
	if err := set.Parse(words); err != nil {
		return job, shape, err
	}
	if err := shares.fill(d, &job); err != nil {
		return job, shape, err
	}
	least, most, _ := strings.Cut(*nodes, "-")
	r.MinNodes, r.MaxNodes = uint32(number(least, 0)), uint32(number(most, 0))
	r.Tasks, r.TasksPerNode, r.CPUsPerTask = uint32(*tasks), uint32(*perNode), uint32(*cpus)
	r.MemoryPerNode, r.MemoryPerCPU = size(*memory, 0), size(*perCPU, 0)
	if err := placed(*features); err != nil {
		return job, shape, err
	}
	if *memory == "" && *perCPU == "" && r.MemoryPerGPU == 0 {
		r.MemoryPerCPU = 1 << 30
	}
	if *memory == "all" {
		r.MemoryPerNode, r.MemoryPerCPU = 0, 0
	}
	r.RequiredNodes, r.ExcludedNodes = list(*required), list(*excluded)
	model, perNodeGPUs := gpuWords(strings.TrimPrefix(*gres, "gpu:"))
	jobModel, perJobGPUs := gpuWords(*gpus)
	r.Model, r.GPUsPerNode, r.GPUsPerJob = model+jobModel, perNodeGPUs, perJobGPUs
	job.Held = map[string]Hold{"user": HeldByUser, "admin": HeldByAdmin, "launch": LaunchFailed, "requeues": HeldMaxRequeue}[*held]
	job.Tasks = uint32(*array)
	if *begin != 0 {
		job.BeginMS = d.snapshot.NowMS + *begin*1000
	}
	if *deadline != 0 {
		job.DeadlineMS = d.snapshot.NowMS + *deadline*1000
	}
	job.Owner, job.Pulls = d.ownerNamed(*owner), *pulls
	if *goesOn != "" {
		job.Image, job.NowhereToResume = 1, *goesOn == "none"
		r.AmongNodes, r.MinNodes, r.MaxNodes = list(*goesOn), 1, 1
	}
	switch {
	case *depends:
		job.Dependency = DependencyUnfulfilled
	case *never:
		job.Dependency = DependencyNeverSatisfied
	}
	shape.TimeLimitS, shape.TimeMinS = uint32(*time)*60, uint32(*timeMin)*60
	for name := range strings.SplitSeq(*partitions, ",") {
		i := slices.IndexFunc(d.snapshot.Partitions, func(p Partition) bool { return p.Name == name })
		if i < 0 {
			return job, shape, fmt.Errorf("no partition %q", name)
		}
		shape.Partitions = append(shape.Partitions, i)
	}
	return job, shape, nil
}

func gpuWords(text string) (model string, n uint32) {
	if text == "" {
		return "", 0
	}
	if before, after, found := strings.Cut(text, ":"); found {
		return before, uint32(number(after, 0))
	}
	return "", uint32(number(text, 0))
}

func (d *dialogue) job(words []string) error {
	job, shape, err := d.parse(words)
	if err != nil {
		return err
	}
	job.Shape = slices.IndexFunc(d.snapshot.Shapes, func(s Shape) bool { return fmt.Sprint(s) == fmt.Sprint(shape) })
	if job.Shape < 0 {
		job.Shape = len(d.snapshot.Shapes)
		d.snapshot.Shapes = append(d.snapshot.Shapes, shape)
	}
	d.snapshot.Waiting = append(d.snapshot.Waiting, job)
	return nil
}

func (d *dialogue) schedule() string {
	var out strings.Builder
	var plan Plan
	given := d.snapshot
	given.Nodes, given.Waiting = slices.Clone(given.Nodes), slices.Clone(given.Waiting)
	plan, d.memo = Schedule(given, d.memo)
	for _, start := range plan.Starts {
		fmt.Fprintf(&out, "start %d in %s:%s%s\n", start.Job, d.snapshot.Partitions[start.Partition].Name, d.describe(start.Placement), lowered(start.LimitS))
	}
	out.WriteString(d.planned(plan.Promises))
	out.WriteString(d.continued(plan.Continues))
	out.WriteString(d.preempted(plan.Preemptions))
	for _, r := range plan.Reasons {
		fmt.Fprintf(&out, "wait %d (%s) %s\n", r.Job, Display(r, d.snapshot), Sentence(r, d.snapshot))
	}
	if plan.NextMS != 0 {
		fmt.Fprintf(&out, "next pass in %d seconds\n", (plan.NextMS-d.snapshot.NowMS)/1000)
	}
	for _, start := range plan.Starts {
		for i := range d.snapshot.Waiting {
			if job := &d.snapshot.Waiting[i]; job.ID == start.Job {
				shape := &d.snapshot.Shapes[job.Shape]
				d.book(*job, cmp.Or(start.LimitS, shape.TimeLimitS), start.Partition, start.Placement, shape.Request.Exclusive)
				r := &d.snapshot.Running[len(d.snapshot.Running)-1]
				r.Requeue, r.Parks, r.Owner = true, true, job.Owner
				job.Tasks--
			}
		}
	}
	if out.Len() == 0 {
		return "nothing waits\n"
	}
	return out.String()
}

// describe writes a placement as "n1 1 task cpus 0-3 4G gpus 0,1".
func (d *dialogue) describe(p place.Placement) string {
	var out strings.Builder
	for i, alloc := range p.Allocs {
		if i > 0 {
			out.WriteString(";")
		}
		fmt.Fprintf(&out, " %s %s cpus %s %s", d.snapshot.Nodes[alloc.Node].Name, count(uint64(alloc.Tasks), "task"), alloc.CPUs, bytes(alloc.MemoryBytes))
		if len(alloc.Devices) > 0 {
			var ids []uint32
			for _, grant := range alloc.Devices {
				ids = append(ids, uint32(grant.Device))
			}
			fmt.Fprintf(&out, " gpus %s", place.NewCPUSet(ids...))
		}
	}
	return out.String()
}

func (d *dialogue) feasible(words []string) (string, error) {
	_, shape, err := d.parse(words)
	if err != nil {
		return "", err
	}
	reason, ok := Feasible(d.snapshot, shape)
	if ok {
		return "feasible\n", nil
	}
	return fmt.Sprintf("never (%s) %s\n", Display(reason, d.snapshot), Sentence(reason, d.snapshot)), nil
}
