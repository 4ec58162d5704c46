package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/sched"
)

// newReclaimWorld is a suspendWorld whose nodes belong to an account; half of the jobs
// are its own.
func newReclaimWorld(t *testing.T, seed int64) *suspendWorld {
	w := newSuspendWorld(t, seed)
	w.reclaims = true
	w.apply(ChangeAccounts{Changes: []AccountChange{
		{Action: AddRecord, Record: AccountRecord, Account: "lab"},
		{Action: AddRecord, Record: AssociationRecord, User: "owner", Account: "lab"},
		{Action: ModifyRecord, Record: UserRecord, User: "owner", DefaultAccount: ptr("lab")},
	}})
	site := *w.state.policy
	site.Owners = []policy.NodeOwner{{Account: "lab", Nodes: "n[0-1]"}}
	w.apply(ApplyPolicy{Policy: site})
	return w
}

// own reclaims or releases some of the nodes.
func (w *suspendWorld) own() {
	names := [][]string{{"n0"}, {"n1"}, {"n0", "n1"}}[w.Intn(3)]
	if w.Intn(4) < 3 {
		before := w.continued
		for job := range w.state.LiveJobs() {
			if job.Suspended() {
				before++
			}
		}
		w.apply(ReleaseNodes{Names: names, Privileged: true})
		for job := range w.state.LiveJobs() {
			if job.Suspended() {
				before--
			}
		}
		w.atOnce += before - w.continued
		return
	}
	w.reclaimed++
	if w.Intn(3) == 0 {
		c := ReclaimNodes{Names: names, GPUs: uint32(1 + w.Intn(2)), WithinMS: MinReclaimMS + int64(w.Intn(60_000)), Privileged: true}
		if applyCommand(w.t, w.state, c, RequestID{}, w.nowMS).Refused == nil { // there are as many
			w.reclaimedGPUs++
		}
		return
	}
	w.apply(ReclaimNodes{Names: names, WithinMS: MinReclaimMS + int64(w.Intn(60_000)), Kill: w.Intn(20) == 0, Privileged: true})
}

// checkKept: no plan gives a guest what is kept from it.
func (w *suspendWorld) checkKept(snapshot *sched.Snapshot, plan *sched.Plan) {
	for i := range plan.Starts {
		start := &plan.Starts[i]
		job, _ := w.state.Job(uint32(start.Job))
		for _, alloc := range start.Placement.Allocs {
			node, _ := w.state.Node(snapshot.Nodes[alloc.Node].Name)
			if w.state.OwnersJob(job, node.Name) || !node.keepsSome() {
				continue
			}
			w.beside++
			for _, grant := range alloc.Devices {
				if id := snapshot.Nodes[alloc.Node].Devices[grant.Device].ID; node.Reclaim.keepsDevice(id) {
					w.t.Fatalf("job %d is planned with %s of %s, which is kept from it", job.ID, id, node.Name)
				}
			}
		}
	}
}

// guests says which guest still has CPUs or devices of a reclaimed node; "" = none.
func (w *suspendWorld) guests() string {
	for _, node := range w.nodes {
		record, _ := w.state.Node(node.name)
		if record.Reclaim == nil {
			continue
		}
		for _, ref := range sortedRefs(node.allocs) {
			job, _ := w.state.Job(ref.Job)
			if p := node.allocs[ref]; w.state.keptFrom(job, record) && !(p.frozen && p.parked) {
				return fmt.Sprintf("%v on %s: %+v, the job %+v", ref, node.name, p, job.Run)
			}
		}
		if !record.Reclaim.Free() {
			return fmt.Sprintf("guests of %s: %+v", node.name, record.Reclaim.Guests)
		}
	}
	return ""
}

// settle lets everything arrive and be done, until there is nothing that is not as
// it should be.
func (w *suspendWorld) settle(what string, exits int, not func() string) {
	w.t.Helper()
	for pass := 0; not() != ""; pass++ {
		if pass > 4000 {
			w.t.Fatalf("%s: %s", what, not())
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
		w.work(exits)
		w.orders = w.orders[max(0, len(w.orders)-60):]
		w.check()
	}
}

// TestReclaimedWorld: owners take nodes back and lend them again, at any moment and
// several times, while messages come late, twice, in any order or not at all. No CPU
// and no device ever has two jobs; once all has arrived, no guest has anything of a
// reclaimed node; and after the last release all jobs come to their end.
func TestReclaimedWorld(t *testing.T) {
	var sum suspendWorld
	seeds := prototest.Soak[int64](8, 200)
	for seed := range seeds {
		w := newReclaimWorld(t, seed)
		for range 2500 {
			switch n := w.Intn(100); {
			case n < 5 && w.jobs < 60:
				w.submit()
			case n < 18:
				w.plan()
			case n < 28:
				w.dispatch()
			case n < 30:
				w.administer()
			case n < 33:
				w.own()
			case n < 50:
				w.work(100)
			case n < 52:
				w.register(w.nodes[w.Intn(len(w.nodes))])
			default:
				w.deliver()
			}
			w.orders = w.orders[max(0, len(w.orders)-60):]
			w.check()
		}
		w.apply(ReclaimNodes{Names: []string{"n0", "n1"}, WithinMS: MinReclaimMS, Privileged: true})
		w.settle("a guest stays", 60, w.guests)
		w.apply(ReleaseNodes{Names: []string{"n0", "n1"}, Privileged: true})
		for id := range uint32(w.jobs) {
			w.apply(ResumeJobs{Targets: []Target{{Job: id + 1}}, Privileged: true})
		}
		w.settle("some jobs never come to their end", 3, func() string {
			for job := range w.state.LiveJobs() {
				return fmt.Sprintf("seed %d: job %d: %+v", seed, job.ID, w.state.JobMessage(job, Overlay{}, JobDetail{}))
			}
			return ""
		})
		sum.reclaimed, sum.parked, sum.killed = sum.reclaimed+w.reclaimed, sum.parked+w.parked, sum.killed+w.killed
		sum.asked += w.asked
		sum.reclaimedGPUs, sum.beside = sum.reclaimedGPUs+w.reclaimedGPUs, sum.beside+w.beside
		sum.devices, sum.atOnce, sum.continued = sum.devices+w.devices, sum.atOnce+w.atOnce, sum.continued+w.continued
	}
	t.Logf("%d reclaims, %d parked, %d for jobs of the owner, %d killed, %d continued, %d at once, %d starts on devices of a parked one",
		sum.reclaimed, sum.parked, sum.asked, sum.killed, sum.continued, sum.atOnce, sum.devices)
	t.Logf("%d times GPUs only, %d starts of guests beside them", sum.reclaimedGPUs, sum.beside)
	if n := int(seeds); sum.reclaimedGPUs < n || sum.beside < n/4 || sum.reclaimed < 10*n || sum.parked < 2*n || sum.asked < n || sum.killed < n/4 || sum.continued < 5*n || sum.devices < n/4 || sum.atOnce < n {
		t.Error("hardly anything happens")
	}
}

// lentDevices counts the parked jobs whose devices an allocation has.
func (s *State) lentDevices(alloc *Alloc) (count int) {
	for other := range s.JobsOn(alloc.Node) {
		if parked := other.Alloc(alloc.Node); parked.Parked && slices.ContainsFunc(parked.Devices, func(d HeldDevice) bool {
			return slices.ContainsFunc(alloc.Devices, func(mine HeldDevice) bool { return mine.ID == d.ID })
		}) {
			count++
		}
	}
	return count
}
