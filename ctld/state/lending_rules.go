package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file keeps guests to the terms on which nodes are lent: whose jobs may be guests
// there, and how much guests have on a node together. The terms bind what starts or moves there. What runs
// already when they are set stays.

// binds reports whether the terms bound what guests have on a node together.
func (l *Lending) binds() bool {
	return l != nil && (l.GPUs < 100 || l.GuestMemoryBytes != bounds.NoLimit || l.GuestTmpBytes != bounds.NoLimit)
}

// unwelcome says why a job is not admitted to a node as a guest, as in "node n1 …"; "" = it
// is, or it is no guest there.
func (t *tables) unwelcome(job *Job, node *Node) string {
	l := node.Lending
	host := job.needsHost() && t.guestNetwork(node) == policy.NetworkPrivateOnly
	switch {
	case !host && (l == nil || len(l.Accounts) == 0 && l.MaxUnsavedS == spec.Unlimited && l.Images == nil && !l.bounded()):
		return ""
	case t.OwnersJob(job, node.Name):
		return ""
	case host:
		return t.hostUnwelcome(job, node)
	case !t.admits(l, job):
		return "admits no guests of the job's account: submit it with another --account, or ask the node's owner (glend " + node.Name + " --accounts)"
	case node.cannotBound(l) != nil:
		no := node.cannotBound(l)
		return "takes no guests, because its owner bounds " + no.what + ", and " + no.why + ": use other nodes, or ask the owner (glend " + node.Name + " " + no.option + "=unlimited)"
	case l.MaxUnsavedS < job.unsavedS():
		return fmt.Sprintf("takes guests for longer than %s only if they are saved while they run: use --checkpoint-interval=auto, or --time=%s", spec.FormatDuration(l.MaxUnsavedS), spec.FormatTime(l.MaxUnsavedS))
	}
	if image := job.image(); image != "" {
		if problem := spec.ImageProblem(l.ImageRules(), spec.OwnerRules, image); problem != "" {
			return "does not admit the job's container image: " + problem
		}
	}
	return ""
}

// bounded reports whether the terms have a bound that the node itself keeps.
func (l *Lending) bounded() bool { return l.GuestNetwork != 0 || l.GuestPower != 0 || l.GuestIO != 0 }

// cannot is a bound that a node cannot keep.
type cannot struct{ what, option, setting, why string }

// cannotBound is the first bound of terms that a node cannot keep; nil = it can keep all, or
// has not told yet.
func (n *Node) cannotBound(l *Lending) *cannot {
	i := n.Inventory
	if i == nil {
		return nil
	}
	for _, c := range []struct {
		wanted, can bool
		cannot
	}{
		{l.GuestNetwork != 0, i.BoundsNetwork, cannot{"what they send and receive", "--guest-network", "guest_network_bytes", i.NoNetworkBound}},
		{l.GuestPower != 0, i.BoundsPower, cannot{"what their GPUs draw", "--guest-power", "guest_power_watts", i.NoPowerBound}},
		{l.GuestPower != 0, l.GuestPower >= i.LeastPowerWatts, cannot{"what their GPUs draw", "--guest-power", "guest_power_watts", fmt.Sprintf("its GPUs take no bound below %dW", i.LeastPowerWatts)}},
		{l.GuestIO != 0, i.BoundsIO, cannot{"what they read and write", "--guest-io", "guest_io_bytes", i.NoIOBound}},
	} {
		if !c.wanted || c.can {
			continue
		}
		if c.why = "the node cannot: " + c.why; c.cannot.why == "the node cannot: " {
			c.why = "its gnoded is too old for that"
		}
		return &c.cannot
	}
	return nil
}

// admits reports whether the terms admit the account that a job is charged to, or one
// above it.
func (t *tables) admits(l *Lending, job *Job) bool {
	if len(l.Accounts) == 0 {
		return true
	}
	association, known := t.Association(job.Association)
	return known && slices.ContainsFunc(l.Accounts, func(name string) bool { return t.IsBelow(association.Account, name) })
}

// unsavedS is how long a job may run without being saved.
func (j *Job) unsavedS() uint32 {
	if c := &j.Spec.Checkpoint; c.IntervalS > 0 || c.IntervalAuto || c.Mode == spec.CheckpointApp {
		return 0
	}
	return j.TimeLimitS()
}

// guestsHold is what guests have on a node. Those that are parked count: they come back.
func (t *tables) guestsHold(node *Node) (gpus uint32, memory, tmp uint64) {
	for _, id := range node.use.jobs {
		job := t.jobOn(id, node.Name)
		alloc := job.Alloc(node.Name)
		if alloc == nil || alloc.Released || t.OwnersJob(job, node.Name) {
			continue
		}
		gpus += uint32(len(alloc.Devices))
		memory += alloc.MemoryBytes
		tmp += alloc.TmpBytes
	}
	return gpus, memory, tmp
}

// guestRoom is what guests may have on a node together, and what of it is free; the zero
// Guests where nothing bounds them.
func (t *tables) guestRoom(node *Node) place.Guests {
	l := node.Lending
	if !l.binds() || node.Inventory == nil {
		return place.Guests{}
	}
	g := place.Guests{
		Bound: true, GPUs: node.wholeGPUs() * l.GPUs / 100,
		MemoryBytes: min(l.GuestMemoryBytes, node.Inventory.MemoryBytes), TmpBytes: min(l.GuestTmpBytes, node.Inventory.TmpBytes),
	}
	gpus, memory, tmp := t.guestsHold(node)
	g.FreeGPUs, g.FreeBytes, g.FreeTmp = g.GPUs-min(gpus, g.GPUs), g.MemoryBytes-min(memory, g.MemoryBytes), g.TmpBytes-min(tmp, g.TmpBytes)
	return g
}

// wholeGPUs is how many devices a node has that are no slices of others.
func (n *Node) wholeGPUs() uint32 {
	count := uint32(0)
	for i := range n.Inventory.Devices {
		if n.Inventory.Devices[i].Parent == "" {
			count++
		}
	}
	return count
}

// checkTerms says why a job may not get this on a node as a guest.
func (t *tables) checkTerms(job *Job, node *Node, order *AllocOrder) error {
	if why := t.unwelcome(job, node); why != "" {
		return fmt.Errorf("node %s %s", node.Name, why)
	}
	if !node.Lending.binds() || t.OwnersJob(job, node.Name) {
		return nil
	}
	if g := t.guestRoom(node); len(order.Devices) > int(g.FreeGPUs) || order.MemoryBytes > g.FreeBytes || order.TmpBytes > g.FreeTmp {
		return fmt.Errorf("node %s has not lent that much to guests", node.Name)
	}
	return nil
}

// schedGuests fills in what guests may have on the nodes of a snapshot.
func (v *View) schedGuests(snapshot *sched.Snapshot, index *schedIndex) {
	v.lending.Scan(func(name string, _ struct{}) bool {
		node, _ := v.nodes.Get(name)
		snapshot.Nodes[index.nodes[name]].Guests = v.guestRoom(node)
		return true
	})
}

type lentKey struct {
	association, unsavedS uint32
	needsHost, nowhere    bool
	image                 string
}

// termsRule keeps jobs to the terms of nodes. Jobs that are charged alike and run as long
// without being saved, with one image, are judged once.
func (t *tables) termsRule() nodeRule {
	if t.lending.Len() == 0 && len(t.policy.Owners) == 0 {
		return nil
	}
	nowhere := func(job *Job) bool { return job.Spec.Network == pb.Network_NETWORK_AUTO && !t.networkAllowed(job) }
	key := func(job *Job) lentKey {
		return lentKey{job.Association, job.unsavedS(), job.needsHost(), nowhere(job), job.image()}
	}
	return newNodeRule(key, func(job *Job) (out nodesFor) {
		none := nowhere(job)
		t.scanTerms(none || job.needsHost(), func(name string, node *Node) bool {
			switch {
			case none, t.unwelcome(job, node) != "":
				out.never = append(out.never, name)
			case node.Lending.binds() && !t.OwnersJob(job, name):
				out.guest = append(out.guest, name)
			}
			return true
		})
		return out
	})
}

// scanTerms calls do with the nodes that have terms, or with all, ascending by name.
func (t *tables) scanTerms(all bool, do func(name string, node *Node) bool) {
	if !all {
		t.lending.Scan(func(name string, _ struct{}) bool {
			node, _ := t.nodes.Get(name)
			return do(name, node)
		})
		return
	}
	for node := range t.Nodes() {
		if !do(node.Name, node) {
			return
		}
	}
}

// hostUnwelcome says why a job that shares its node's network is no guest on a node.
func (t *tables) hostUnwelcome(job *Job, node *Node) string {
	remedy := fmt.Sprintf("ask for one (gcontrol update JobId=%d Network=private)", job.ID)
	if len(job.Images()) > 0 || job.Phase != Waiting {
		remedy = fmt.Sprintf("let it start over with one (gcontrol requeue %d, then gcontrol update JobId=%d Network=private)", job.ID, job.ID)
	}
	return "takes only guests with a network of their own: " + remedy + ", use other nodes, or ask the owner (glend " + node.Name + " --network=private)"
}

// maxTermsTold bounds for how many nodes a waiting job is told the terms that keep it away.
const maxTermsTold = 3

// tellTerms says of a waiting job which terms keep it from nodes that it could use.
func (t *tables) tellTerms(message *pb.Job, job *Job) {
	text, others := "", 0
	t.scanTerms(job.needsHost(), func(name string, node *Node) bool {
		why := ""
		if t.inPartitions(job, name) {
			why = t.termsAgainst(job, node)
		}
		switch {
		case why == "":
		case others >= maxTermsTold:
			others++
		default:
			others++
			text = joinSentences(text, "node "+name+" "+why)
		}
		return true
	})
	if others > maxTermsTold {
		text = joinSentences(text, fmt.Sprintf("%d more nodes likewise", others-maxTermsTold))
	}
	if text != "" {
		addKept(message, job, text)
	}
}

// termsAgainst says why a waiting job is not started on a node now, as far as that is
// about the terms; "" = it is not.
func (t *tables) termsAgainst(job *Job, node *Node) string {
	if why := t.unwelcome(job, node); why != "" || !node.Lending.binds() || node.Inventory == nil || t.OwnersJob(job, node.Name) {
		return why
	}
	g, least := t.guestRoom(node), job.Spec.shape.Request.Least()
	switch {
	case node.Lending.GPUs < 100 && least.NodeGPUs > uint64(g.FreeGPUs):
		return fmt.Sprintf("lends %d of its %d GPUs to guests, and %d of these %s left: ask for fewer, or for other nodes", g.GPUs, node.wholeGPUs(), g.FreeGPUs, are(g.FreeGPUs))
	case least.NodeMemoryBytes > g.FreeBytes || least.WholeMemory && g.FreeBytes < g.MemoryBytes:
		return fmt.Sprintf("lends %s of memory to guests, and %s of it is left: ask for less with --mem, or for other nodes", spec.FormatSize(g.MemoryBytes), spec.FormatSize(g.FreeBytes))
	case job.Spec.shape.Request.TmpPerNode > g.FreeTmp:
		return fmt.Sprintf("lends %s of its disk to guests, and %s of it is left: ask for less with --tmp, or for other nodes", spec.FormatSize(g.TmpBytes), spec.FormatSize(g.FreeTmp))
	}
	return ""
}

func are(n uint32) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
