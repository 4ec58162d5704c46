package ordered

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// hasOwners says whether nodes of a day have owners, who take them back. The first days
// have none: package broken knows which of them notices a fault.
func hasOwners(seed uint64) bool { return seed > 40 && seed%8 == 5 }

// ownerOf is the lab that a node belongs to on a day with owners. The others are the
// site's.
var ownerOf = map[string]string{"n1": labs[0], "n2": labs[0], "n3": labs[1]}

// owners says the same in a policy, which names each owner once.
func owners() (all []policy.NodeOwner) {
	for _, lab := range labs {
		owner := policy.NodeOwner{Account: lab}
		for _, name := range slices.Sorted(maps.Keys(ownerOf)) {
			if ownerOf[name] == lab {
				owner.Nodes = strings.TrimPrefix(owner.Nodes+","+name, ",")
			}
		}
		all = append(all, owner)
	}
	return all
}

// planReclaims adds owners to the faults of a day. They have a source of their own,
// so that the other days are as they were.
func planReclaims(seed uint64, faults []Fault, until time.Duration) []Fault {
	rng := rand.New(rand.NewPCG(seed, 4))
	for range 40 {
		// From three seconds to three hours, short ones as likely as long ones.
		length := time.Duration(3 * float64(time.Second) * math.Exp(rng.Float64()*math.Log(3600)))
		f := Fault{At: between(rng, 10*time.Minute, until), For: length, Kind: "owner reclaims a node", A: rng.IntN(1 << 20), B: rng.IntN(1 << 20)}
		for again := range 1 + rng.IntN(2) { // the same node twice, before the first ends or just after it
			f.Number = len(faults)
			faults = append(faults, f)
			f.At, f.B = min(until, f.At+between(rng, 0, f.For+20*time.Second)), f.B+again+1
		}
	}
	return faults
}

// evacuate has a node emptied, and given back.
func (w *World) evacuate(f Fault) func() {
	m := w.machine(f)
	command := state.UpdateNodes{
		Names: []string{m.Name}, Action: state.DrainNode, Reason: "emptied", User: "root", Evacuate: true, WithinMS: []int64{0, 5_000, 600_000}[f.B/7%3],
	}
	w.administer(fmt.Sprintf("evacuate %s within %d ms", m.Name, command.WithinMS), command, nil)
	return func() {
		w.administer("resume "+m.Name, state.UpdateNodes{Names: []string{m.Name}, Action: state.ResumeNode, User: "root"}, nil)
	}
}

// reclaim has the owner of a node take it back, and lend it again; now and then the node is
// emptied instead.
func (w *World) reclaim(f Fault) func() {
	if f.B%7 == 0 {
		return w.evacuate(f)
	}
	m := w.machine(f)
	command := state.ReclaimNodes{
		Names: []string{m.Name}, WithinMS: []int64{1_000, 5_000, 60_000, 600_000}[f.B%4], Kill: f.B/4%8 == 0, User: "root", Privileged: true,
	}
	if f.B/32%4 == 0 { // the clock of the log may be past this: then it is refused
		command.UntilMS = w.wall().Add(f.For).UnixMilli()
	}
	w.administer(fmt.Sprintf("reclaim %s within %d ms", m.Name, command.WithinMS), command, nil)
	return func() { w.release(m.Name) }
}

func (w *World) release(name string) {
	w.administer("release "+name, state.ReleaseNodes{Names: []string{name}, User: "root", Privileged: true}, nil)
}

// dies is how long an allocation takes to die at most. Where an order comes too late, that is
// longer than what is left until its deadline.
const dies = 200 * time.Millisecond

// checkPromises looks, each second of a day with owners, whether an allocation that was
// told to leave its devices has them past the deadline. Nodes that are never told have
// promised nothing.
func (w *World) checkPromises() {
	if w.quiet {
		return
	}
	for _, m := range w.machines {
		for _, s := range m.ShimsInOrder() {
			by := s.Core.Park.By
			if s.Alive && s.Result == nil && by != 0 && m.Boottime() >= max(by, s.Core.Park.Kill+dies) && !s.IsParked() {
				w.fail("promise broken: allocation %s still has what the owner of %s was to have back", s.Key, m.Name)
			}
		}
	}
	w.owned.check()
	w.after(time.Second, w.checkPromises)
}

// checkGuest: nobody starts on a reclaimed node but the owner's own jobs.
func (w *World) checkGuest(view *state.View, in *intent, job *state.Job) {
	for i := range job.Run.Allocs {
		name := job.Run.Allocs[i].Node
		if n, _ := view.Node(name); n.Reclaim != nil && labOf(in.uid) != ownerOf[name] {
			w.fail("guest of an owner who is there: job %d starts on %s, which is reclaimed", job.ID, name)
		}
	}
}

// reclaimedNodes are those that are, by name.
func reclaimedNodes(view *state.View) (names []string) {
	for n := range view.Nodes() {
		if n.Reclaim != nil {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names
}
