package sched

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file has the words of dialogues about preemption:
//
//	preempt     type=none|qos|partition [mode=cancel|requeue|…] [exempt=SECONDS] [guest-exempt=SECONDS]
//	qos         … [preempts=A,B] [mode=M] [grace=SECONDS] [exempt=SECONDS]
//	partitions  … [mode=M] [grace=SECONDS]
//	running     … [on=A,B] [qos=NAME] [partition=NAME] [age=SECONDS] [saved=SECONDS-AGO]
//	            [restore=SECONDS] [lost=GPU-SECONDS] [no-requeue] [saves] [ending] [leaves=SECONDS]
//	gone        ID: a running job has ended
//	wait        seconds=N
//
// What a plan preempts is ending in the next.

var preemptModes = []string{"unset", "off", "cancel", "requeue", "suspend", "checkpoint", "park"}

func preemptMode(text string) PreemptMode {
	return PreemptMode(max(slices.Index(preemptModes, text), 0))
}

func (d *dialogue) preempt(words []string) error {
	o := options(words)
	d.snapshot.NowMS = 1_000_000_000
	d.snapshot.Preemption = PreemptionPolicy{
		Type:        map[string]PreemptType{"partition": PreemptByPartition, "qos": PreemptByQOS}[o["type"]],
		Mode:        preemptMode(o["mode"]),
		ExemptTimeS: uint32(number(o["exempt"], 0)), GuestExemptTimeS: uint32(number(o["guest-exempt"], 0)),
	}
	return nil
}

// preemptWord reads what a QOS says of preemption.
func (d *dialogue) preemptWord(q *QOS, name, value string) {
	switch name {
	case "mode":
		q.Preempt = preemptMode(value)
	case "grace":
		q.GraceTimeS = uint32(number(value, 0))
	case "exempt":
		q.PreemptExemptTimeS = int64(number(value, 0))
	case "preempts":
		for _, name := range list(value) {
			at, _ := d.findQOS(name)
			q.Preempts = append(q.Preempts, at)
		}
	}
}

// runningAs fills in what makes a running job a victim.
func (d *dialogue) runningAs(r *Running, o map[string]string) {
	qos, _ := d.findQOS(o["qos"])
	r.QOS, r.Partition = int32(qos), slices.IndexFunc(d.snapshot.Partitions, func(p Partition) bool { return p.Name == o["partition"] })
	r.StartMS = d.snapshot.NowMS - int64(number(o["age"], 0))*1000
	if o["saved"] != "" {
		r.SavedMS = d.snapshot.NowMS - int64(number(o["saved"], 0))*1000
	}
	r.RestoreS, r.LostGPUMS = uint32(number(o["restore"], 0)), int64(number(o["lost"], 0))*1000
	_, fixed := o["no-requeue"]
	r.Requeue = !fixed
	_, r.Saves = o["saves"]
	_, starting := o["starting"]
	r.Suspends = !starting
	d.ownedAs(r, o)
	_, r.Ending = o["ending"]
	if o["leaves"] != "" {
		r.LeavesByMS = d.snapshot.NowMS + int64(number(o["leaves"], 0))*1000
	}
}

func (d *dialogue) gone(words []string) error {
	id := JobID(number(words[0], 0))
	at := slices.IndexFunc(d.snapshot.Running, func(r Running) bool { return r.ID == id })
	if at < 0 {
		return fmt.Errorf("job %d does not run", id)
	}
	placement := d.snapshot.Running[at].Placement
	d.snapshot.Running = slices.Delete(d.snapshot.Running, at, at+1)
	place.Release(d.snapshot.Nodes, placement, stayingOf(d.snapshot.Running))
	return nil
}

// stayingOf is who of some running jobs is on a node.
func stayingOf(running []Running) func(place.NodeIndex) []place.Stay {
	return func(node place.NodeIndex) []place.Stay {
		var staying []place.Stay
		for i := range running {
			r := &running[i]
			if slices.ContainsFunc(r.shares().Allocs, func(p place.Alloc) bool { return p.Node == node }) {
				staying = append(staying, place.Stay{User: r.Placement.User, UserOnly: r.Placement.UserOnly, Exclusive: r.Exclusive})
			}
		}
		return staying
	}
}

// preempted writes down who goes, and has them end.
func (d *dialogue) preempted(preemptions []Preemption) string {
	var out strings.Builder
	var told *Choice
	for _, p := range preemptions {
		if p.Choice != told {
			told = p.Choice
			fmt.Fprintf(&out, "room for %d on %s costs %s", told.For, d.nodeNames(told.Nodes), seconds(told.CostGPUMS))
			if told.NextBest != nil {
				fmt.Fprintf(&out, "; the next best, %s, %s", strings.Trim(fmt.Sprint(told.NextBest), "[]"), seconds(told.NextCostMS))
			}
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "preempt %d: %s", p.Victim, preemptModes[p.Mode])
		if p.GraceS > 0 {
			fmt.Fprintf(&out, " after %d s", p.GraceS)
		}
		fmt.Fprintf(&out, ", loses %s\n", seconds(p.LostGPUMS))
		for i := range d.snapshot.Running {
			switch r := &d.snapshot.Running[i]; {
			case r.ID != p.Victim:
			case p.Mode == PreemptPark:
				d.snapshot.parkFor(r, d.snapshot.ownerOf(p.For))
			case p.Mode == PreemptSuspend:
				r.Suspends, r.Suspended, r.Continues = false, true, true
			default:
				r.Ending = true
			}
		}
	}
	return out.String()
}

func (d *dialogue) nodeNames(nodes []place.NodeIndex) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = d.snapshot.Nodes[n].Name
	}
	return strings.Join(names, ",")
}

func seconds(ms int64) string { return fmt.Sprintf("%d GPU-seconds", ms/1000) }
