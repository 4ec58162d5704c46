package ordered

import (
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/noded/owner"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/test/sim/node"
)

// This file has what must hold on nodes that their owners take back there: what owners
// were answered counts, whatever controllers, daemons and supervisors believe.

// owned follows what owners were answered on their nodes.
type owned struct {
	w     *World
	nodes map[string]*ownedNode
}

// ownedNode is one node, as far as its owner knows.
type ownedNode struct {
	held   bool          // by a command that was answered, and that nothing may have ended
	number uint64        // of the owner's words, then
	boots  int           // the node was switched on so often
	by     time.Duration // boot time by which its guests are gone; void after another boot
	until  bool          // it ends by itself
	since  time.Duration // true time
	turn   int           // rises with whatever may end it
	seen   map[pb.ReclaimTrigger]int
}

func newOwned(w *World) *owned { return &owned{w: w, nodes: map[string]*ownedNode{}} }

func (o *owned) node(name string) *ownedNode {
	if o.nodes[name] == nil {
		o.nodes[name] = &ownedNode{seen: map[pb.ReclaimTrigger]int{}}
	}
	return o.nodes[name]
}

// mayEnd notes that something may have ended the hold of a command.
func (n *ownedNode) mayEnd() { n.held, n.turn = false, n.turn+1 }

// reclaim has the owner take a node back on it. done is told when that is answered.
func (o *owned) reclaim(m *machine, r owner.Request, done func()) {
	n := o.node(m.Name)
	turn, by, boots, begun := n.turn, m.Boottime()+r.Within, m.Boots, o.w.now
	m.Daemon.Reclaim(r, func(err error) {
		done()
		if err != nil {
			o.w.fail("refused: %s cannot be reclaimed on it: %v", m.Name, err)
			return
		}
		o.w.OnNode++
		if n.turn != turn || m.Boots != boots {
			return
		}
		if n.held && n.boots == boots {
			by = min(by, n.by)
		}
		n.held, n.number, n.boots, n.by, n.until, n.since = true, m.Ledger.GetNumber(), boots, by, r.For != 0, o.w.now
		if r.For == 0 {
			return
		}
		n.turn++
		ends := n.turn
		o.w.after(begun+r.For*9/10-o.w.now, func() { // before it ends by any clock
			if n.turn == ends {
				n.mayEnd()
			}
		})
	})
}

// release has the owner lend a node again on it.
func (o *owned) release(m *machine, done func()) {
	o.node(m.Name).mayEnd()
	m.Daemon.Release(done)
}

// see notes that a trigger is there once more, or once less.
func (o *owned) see(m *machine, trigger pb.ReclaimTrigger, by int) {
	n := o.node(m.Name)
	n.seen[trigger] += by
	m.See(trigger, n.seen[trigger] > 0)
}

// hears follows what is released at controllers: of a hold on the node, what the log knew.
func (o *owned) hears(view *state.View, result *state.Result) {
	if result.Kind != state.KindReleaseNodes || result.Refused != nil {
		return
	}
	for _, name := range result.Nodes {
		node, _ := view.Node(name)
		if n := o.node(name); n.held && node.HoldsNumber >= n.number && node.Reclaim.Held(pb.ReclaimTrigger_RECLAIM_TRIGGER_LOCAL) == nil {
			n.mayEnd()
		}
	}
}

// settledIn is how long a daemon runs before everything must be as its owner was told.
const settledIn = 3 * time.Second

// heardBy is how much later than the deadline a guest may be gone whose supervisor heard of the
// hold from a daemon that was started meanwhile.
const heardBy = time.Second

// settled says whether the daemon of a machine has run for long enough to be judged:
// where it is killed or stopped, supervisors keep what they have heard, and the rest waits.
func (m *machine) settled() bool {
	return m.On && m.daemon.runs() && m.daemon.w.now-m.daemon.since >= settledIn
}

// isGuest says whose job an allocation is, whatever its node thinks.
func isGuest(s *node.Shim) bool { return labOf(s.Order.GetOwner().GetUid()) != ownerOf[s.Node.Name] }

// check looks, each second of a day with owners, whether each node is its owner's as they
// were told on it.
func (o *owned) check() {
	for _, m := range o.w.machines {
		if !m.settled() {
			continue
		}
		n := o.node(m.Name)
		if n.until && n.boots != m.Boots {
			n.mayEnd() // its clock may be anything
		}
		held, by := m.Daemon.Held(), m.Daemon.Deadline()
		if n.held && n.since+settledIn < o.w.now {
			if !held {
				o.w.fail("owner forgotten: %s was reclaimed on it at %v, nobody has ended that, and it is not held", m.Name, n.since)
			}
			if by = n.by; n.boots != m.Boots {
				by = 0 // its guests ended with the boot before
			}
		}
		if !held || m.Boottime() < by+heardBy {
			continue
		}
		for _, s := range m.ShimsInOrder() {
			if s.Alive && s.Result == nil && isGuest(s) && !s.IsParked() {
				o.w.fail("promise broken: allocation %s still has what the owner of %s was to have back", s.Key, m.Name)
			}
		}
	}
}

// checkBegins: no guest begins to run on a node that its owner has taken back on it.
func (o *owned) checkBegins(s *node.Shim) {
	m, n := o.w.machines[s.Node.Number], o.node(s.Node.Name)
	if n.held && n.since+settledIn < o.w.now && m.settled() && isGuest(s) {
		o.w.fail("guest of an owner who is there: allocation %s begins on %s, which was reclaimed on it at %v", s.Key, m.Name, n.since)
	}
}

// differ says where a node and the log have different holds of it; "" = nowhere.
func (o *owned) differ() string {
	lead := o.w.log.leader
	if lead == nil || !lead.leading {
		return "no controller leads"
	}
	view := lead.View()
	for _, m := range o.w.machines {
		record, known := view.Node(m.Name)
		if !known || !m.daemon.runs() {
			return m.Name + " is away"
		}
		var told []pb.ReclaimTrigger
		if record.Reclaim != nil {
			for _, h := range record.Reclaim.Holds {
				if h.Trigger == pb.ReclaimTrigger_RECLAIM_TRIGGER_LOCAL || h.Trigger == pb.ReclaimTrigger_RECLAIM_TRIGGER_GPU_PROCESS || h.Trigger == pb.ReclaimTrigger_RECLAIM_TRIGGER_LOGIN {
					told = append(told, h.Trigger)
				}
			}
		}
		if own := m.Daemon.HeldBy(); !slices.Equal(own, told) {
			return m.Name + " is held by " + triggersText(own) + ", and in the log by " + triggersText(told)
		}
	}
	return ""
}

func triggersText(all []pb.ReclaimTrigger) (text string) {
	for _, t := range all {
		text += t.String()[len("RECLAIM_TRIGGER"):]
	}
	if text == "" {
		return "nothing"
	}
	return text
}

// agreeWithin is how long nodes and controllers may take to agree once nothing fails.
const agreeWithin = 20 * time.Minute

// agree lets nodes and controllers come to one mind after the faults.
func (w *World) agree(day time.Duration) {
	for w.failure == nil && w.owned.differ() != "" {
		if w.now >= day+agreeWithin {
			w.fail("disagree: %v after the last fault: %s", w.now-day, w.owned.differ())
			return
		}
		for until := w.now + 10*time.Second; w.failure == nil && w.step(until); {
		}
	}
}
