package state

import (
	"bytes"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// lineageWorld is a cluster of three nodes on which some jobs run, are saved, lose
// their nodes and continue, for long. What runs is the world's own knowledge: whether a
// run continued is decided here, and the state hears of it or does not.
type lineageWorld struct {
	*rand.Rand
	t     *testing.T
	state *State
	index uint64
	nowMS int64
	boots map[string]int

	ran    map[AllocKey]bool // whether the run really continued; absent = not decided
	silent map[string]int64  // since when a node is away
	lines  map[uint32]*lineage
	tally  map[string]int
}

// lineageWaitMS is for how long the world's jobs wait for a node.
const lineageWaitMS = 60_000

// TestLineageWorld: no run resumes from an image that is no ancestor of the last that
// really ran, whatever was heard of that; the newest image is used unless its node was
// away for long or it failed often; none is forgotten that could be used; and a job
// with an image never starts over unless somebody says so.
func TestLineageWorld(t *testing.T) {
	tally := map[string]int{}
	for seed := range int64(8) {
		w := newLineageWorld(t, seed, tally)
		for range 1200 {
			w.step()
		}
	}
	t.Log(tally)
	for _, what := range []string{"continued", "undone", "newest again", "unheard", "held", "gangs continued", "gone", "restored", "new leader"} {
		if tally[what] == 0 {
			t.Errorf("%q never happened: %v", what, tally)
		}
	}
}

func newLineageWorld(t *testing.T, seed int64, tally map[string]int) *lineageWorld {
	w := &lineageWorld{
		Rand: rand.New(rand.NewSource(seed)), t: t, state: New(), nowMS: 1_000_000, boots: map[string]int{},
		ran: map[AllocKey]bool{}, silent: map[string]int64{}, lines: map[uint32]*lineage{}, tally: tally,
	}
	policy := *w.state.policy
	policy.ImageWait, policy.LeaseS = lineageWaitMS/1000, 1
	w.apply(ApplyPolicy{Policy: policy})
	for _, name := range []string{"n1", "n2", "n3"} {
		w.register(name)
	}
	for i := range 5 {
		spec := &pb.JobSpec{Script: []byte("#!/bin/sh\n"), Requeue: i != 3, TimeLimitS: 1 << 30}
		if i == 3 { // may not be requeued, and asked to be saved
			spec.Checkpoint = &pb.CheckpointPolicy{IntervalS: 600}
		}
		if i == 4 {
			spec.MinNodes = 2
		}
		submit, err := SubmitFromSpec(spec, &pb.Identity{Uid: 1000, User: "u"})
		if err != nil {
			t.Fatal(err)
		}
		w.apply(submit)
	}
	return w
}

func (w *lineageWorld) chance(percent int) bool { return w.Intn(100) < percent }

func (w *lineageWorld) apply(command Command) Result {
	w.t.Helper()
	w.index++
	entry, err := Encode(command, RequestID{}, w.nowMS)
	if err != nil {
		w.t.Fatal(err)
	}
	result := mustApply(w.t, w.state, w.index, entry)
	if err := w.state.Check(); err != nil {
		w.t.Fatalf("%s %+v: %v", command.kind(), command, err)
	}
	w.check()
	return result
}

// check: nothing dead is kept.
func (w *lineageWorld) check() {
	for job := range w.state.LiveJobs() {
		for _, image := range job.Images() {
			if of := w.lines[job.ID]; of == nil || image.Parent != of.parent[image.Number] {
				w.t.Fatalf("job %d: image %d comes from %d, and the world has %+v", job.ID, image.Number, image.Parent, of)
			} else if of.dead[image.Number] && job.Phase == Waiting {
				w.t.Fatalf("job %d waits, and keeps image %d, which is dead: %+v", job.ID, image.Number, of)
			}
		}
	}
}

func (w *lineageWorld) register(name string) {
	w.boots[name]++
	delete(w.silent, name)
	w.apply(RegisterNode{Name: name, Inventory: Inventory{CPUs: 8, MemoryBytes: 1 << 34, BootID: fmt.Sprint(w.boots[name])}})
}

func (w *lineageWorld) step() {
	w.nowMS += int64(w.Intn(15_000))
	job, _ := w.state.Job(1 + uint32(w.Intn(5)))
	node := []string{"n1", "n2", "n3"}[w.Intn(3)]
	_, away := w.silent[node]
	switch n := w.Intn(100); {
	case n < 4 && !away:
		w.silent[node] = w.nowMS
		w.apply(NodesLost{Names: []string{node}})
		w.apply(UpdateNodes{Names: []string{node}, Action: FenceNode, Reason: "off", User: "root"})
		w.apply(UpdateNodes{Names: []string{node}, Action: ResumeNode})
	case n < 14 && away:
		w.register(node)
	case n < 16 && away:
		delete(w.silent, node)
		w.apply(NodesBack{Names: []string{node}})
	case n == 16:
		w.tally["new leader"]++
		w.apply(Barrier{Term: w.state.term + 1})
	case n == 17:
		w.restore()
	case job.Phase == Waiting:
		w.waiting(job)
	case job.Phase == Running:
		w.running(job)
	}
}

// restore continues with what was persisted.
func (w *lineageWorld) restore() {
	var out bytes.Buffer
	if err := w.state.View().Persist(&out); err != nil {
		w.t.Fatal(err)
	}
	s, err := Restore(&out)
	if err != nil {
		w.t.Fatal(err)
	}
	w.state = s
	w.tally["restored"]++
}

// waiting starts a job, has an image of it be gone, or releases it.
func (w *lineageWorld) waiting(job *Job) {
	if job.Held != 0 {
		w.tally["held"]++
		w.apply(ReleaseJobs{Targets: []Target{{Job: job.ID}}, Privileged: true})
		return
	}
	images := job.Images()
	if len(images) > 0 && w.chance(2) {
		w.tally["gone"]++
		gone := images[w.Intn(len(images))].Number
		w.apply(DropImages{Drops: []ImageDrop{{Job: job.ID, Epoch: job.Epoch, Numbers: []uint32{gone}, Reason: "its node says so"}}})
		now, _ := w.state.Job(job.ID)
		switch {
		case len(images) > 1:
			if now.Phase != Waiting || len(now.Images()) != len(images)-1 {
				w.t.Fatalf("job %d had another image, and is in phase %d", job.ID, now.Phase)
			}
		case job.Spec.Requeue && (now.Phase != Waiting || now.Saved.Undone == ""):
			w.t.Fatalf("job %d has no image left, and does not start over, or does not say what that cost: %+v", job.ID, now.Saved)
		case now.Phase == Finished: // its script must not be started again, unless somebody says so
			w.apply(RequeueJobs{Targets: []Target{{Job: job.ID}}, Privileged: true})
		}
		return
	}
	order := StartOrder{Job: job.ID, Partition: "main"}
	if next := w.state.NextImage(job, w.nowMS); next != nil {
		order.Image = next.Number
		w.checkNext(job, next)
		for _, alloc := range next.Allocs { // which a node has to send
			if _, away := w.silent[alloc.Node]; away {
				return
			}
		}
		if len(next.Allocs) > 1 {
			w.place(order, next.Nodes())
			return
		}
	}
	if w.chance(5) { // as no leader should
		order.Image = uint32(w.Intn(4))
	}
	names := []string{"n1", "n2", "n3"}
	w.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
	names = names[:max(job.Spec.MinNodes, 1)]
	slices.Sort(names)
	w.place(order, names)
}

// checkNext: the newest is next, unless it failed often or its node is away for long.
func (w *lineageWorld) checkNext(job *Job, next *Image) {
	for i := range job.Images() {
		image := &job.Images()[i]
		if image.Number == next.Number {
			return
		}
		longAway := false
		for _, alloc := range image.Allocs {
			since, away := w.silent[alloc.Node]
			longAway = longAway || away && w.nowMS-since >= lineageWaitMS
		}
		if !longAway && job.Saved.failures(image.Number) < 4 {
			w.t.Fatalf("job %d resumes from image %d, and image %d could be waited for", job.ID, next.Number, image.Number)
		}
	}
	w.t.Fatalf("job %d resumes from image %d, which is not kept", job.ID, next.Number)
}

func (w *lineageWorld) place(order StartOrder, names []string) {
	for _, name := range names {
		node, _ := w.state.nodes.Get(name)
		alloc := AllocOrder{Node: name, Tasks: 1}
		for cpu := range uint32(8) {
			if !node.use.cpus.Contains(cpu) && len(alloc.CPUs) == 0 {
				alloc.CPUs = []uint32{cpu}
			}
		}
		order.Allocs = append(order.Allocs, alloc)
	}
	before, _ := w.state.Job(order.Job)
	wanted := w.state.NextImage(before, w.nowMS)
	result := w.apply(PlaceJobs{Starts: []StartOrder{order}})
	job, _ := w.state.Job(order.Job)
	if result.Starts[0].Job == 0 || job.Phase != Running {
		return
	}
	from := job.Run.Restore
	if (from == nil) != (wanted == nil) || from != nil && from.Number != wanted.Number {
		w.t.Fatalf("job %d resumes from %v, and should from %v", job.ID, from, wanted)
	}
	if from == nil {
		w.lines[job.ID] = &lineage{map[uint32]uint32{}, map[uint32]uint32{}, map[uint32]bool{}}
		return
	}
	if w.lines[job.ID].dead[from.Number] {
		w.t.Fatalf("job %d resumes from image %d, which belongs to work that was undone: %+v", job.ID, from.Number, w.lines[job.ID])
	}
	w.tally["continued"]++
	if job.IsGang() {
		w.tally["gangs continued"]++
	}
	if number := before.Images()[0].Number; from.Number == number && before.Saved.WaitsMS+lineageWaitMS < w.nowMS && len(before.Images()) > 1 {
		w.tally["newest again"]++
	}
}

// running has what may happen to a run happen.
func (w *lineageWorld) running(job *Job) {
	key := AllocKey{job.ID, job.Epoch}
	ran, decided := w.ran[key]
	if !decided {
		w.begin(job, key)
		return
	}
	switch {
	case !ran:
		w.end(job, pb.EndCause_END_CAUSE_RESTORE_FAILED)
	case job.Configuring() && w.chance(80):
		w.ready(job)
	case job.Configuring() || w.chance(15):
		if job.Configuring() && !job.IsGang() {
			w.tally["unheard"]++
		}
		w.end(job, pb.EndCause_END_CAUSE_SUPERVISOR_DIED)
	default:
		w.save(job)
	}
}

// begin decides whether a run continues. The allocations of several begin when all are ready.
func (w *lineageWorld) begin(job *Job, key AllocKey) {
	if job.Run.Restore != nil && w.chance(35) {
		w.ran[key] = false
		return
	}
	if job.IsGang() {
		if w.chance(20) {
			w.ran[key] = false
			return
		}
		w.ready(job)
	}
	w.ran[key] = true
	if job.Run.Restore != nil && w.lines[job.ID].kill(job) {
		w.tally["undone"]++
	}
}

func (w *lineageWorld) ready(job *Job) {
	var c AllocsReady
	for i := range job.Run.Allocs {
		c.Allocs = append(c.Allocs, AllocRef{job.ID, job.Epoch, job.Run.Allocs[i].Node})
	}
	w.apply(c)
}

func (w *lineageWorld) end(job *Job, cause pb.EndCause) {
	if job.Run.Restore == nil && cause == pb.EndCause_END_CAUSE_RESTORE_FAILED {
		cause = pb.EndCause_END_CAUSE_SUPERVISOR_DIED
	}
	had := len(job.Images())
	var c AllocsEnded
	for i := range job.Run.Allocs {
		c.Reports = append(c.Reports, AllocReport{Job: job.ID, Epoch: job.Epoch, Node: job.Run.Allocs[i].Node, Cause: cause})
	}
	w.apply(c)
	if now, _ := w.state.Job(job.ID); had > 0 && len(now.Images()) == 0 {
		w.t.Fatalf("job %d had an image, and starts over: %s", job.ID, now.Detail)
	}
}

// save asks for an image and tells of it, or tells of it later, or never.
func (w *lineageWorld) save(job *Job) {
	if job.Run.Saving == nil {
		w.apply(SaveJobs{Targets: []Target{{Job: job.ID}}, Privileged: true, Purpose: SaveAsked})
		return
	}
	number := job.Run.Saving.Number
	if w.chance(10) { // of a run before
		number -= uint32(w.Intn(int(number)))
	}
	if number > job.Run.Numbered {
		w.lines[job.ID].saved(job, number)
	}
	var c AllocsSaved
	for i := range job.Run.Allocs {
		node := job.Run.Allocs[i].Node
		c.Reports = append(c.Reports, SaveReport{
			Job: job.ID, Epoch: job.Epoch, Node: node, Number: number, Frozen: job.IsGang(), Digest: walkedDigest(job.ID, job.Epoch, number, node),
		})
	}
	w.apply(c)
}

// saved notes an image of a run.
func (of *lineage) saved(job *Job, number uint32) {
	if _, known := of.parent[number]; known {
		return
	}
	if job.Run.Restore != nil {
		of.parent[number] = job.Run.Restore.Number
	} else {
		of.parent[number] = 0
	}
	of.epoch[number] = job.Epoch
	for other, epoch := range of.epoch {
		if epoch != job.Epoch {
			continue
		}
		if other < number {
			of.parent[number] = max(of.parent[number], other)
		} else if other > number {
			of.parent[other] = max(of.parent[other], number)
		}
	}
}
