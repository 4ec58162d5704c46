package state

import (
	"fmt"
	"strconv"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file has the words of dialogues about preemption:
//
//	preemption type=qos|partition mode=requeue [exempt=SECONDS] [guest-exempt=SECONDS] [PARTITION.tier=N] [PARTITION.mode=M]
//	preempt 3.1 for=7 [cancel] [suspend] [own] [park] [grace=SECONDS] [lost=GPU-SECONDS] [next=GPU-SECONDS]
//	holes on|off                  jobs that can be saved may start in holes
//	place 3 n1:0 fills=1          in one
//	preempt 3.1 [for=7] save fills gone=SECONDS   it is needed, in so many seconds

// preemption changes the policy in force.
func (d *dialogue) preemption(a arguments) Command {
	site := *d.state.View().Policy()
	site.Preempt = policy.Preempt{
		Type:        map[string]sched.PreemptType{"qos": sched.PreemptByQOS, "partition": sched.PreemptByPartition}[a.values["type"]],
		Mode:        preemptModeNamed(a.values["mode"]),
		ExemptTimeS: a.number("exempt"), GuestExemptTimeS: a.number("guest-exempt"),
	}
	site.Partitions = append([]policy.Partition(nil), site.Partitions...)
	for i := range site.Partitions {
		p := &site.Partitions[i]
		if tier, given := a.values[p.Name+".tier"]; given {
			n, _ := strconv.ParseUint(tier, 10, 32)
			p.PriorityTier = uint32(n)
		}
		p.PreemptMode = preemptModeNamed(a.values[p.Name+".mode"])
	}
	return ApplyPolicy{Policy: site}
}

// holes changes the policy in force.
func (d *dialogue) holes(a arguments) Command {
	site := *d.state.View().Policy()
	site.Partitions = append([]policy.Partition(nil), site.Partitions...)
	for i := range site.Partitions {
		site.Partitions[i].BfCheckpoint = a.is("on")
	}
	return ApplyPolicy{Policy: site}
}

func preemptModeNamed(word string) policy.PreemptMode {
	return policy.PreemptModeFrom(word)
}

func (d *dialogue) preempt(a arguments) Command {
	job, epoch := d.alloc(a.words[0])
	order := PreemptOrder{
		Job: job, Epoch: epoch, For: a.number("for"), Cancel: a.is("cancel"), Suspend: a.is("suspend"), Save: a.is("save"), Own: a.is("own"), Park: a.is("park"), GraceS: a.number("grace"),
		LostGPUMS: int64(a.size("lost")) * 1000, NextGPUMS: int64(a.size("next")) * 1000,
	}
	if order.Fills = a.is("fills"); order.Fills {
		order.GoneByMS = d.nowMS + int64(a.number("gone"))*1000
	}
	_, order.HasNext = a.values["next"]
	return PreemptJobs{Preemptions: []PreemptOrder{order}}
}

func describePreemption(p PreemptResult) string {
	switch {
	case p.Dropped != "":
		return fmt.Sprintf("%d stays: %s", p.Job, p.Dropped)
	case p.Parked:
		return fmt.Sprintf("%d.%d is parked for %d", p.Job, p.Epoch, p.For)
	case p.Suspended:
		return fmt.Sprintf("%d.%d stands still for %d", p.Job, p.Epoch, p.For)
	case p.Saving:
		return fmt.Sprintf("%d.%d goes for %d once it is saved", p.Job, p.Epoch, p.For)
	case p.Requeued:
		return fmt.Sprintf("%d.%d goes for %d, and waits again", p.Job, p.Epoch, p.For)
	}
	return fmt.Sprintf("%d.%d goes for %d", p.Job, p.Epoch, p.For)
}
