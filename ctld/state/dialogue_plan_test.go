package state

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/explain"
)

// plan says where each waiting job would start now, or why it waits.
func (d *dialogue) plan() string {
	snapshot := d.state.View().SchedSnapshot(d.nowMS)
	plan, _ := sched.Schedule(snapshot, sched.Memo{})
	var out strings.Builder
	for i := range plan.Starts {
		fmt.Fprintf(&out, "%d starts on", plan.Starts[i].Job)
		for _, alloc := range plan.Starts[i].Placement.Allocs {
			fmt.Fprintf(&out, " %s", snapshot.Nodes[alloc.Node].Name)
		}
		out.WriteString("\n")
	}
	for _, p := range plan.Promises.Planned {
		fmt.Fprintf(&out, "%d is planned in %d s on", p.Job, (p.StartMS-d.nowMS)/1000)
		for _, alloc := range p.Placement.Allocs {
			fmt.Fprintf(&out, " %s", snapshot.Nodes[alloc.Node].Name)
		}
		out.WriteString("\n")
	}
	for _, p := range plan.Preemptions {
		fmt.Fprintf(&out, "%d makes room for %d: %s\n", p.Victim, p.For, []string{"", "off", "cancel", "requeue", "suspend", "checkpoint", "park"}[p.Mode])
	}
	for _, id := range plan.Continues {
		fmt.Fprintf(&out, "%d continues\n", id)
	}
	for _, reason := range plan.Reasons {
		fmt.Fprintf(&out, "%d waits: %s (%s)\n", reason.Job, explain.Display(reason, snapshot), explain.Sentence(reason, snapshot))
	}
	return out.String()
}
