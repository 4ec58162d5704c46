package state

import (
	"bytes"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/sched"
)

// world is a cluster in which backups are put back: a state, and nodes that
// really run what they are told, as gnoded and the dispatch loop do.
type world struct {
	*rand.Rand
	t     *testing.T
	state *State
	index uint64
	nowMS int64
	nodes []*realNode

	numbers  map[uint32]bool    // of jobs that were ever given out
	placed   map[AllocKey]bool  // runs that were ever given out
	begun    map[AllocRef]bool  // allocations that ever began to run
	unspoken map[*realNode]bool // without whose word nothing may start
	starts   int                // since the last restore
	restores int
	forgot   bool // once everything was lost, restores included
}

type realNode struct {
	name      string
	boot      int
	connected bool
	ordered   map[AllocKey]bool // in this session
	allocs    map[AllocKey]*realAlloc
}

type realAlloc struct {
	ready, over bool
	devices     []string
}

func newWorld(t *testing.T, seed int64) *world {
	w := &world{
		Rand: rand.New(rand.NewSource(seed)), t: t, state: New(), nowMS: 1_000_000,
		numbers: map[uint32]bool{}, placed: map[AllocKey]bool{}, begun: map[AllocRef]bool{}, unspoken: map[*realNode]bool{},
	}
	for i := range 4 {
		w.nodes = append(w.nodes, &realNode{name: fmt.Sprintf("n%d", i), allocs: map[AllocKey]*realAlloc{}})
		w.register(w.nodes[i])
	}
	return w
}

func (w *world) chance(percent int) bool { return w.Intn(100) < percent }

func (w *world) apply(command Command) Result {
	w.t.Helper()
	w.index++
	w.nowMS += int64(w.Intn(500))
	entry, err := Encode(command, RequestID{}, w.nowMS)
	if err != nil {
		w.t.Fatal(err)
	}
	result := mustApply(w.t, w.state, w.index, entry)
	if err := w.state.Check(); err != nil {
		w.t.Fatalf("entry %d (%s %+v): %v", w.index, command.kind(), command, err)
	}
	if result.JobID != 0 {
		w.number(result.JobID)
	}
	for _, start := range result.Starts {
		if start.Dropped == "" {
			w.started(start)
		}
	}
	return result
}

// number and started check what is given out: never the same twice.
func (w *world) number(id uint32) {
	if w.numbers[id] {
		w.t.Fatalf("entry %d: job number %d is given twice", w.index, id)
	}
	w.numbers[id] = true
}

func (w *world) started(start StartResult) {
	if start.Job != start.Asked {
		w.number(start.Job)
	}
	run := AllocKey{start.Job, start.Epoch}
	if w.placed[run] {
		w.t.Fatalf("entry %d: run %v is given out twice", w.index, run)
	}
	if len(w.unspoken) > 0 {
		w.t.Fatalf("entry %d: run %v starts, and %d nodes have not spoken", w.index, run, len(w.unspoken))
	}
	w.placed[run] = true
	w.starts++
}

func (w *world) step() {
	node := w.nodes[w.Intn(len(w.nodes))]
	switch n := w.Intn(100); {
	case n < 15:
		w.submit()
	case n < 35:
		w.schedule()
	case n < 60:
		w.dispatch(node)
	case n < 70:
		w.progress(node)
	case n < 82:
		w.report(node)
	case n < 86:
		node.connected = false
	case n < 92:
		w.register(node)
		for _, other := range w.nodes { // most come back soon
			if w.unspoken[other] && w.chance(60) {
				w.register(other)
			}
		}
	case n < 94:
		w.fence(node)
	case n < 97:
		w.apply(RequeueJobs{Targets: []Target{{Job: 1 + uint32(w.Intn(int(min(w.state.nextJob, 200))))}}, Privileged: true})
	default:
		w.apply(PurgeJobs{BeforeMS: w.nowMS})
	}
}

func (w *world) submit() {
	c := SubmitJob{
		Owner: Owner{UID: 1000, User: "u"}, Script: []byte("#!/bin/sh\n"),
		Spec: Spec{Requeue: w.chance(60), MinNodes: 1 + uint32(w.Intn(2)), MemoryPerNode: 1},
	}
	if w.chance(70) {
		c.Spec.GPUs = []GPURequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: 1}}
	}
	if w.chance(20) {
		c.Spec.ArrayTasks = []ranges.Range{{First: 0, Last: uint32(w.Intn(4)), Step: 1}}
	}
	w.apply(c)
}

func (w *world) schedule() {
	snapshot := w.state.View().SchedSnapshot(w.nowMS)
	plan, _ := sched.Schedule(snapshot, sched.Memo{})
	w.apply(PlanToCommand(&snapshot, &plan))
}

// register is the node's first message of a session.
func (w *world) register(node *realNode) {
	command := RegisterNode{Name: node.name, Inventory: Inventory{CPUs: 8, MemoryBytes: 64, BootID: fmt.Sprint(node.boot)}}
	for i := range uint32(3) {
		command.Inventory.Devices = append(command.Inventory.Devices, Device{
			ID: fmt.Sprintf("gpu%d", i), Index: i, Model: "m", Health: pb.DeviceHealth_DEVICE_HEALTH_OK})
	}
	for key, alloc := range node.allocs {
		command.Running = append(command.Running, RunningAlloc{Job: key.Job, Epoch: key.Epoch, Ready: alloc.ready})
	}
	slices.SortFunc(command.Running, func(a, b RunningAlloc) int { return int(a.Job) - int(b.Job) })
	w.apply(command)
	node.connected, node.ordered = true, map[AllocKey]bool{}
	delete(w.unspoken, node)
}

// dispatch carries out the orders for what differs, as ctld/leader sends them.
func (w *world) dispatch(node *realNode) {
	if !node.connected {
		return
	}
	wanted := map[AllocKey]bool{}
	view := w.state.View()
	for _, alloc := range view.WantedAllocs(node.name) {
		key := AllocKey{alloc.Job, alloc.Epoch}
		wanted[key] = true
		real, has := node.allocs[key]
		switch {
		case alloc.Action == EndAlloc && has:
			real.over = true
		case alloc.Action == EndAlloc:
			node.allocs[key] = &realAlloc{over: true} // it is told that it has none
		case !has && !node.ordered[key]:
			node.ordered[key] = true
			w.begin(node, key, view)
		}
	}
	for key, alloc := range node.allocs {
		if !wanted[key] {
			alloc.over = true
		}
	}
}

// begin starts an allocation on a node, for real.
func (w *world) begin(node *realNode, key AllocKey, view *View) {
	ref := AllocRef{key.Job, key.Epoch, node.name}
	if w.begun[ref] {
		w.t.Fatalf("entry %d: allocation %v begins a second time", w.index, ref)
	}
	w.begun[ref] = true
	_, held := view.LiveAlloc(ref)
	real := &realAlloc{}
	for _, device := range held.Devices {
		real.devices = append(real.devices, device.ID)
	}
	for _, other := range w.nodes {
		for former, alloc := range other.allocs {
			if !alloc.over && former.Job == key.Job && former.Epoch != key.Epoch {
				w.t.Fatalf("entry %d: job %d runs as epoch %d on %s, and as %d on %s", w.index, key.Job, key.Epoch, node.name, former.Epoch, other.name)
			}
			if !alloc.over && other == node && slices.ContainsFunc(alloc.devices, func(id string) bool { return slices.Contains(real.devices, id) }) {
				w.t.Fatalf("entry %d: %v and %v share devices %v of %s", w.index, key, former, real.devices, node.name)
			}
		}
	}
	node.allocs[key] = real
}

// progress lets containers come up and scripts end.
func (w *world) progress(node *realNode) {
	for _, key := range sortedAllocs(node) {
		alloc := node.allocs[key]
		if !alloc.ready && w.chance(60) {
			alloc.ready = true
			if node.connected {
				w.apply(AllocsReady{Allocs: []AllocRef{{key.Job, key.Epoch, node.name}}})
			}
		} else if alloc.ready && w.chance(30) {
			alloc.over = true
		}
	}
}

// report tells of ends; what is acknowledged is forgotten.
func (w *world) report(node *realNode) {
	for _, key := range sortedAllocs(node) {
		if node.connected && node.allocs[key].over {
			w.apply(AllocsEnded{Reports: []AllocReport{{Job: key.Job, Epoch: key.Epoch, Node: node.name, Cause: pb.EndCause_END_CAUSE_EXITED}}})
			delete(node.allocs, key)
		}
	}
}

func sortedAllocs(node *realNode) []AllocKey {
	var keys []AllocKey
	for key := range node.allocs {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b AllocKey) int { return int(a.Job) - int(b.Job) })
	return keys
}

// fence switches a machine off, and vouches for it.
func (w *world) fence(node *realNode) {
	if _, known := w.state.Node(node.name); !known {
		return
	}
	node.connected, node.allocs = false, map[AllocKey]*realAlloc{}
	node.boot++
	w.apply(NodesLost{Names: []string{node.name}})
	if result := w.apply(UpdateNodes{Names: []string{node.name}, Action: FenceNode, Reason: "off", User: "root"}); result.Refused != nil {
		w.t.Fatalf("entry %d: %v", w.index, result.Refused)
	}
	w.apply(UpdateNodes{Names: []string{node.name}, Action: ResumeNode})
	delete(w.unspoken, node)
}

// restore puts a backup back. forget loses the state that is replaced, as when
// all controllers are lost.
func (w *world) restore(backup []byte, forget bool) {
	former := w.state.View()
	restored, err := Restore(bytes.NewReader(backup))
	if err != nil {
		w.t.Fatal(err)
	}
	w.nowMS += 3_600_000
	after := Restored{TimeMS: w.nowMS, Former: former}
	registered := 0
	for node := range restored.Nodes() {
		if node.Inventory != nil {
			registered++
		}
	}
	if forget && registered == len(w.nodes) {
		after.Former = nil // else nobody would know of the node that came later
	}
	if err := restored.Recover(after); err != nil {
		w.t.Fatal(err)
	}
	w.state, w.starts = restored, 0
	w.restores++
	for _, node := range w.nodes {
		node.connected = false
		awaited := slices.Contains(restored.View().Awaited(), node.name)
		if len(node.allocs) > 0 && !awaited {
			w.t.Fatalf("%s runs %d allocations and is not awaited: %v are", node.name, len(node.allocs), restored.View().Awaited())
		}
		delete(w.unspoken, node)
		if awaited {
			w.unspoken[node] = true
		}
	}
}

// TestRestoredWalk: whatever is done between a backup and its return, and after
// it, no number and no run is given out twice, no job runs twice at once, no
// device is held twice, and nothing starts before every node has spoken.
func TestRestoredWalk(t *testing.T) {
	seeds, steps := prototest.Soak(8, 200), 600
	for seed := range int64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			backup, idle, starts := persisted(t, w.state), 0, 0
			for i := range steps {
				w.step()
				switch {
				case w.chance(2):
					backup = persisted(t, w.state)
				case w.chance(1):
					starts += w.starts
					if w.starts == 0 {
						idle++
					}
					forget := !w.forgot && w.chance(30)
					w.forgot = w.forgot || forget
					w.restore(backup, forget)
				case i == steps/2: // a node that the first backups do not know
					w.nodes = append(w.nodes, &realNode{name: "n9", allocs: map[AllocKey]*realAlloc{}})
					w.register(w.nodes[4])
				}
			}
			t.Logf("%d restores, %d starts; after %d of them nothing started", w.restores, starts+w.starts, idle)
			if starts+w.starts < 5 {
				t.Errorf("only %d starts in %d steps: the walk goes nowhere", starts+w.starts, steps)
			}
		})
	}
}
