package state

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/sched"
)

// suspendWorld is a controller and nodes that really run, freeze and end what
// they are told, with messages between them that come late, twice, in any order
// or, when a session breaks, not at all. Plans are carried out late, too.
type suspendWorld struct {
	*rand.Rand
	t       *testing.T
	state   *State
	nowMS   int64
	nodes   []*suspendNode
	orders  []func()         // on their way to nodes
	reports []*suspendReport // on their way to the controller
	plans   []Command
	jobs    int

	suspended, continued, lent int

	// reclaims: the nodes belong to an account, and its jobs are submitted too.
	// parked and killed count the guests, devices the starts on a parked one's
	// device, and atOnce those that a release lets continue.
	reclaims                                          bool
	reclaimed, parked, killed, devices, atOnce, asked int
	reclaimedGPUs, beside                             int
}

type suspendReport struct {
	node    *suspendNode
	ended   bool // repeated until it is taken
	command Command
}

type suspendNode struct {
	name    string
	session int // orders and reports of an earlier one are lost
	allocs  map[AllocRef]*suspendAlloc
	told    map[AllocRef]bool // that have ended, and whose end is not taken yet
	over    map[AllocRef]bool
}

type suspendAlloc struct {
	number            uint32
	suspended, frozen bool
	park, parked      bool
	cpus              []uint32
	devices           []string
}

func newSuspendWorld(t *testing.T, seed int64) *suspendWorld {
	w := &suspendWorld{Rand: rand.New(rand.NewSource(seed)), t: t, state: New(), nowMS: 1_000_000}
	site := *policy.Default()
	site.Preempt = policy.Preempt{Type: sched.PreemptByPartition, Mode: sched.PreemptSuspend}
	if seed%3 == 0 {
		site.Preempt.Mode = sched.PreemptRequeue
	}
	site.Partitions = []policy.Partition{
		{Name: "high", Nodes: "ALL", Up: true, PriorityTier: 3},
		{Name: "low", Nodes: "ALL", Up: true, PriorityTier: 1, PreemptMode: sched.PreemptSuspend, Default: true},
		{Name: "mid", Nodes: "ALL", Up: true, PriorityTier: 2},
	}
	w.apply(ApplyPolicy{Policy: site})
	for i := range 2 {
		node := &suspendNode{name: fmt.Sprintf("n%d", i), allocs: map[AllocRef]*suspendAlloc{}, told: map[AllocRef]bool{}, over: map[AllocRef]bool{}}
		w.nodes = append(w.nodes, node)
		w.register(node)
	}
	return w
}

func (w *suspendWorld) apply(command Command) Result {
	w.t.Helper()
	w.nowMS += int64(w.Intn(500))
	result := applyCommand(w.t, w.state, command, RequestID{}, w.nowMS)
	if result.Refused != nil {
		w.t.Fatalf("%s: %v", command.kind(), result.Refused)
	}
	for _, p := range result.Preemptions {
		if p.Parked && p.Dropped == "" {
			w.asked++
		}
		if p.Suspended && p.Dropped == "" {
			w.suspended++
		}
	}
	for _, c := range result.Continued {
		if c.Dropped == "" {
			w.continued++
		}
	}
	for _, start := range result.Starts {
		if job, known := w.state.Job(start.Job); known {
			for i := range job.Run.Allocs {
				w.lent += w.state.lent(&job.Run.Allocs[i])
				w.devices += w.state.lentDevices(&job.Run.Allocs[i])
			}
		}
	}
	return result
}

func (w *suspendWorld) submit() {
	w.jobs++
	job := &pb.JobSpec{
		Name: "j", Script: []byte("#!/bin/sh\n"), Partitions: []string{[]string{"low", "mid", "high"}[w.Intn(3)]}, Requeue: w.Intn(2) == 0,
		MinNodes: 1 + uint32(w.Intn(4)/3), CpusPerTask: 1 + uint32(w.Intn(4)), MemoryPerNodeBytes: 1,
	}
	if w.Intn(4) == 0 || w.reclaims && w.Intn(2) == 0 {
		job.Gpus = []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: 1}}
	}
	user := "u"
	if w.reclaims && w.Intn(8) == 0 { // its jobs go before all others
		user = "owner"
	}
	command, err := SubmitFromSpec(job, &pb.Identity{Uid: 1000, User: user})
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply(command)
}

// plan makes a plan, which is carried out now or later.
func (w *suspendWorld) plan() {
	view := w.state.View()
	snapshot := view.SchedSnapshot(w.nowMS)
	plan, _ := sched.Schedule(snapshot, sched.Memo{})
	w.checkKept(&snapshot, &plan)
	if len(plan.Starts) > 0 {
		w.plans = append(w.plans, PlanToCommand(&snapshot, &plan))
	}
	if command := view.PlanToContinue(&plan); len(command.Orders) > 0 {
		w.plans = append(w.plans, command)
	}
	if command := view.PlanToPreemptions(&plan); len(command.Preemptions) > 0 {
		w.plans = append(w.plans, command)
	}
}

// dispatch sends every node what is wanted there.
func (w *suspendWorld) dispatch() {
	for _, node := range w.nodes {
		for _, wanted := range w.state.WantedAllocs(node.name) {
			ref, session := AllocRef{wanted.Job, wanted.Epoch, node.name}, node.session
			job, _ := w.state.Job(wanted.Job)
			alloc := job.Alloc(node.name)
			w.orders = append(w.orders, func() {
				if node.session != session {
					return
				}
				switch p := node.allocs[ref]; {
				case wanted.Action == EndAlloc:
					w.end(node, ref, pb.EndCause_END_CAUSE_CANCELLED)
				case p == nil && !node.over[ref]:
					w.start(node, ref, alloc)
				case p != nil && wanted.SuspendNumber > p.number:
					p.number, p.suspended, p.park = wanted.SuspendNumber, wanted.Suspended, wanted.Park
					w.say(node, ref, p)
				}
			})
		}
	}
}

func (w *suspendWorld) start(node *suspendNode, ref AllocRef, alloc *Alloc) {
	p := &suspendAlloc{cpus: alloc.CPUs}
	for _, device := range alloc.Devices {
		p.devices = append(p.devices, device.ID)
	}
	node.allocs[ref] = p
	w.report(node, false, AllocsReady{Allocs: []AllocRef{ref}})
}

func (w *suspendWorld) say(node *suspendNode, ref AllocRef, p *suspendAlloc) {
	w.report(node, false, AllocsSuspended{Reports: []SuspendReport{{Job: ref.Job, Epoch: ref.Epoch, Node: ref.Node, Number: p.number, Frozen: p.suspended && p.frozen, Parked: p.suspended && p.parked}}})
}

func (w *suspendWorld) report(node *suspendNode, ended bool, command Command) {
	w.reports = append(w.reports, &suspendReport{node, ended, command})
}

func (w *suspendWorld) end(node *suspendNode, ref AllocRef, cause pb.EndCause) {
	if node.allocs[ref] == nil && !node.told[ref] && node.over[ref] {
		return
	}
	delete(node.allocs, ref)
	node.told[ref], node.over[ref] = true, true
	w.report(node, true, AllocsEnded{Reports: []AllocReport{{Job: ref.Job, Epoch: ref.Epoch, Node: ref.Node, Cause: cause}}})
}

// register breaks a node's session: what was under way is lost, but the ends.
func (w *suspendWorld) register(node *suspendNode) {
	node.session++
	w.reports = slices.DeleteFunc(w.reports, func(r *suspendReport) bool { return r.node == node && !r.ended })
	command := RegisterNode{Name: node.name, Inventory: Inventory{
		CPUs: 4, MemoryBytes: 64, BootID: "b", Devices: []Device{{ID: "gpu", Model: "m", Health: pb.DeviceHealth_DEVICE_HEALTH_OK}},
	}}
	for _, ref := range sortedRefs(node.allocs) {
		p := node.allocs[ref]
		command.Running = append(command.Running, RunningAlloc{
			Job: ref.Job, Epoch: ref.Epoch, Ready: true, SuspendNumber: p.number, Frozen: p.suspended && p.frozen, Parked: p.suspended && p.parked,
		})
	}
	for _, ref := range sortedRefs(node.told) {
		command.Running = append(command.Running, RunningAlloc{Job: ref.Job, Epoch: ref.Epoch, Ready: true})
	}
	w.apply(command)
}

func sortedRefs[V any](of map[AllocRef]V) []AllocRef {
	return slices.SortedFunc(maps.Keys(of), func(a, b AllocRef) int {
		return int(int64(a.Job)-int64(b.Job))*1000 + int(int64(a.Epoch)-int64(b.Epoch))
	})
}

// work is what happens on nodes by itself: they freeze and thaw what they were
// told to, and scripts end that run.
func (w *suspendWorld) work(exits int) {
	node := w.nodes[w.Intn(len(w.nodes))]
	for _, ref := range sortedRefs(node.allocs) {
		p := node.allocs[ref]
		job, _ := w.state.Job(ref.Job)
		switch {
		case p.park && !p.parked && w.Intn(12) == 0: // its time is over
			w.killed++
			w.end(node, ref, pb.EndCause_END_CAUSE_RECLAIMED)
		case p.suspended != p.frozen:
			p.frozen = p.suspended
			p.parked = p.parked && p.frozen
			w.say(node, ref, p)
		case p.park && !p.parked:
			w.parked++
			p.parked = true
			w.say(node, ref, p)
		case !p.frozen && w.Intn(exits) == 0 && job.Run != nil && job.Run.BatchHost() == node.name:
			w.end(node, ref, pb.EndCause_END_CAUSE_EXITED)
		}
	}
}

// deliver takes one of what is under way, and sometimes leaves it there.
func (w *suspendWorld) deliver() {
	if n := len(w.orders); n > 0 && w.Intn(2) == 0 {
		at := w.Intn(n)
		order := w.orders[at]
		if w.Intn(5) > 0 {
			w.orders = slices.Delete(w.orders, at, at+1)
		}
		order()
	}
	if n := len(w.reports); n > 0 {
		at := w.Intn(n)
		r := w.reports[at]
		if w.Intn(5) > 0 {
			w.reports = slices.Delete(w.reports, at, at+1)
			if ended, is := r.command.(AllocsEnded); is {
				of := ended.Reports[0]
				delete(r.node.told, AllocRef{of.Job, of.Epoch, of.Node})
			}
		}
		w.apply(r.command)
	}
	if n := len(w.plans); n > 0 {
		at := w.Intn(n)
		plan := w.plans[at]
		w.plans = slices.Delete(w.plans, at, at+1)
		w.apply(plan)
	}
}

func (w *suspendWorld) administer() {
	active := inPhases(w.state.View(), Running)
	if len(active) == 0 {
		return
	}
	targets := []Target{{Job: active[w.Intn(len(active))].ID}}
	switch w.Intn(30) {
	default:
		if result := w.apply(SuspendJobs{Targets: targets, Privileged: true}); result.Jobs[0].Code == OK {
			w.suspended++
		}
	case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11:
		w.apply(ResumeJobs{Targets: targets, Privileged: true})
	case 12:
		w.apply(RequeueJobs{Targets: targets, Privileged: true, Incomplete: true})
	case 13:
		w.apply(CancelJobs{Targets: targets, Privileged: true})
	}
}

// check compares what runs with what may.
func (w *suspendWorld) check() {
	w.t.Helper()
	if err := w.state.Check(); err != nil {
		w.t.Fatal(err)
	}
	for _, node := range w.nodes {
		cpus, devices := map[uint32]AllocRef{}, map[string]AllocRef{}
		for _, ref := range sortedRefs(node.allocs) {
			p := node.allocs[ref]
			for _, device := range p.devices {
				if p.parked {
					continue
				}
				if other, twice := devices[device]; twice {
					w.t.Fatalf("%v and %v have device %s of node %s", ref, other, device, node.name)
				}
				devices[device] = ref
			}
			for _, cpu := range p.cpus {
				if other, twice := cpus[cpu]; twice && !p.frozen {
					w.t.Fatalf("%v and %v run on CPU %d of node %s", ref, other, cpu, node.name)
				}
				if !p.frozen {
					cpus[cpu] = ref
				}
			}
		}
	}
}

// TestSuspendedWorld: whatever comes late, twice or not at all, no CPU has two
// jobs that run and no device two that hold it, and when all may continue, all come
// to their end.
func TestSuspendedWorld(t *testing.T) {
	suspended, continued, lent, seeds := 0, 0, 0, prototest.Soak[int64](8, 200)
	for seed := range seeds {
		w := newSuspendWorld(t, seed)
		for range 1500 {
			switch n := w.Intn(100); {
			case n < 5 && w.jobs < 40:
				w.submit()
			case n < 20:
				w.plan()
			case n < 30:
				w.dispatch()
			case n < 42:
				w.administer()
			case n < 52:
				w.work(40)
			case n < 54:
				w.register(w.nodes[w.Intn(len(w.nodes))])
			default:
				w.deliver()
			}
			w.orders = w.orders[max(0, len(w.orders)-60):]
			w.check()
		}
		for id := range uint32(w.jobs) {
			w.apply(ResumeJobs{Targets: []Target{{Job: id + 1}}, Privileged: true})
		}
		for pass := 0; w.state.live.Len() > 0; pass++ {
			if pass > 4000 {
				for job := range w.state.LiveJobs() {
					t.Errorf("seed %d: job %d: %+v", seed, job.ID, w.state.JobMessage(job, Overlay{}, JobDetail{}))
				}
				t.Fatal("some jobs never come to their end")
			}
			for job := range w.state.LiveJobs() {
				if job.Held != sched.NotHeld {
					w.apply(ReleaseJobs{Targets: []Target{{Job: job.ID}}, Privileged: true})
					break
				}
			}
			w.plan()
			w.dispatch()
			for range 6 {
				w.deliver()
			}
			w.work(3)
			w.orders = w.orders[max(0, len(w.orders)-60):]
			w.check()
		}
		suspended, continued, lent = suspended+w.suspended, continued+w.continued, lent+w.lent
	}
	t.Logf("%d suspended, %d continued, %d starts on CPUs of a stopped one", suspended, continued, lent)
	if n := int(seeds); suspended < 12*n || continued < 7*n || lent < 2*n {
		t.Error("hardly anything happens")
	}
}
