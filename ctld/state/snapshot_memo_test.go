package state

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// rememberer makes snapshots and plans along a walk twice: with what the last ones left, and
// from nothing.
type rememberer struct {
	random   *rand.Rand // its own, so that the walk stays as it is
	snapshot SnapshotMemo
	plan     sched.Memo
	promises sched.Promises
	nowMS    int64
	// last and same are what was made last, with memory and without.
	last, same sched.Snapshot
	// How many waiting jobs, running jobs and nodes were taken over.
	jobs, running, nodes int
}

func newRememberer(seed int64) *rememberer {
	return &rememberer{random: rand.New(rand.NewSource(seed))}
}

// check compares the snapshots of a view and the plans for them, and looks whether the
// snapshot before is as it was: the two share what did not change.
func (r *rememberer) check(t *testing.T, v *View) {
	t.Helper()
	told := NodeReports{
		Savable: func(job *Job) bool { return job.ID%2 == 0 },
		Restorable: func(job *Job, image *Image) []string {
			return []string{"n0", "n1", "n2", "n3"}[:min(len(image.Allocs), 4)]
		},
	}
	switch r.random.Intn(40) {
	case 0:
		r.nowMS -= int64(r.random.Intn(5000)) // another leader's clock
	case 1, 2:
		r.nowMS += int64(r.random.Intn(3_600_000))
	}
	r.nowMS = max(r.nowMS+int64(r.random.Intn(3000)), v.TimeMS())
	want := v.SchedSnapshotWith(r.nowMS, told)
	nodes := slices.Clone(r.snapshot.nodes.records) // the list itself is changed in place
	got, memo := v.SchedSnapshotAfter(r.snapshot, r.nowMS, told)
	r.count(nodes, &memo)
	equalSnapshots(t, "with memory", &got, &want)
	equalSnapshots(t, "the one before, afterwards", &r.last, &r.same)
	sameNode := func(a, b place.Node) bool { return a.Name == b.Name }
	if !slices.EqualFunc(got.Nodes, r.last.Nodes, sameNode) { // the leader moves them to the nodes' new places
		r.promises = sched.Promises{}
	}
	got.Promises, want.Promises = r.promises, r.promises
	plan, planMemo := sched.Schedule(got, r.plan)
	fresh, _ := sched.Schedule(want, sched.Memo{})
	if !reflect.DeepEqual(plan, fresh) {
		t.Fatalf("the plan with memory is another one:\n%+v\n%+v", plan, fresh)
	}
	equalSnapshots(t, "after its plan", &got, &want)
	r.snapshot, r.plan, r.promises, r.last, r.same = memo, planMemo, plan.Promises, got, want
}

func (r *rememberer) count(nodes []*Node, now *SnapshotMemo) {
	before := map[*Job]bool{}
	for _, record := range r.snapshot.waiting.records {
		before[record] = record != nil
	}
	for _, record := range now.waiting.records {
		if before[record] {
			r.jobs++
		}
	}
	held := map[*sched.Running]bool{}
	for _, of := range r.snapshot.running.held {
		held[of] = true
	}
	for _, of := range now.running.held {
		if held[of] {
			r.running++
		}
	}
	for i, record := range now.nodes.records {
		if i < len(nodes) && nodes[i] == record {
			r.nodes++
		}
	}
}

func equalSnapshots(t *testing.T, what string, got, want *sched.Snapshot) {
	t.Helper()
	a, b := reflect.ValueOf(*got), reflect.ValueOf(*want)
	for i := range a.NumField() {
		if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			t.Fatalf("snapshot %s: %s is\n%+v\nand not\n%+v", what, a.Type().Field(i).Name, a.Field(i).Interface(), b.Field(i).Interface())
		}
	}
}

// TestSnapshotAfterRestore: what was kept of one state is not taken for another one's.
func TestSnapshotAfterRestore(t *testing.T) {
	w, s := newWalker(3), New()
	memory := newRememberer(3)
	for index := uint64(1); index <= 400; index++ {
		entry, err := Encode(w.next(s.View()), w.requestID(), 1_000_000+int64(index)*500)
		if err != nil {
			t.Fatal(err)
		}
		mustApply(t, s, index, entry)
		memory.check(t, s.View())
		if index%25 == 0 {
			s = checkReplicas(t, s, s)
		}
	}
	if memory.jobs < 400 || memory.running < 400 || memory.nodes < 400 {
		t.Errorf("only %d waiting jobs, %d running ones and %d nodes were taken over", memory.jobs, memory.running, memory.nodes)
	}
}

// TestSnapshotOfNodesThatComeAndGo: the list of nodes follows whichever are registered,
// change their inventory, are drained and are deleted, one or several between two snapshots,
// anywhere in the order of their names.
func TestSnapshotOfNodesThatComeAndGo(t *testing.T) {
	random, s := rand.New(rand.NewSource(11)), New()
	memory, index := newRememberer(11), uint64(0)
	do := func(command Command) {
		index++
		entry, err := Encode(command, RequestID{}, 1_000_000+int64(index)*500)
		if err != nil {
			t.Fatal(err)
		}
		mustApply(t, s, index, entry) // what is refused changes nothing
	}
	counts := map[int]bool{}
	for range 400 {
		for range 1 + random.Intn(3) {
			name := fmt.Sprintf("n%02d", random.Intn(30))
			switch random.Intn(6) {
			case 0, 1:
				inventory := &pb.Inventory{Cpus: uint32(1 + random.Intn(4)), MemoryBytes: 1 << 30, BootId: "b"}
				for d := range random.Intn(3) {
					inventory.Devices = append(inventory.Devices, &pb.Device{
						Id: fmt.Sprint(d), Index: uint32(d), Model: fmt.Sprintf("model%d", random.Intn(3)), Health: pb.DeviceHealth_DEVICE_HEALTH_OK,
					})
				}
				do(RegisterFromMessage(&pb.Register{Node: name, Inventory: inventory}))
			case 2:
				do(UpdateNodes{Names: []string{name}, Action: DrainNode, Reason: "test"})
			case 3:
				do(UpdateNodes{Names: []string{name}, Action: ResumeNode})
			default:
				do(NodesLost{Names: []string{name}})
				do(UpdateNodes{Names: []string{name}, Action: DeleteNode})
			}
		}
		memory.check(t, s.View())
		counts[s.View().nodes.Len()] = true
	}
	if memory.nodes < 1000 || len(counts) < 5 {
		t.Errorf("%d nodes were taken over, and there were %d numbers of nodes", memory.nodes, len(counts))
	}
}
