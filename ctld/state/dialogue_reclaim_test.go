package state

import (
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/explain"
)

// This file has the words of dialogues about nodes that their owners take back:
//
//	reclaim n1 n2 [within=SECONDS] [until=+SECONDS] [kill] [trigger=TRIGGER] [detail=TEXT] [gpus=N] [model=MODEL] [coordinator=NAME] [privileged]
//	try-reclaim     the same, as a dry run
//	release-nodes n1 n2 [trigger=TRIGGER] [coordinator=NAME] [privileged]
//	end-reclaims
//	pack 3          the leader has a parked job saved, to go on elsewhere
//	parked 3.1 n1 number=N [ms=MS]
//	waits           what users hear of waiting jobs, with what a plan says

//	register … gpumem=BYTES parks=GPUS:MS,…: how long parking takes there at most

// parkWords reads "0:250,1:20000".
func parkWords(text string) (bounds []*pb.ParkBound) {
	for _, word := range strings.Split(text, ",") {
		var b pb.ParkBound
		if n, _ := fmt.Sscanf(word, "%d:%d", &b.Devices, &b.BoundMs); n == 2 {
			if b.Devices > 0 {
				b.Model = "a100"
			}
			bounds = append(bounds, &b)
		}
	}
	return bounds
}

func (d *dialogue) reclaim(a arguments) ReclaimNodes {
	c := ReclaimNodes{
		Names: a.words, WithinMS: 60_000, UntilMS: d.moment(a, "until"), Kill: a.is("kill"), User: a.values["coordinator"],
		Coordinator: a.values["coordinator"], Privileged: a.is("privileged"),
		Trigger: pb.ReclaimTrigger(pb.ReclaimTrigger_value["RECLAIM_TRIGGER_"+strings.ToUpper(a.values["trigger"])]), Detail: a.values["detail"],
		GPUs: uint32(a.size("gpus")), Model: a.values["model"],
	}
	if a.values["within"] != "" {
		c.WithinMS = int64(a.size("within")) * 1000
	}
	c.Names = nil
	for _, word := range a.words {
		if word != "kill" && word != "privileged" {
			c.Names = append(c.Names, word)
		}
	}
	return c
}

func (d *dialogue) tryReclaim(a arguments) string {
	nodes, refused := d.state.View().TryReclaim(d.reclaim(a), d.nowMS)
	if refused != nil {
		return fmt.Sprintf("would be refused (%d): %s\n", refused.Code, refused.Message)
	}
	var out strings.Builder
	for _, node := range nodes {
		fmt.Fprintf(&out, "%s%s", node.Name, d.reclaimText(node.Reclaim))
	}
	return out.String()
}

func (d *dialogue) waits() string {
	v := d.state.View()
	snapshot := v.SchedSnapshot(d.nowMS)
	plan, _ := sched.Schedule(snapshot, sched.Memo{})
	var out strings.Builder
	for _, reason := range plan.Reasons {
		job, _ := v.Job(uint32(reason.Job))
		overlay := Overlay{Reason: explain.Display(reason, snapshot), Detail: explain.Sentence(reason, snapshot)}
		message := v.JobMessage(job, overlay, JobDetail{})
		fmt.Fprintf(&out, "%d %s (%s)\n", job.ID, message.Reason, message.ReasonDetail)
	}
	return out.String()
}

// reclaimText is a node's reclaim, and a line for each guest.
func (d *dialogue) reclaimText(r *pb.Reclaim) string {
	if r == nil {
		return "\n"
	}
	var out strings.Builder
	fmt.Fprintf(&out, " reclaim %d by %s deadline %+d s", r.Number, r.By, (r.DeadlineMs-d.nowMS)/1000)
	if r.UntilMs != 0 {
		fmt.Fprintf(&out, " until %+d s", (r.UntilMs-d.nowMS)/1000)
	}
	if r.Kill {
		out.WriteString(" kill")
	}
	if len(r.Devices) > 0 {
		fmt.Fprintf(&out, " only %s", strings.Join(r.Devices, " "))
	}
	out.WriteString("\n")
	for _, h := range r.Holds {
		if len(r.Holds) == 1 && h.Trigger == pb.ReclaimTrigger_RECLAIM_TRIGGER_COMMAND {
			break
		}
		fmt.Fprintf(&out, "  held by %s since %+d s", strings.ToLower(strings.TrimPrefix(h.Trigger.String(), "RECLAIM_TRIGGER_")), (h.SinceMs-d.nowMS)/1000)
		if h.UntilMs != 0 {
			fmt.Fprintf(&out, " until %+d s", (h.UntilMs-d.nowMS)/1000)
		}
		fmt.Fprintf(&out, " %s (%s)\n", h.By, h.Detail)
	}
	for _, g := range r.Guests {
		fmt.Fprintf(&out, "  %d.%d of %s with %d CPUs %d GPUs: %s", g.Job, g.Epoch, g.User, g.Cpus, g.Gpus, strings.ToLower(strings.TrimPrefix(g.Fate.String(), "GUEST_FATE_")))
		if g.FreedMs != 0 {
			fmt.Fprintf(&out, ", free %+d s", (g.FreedMs-d.nowMS)/1000)
		}
		if g.Detail != "" {
			fmt.Fprintf(&out, " (%s)", g.Detail)
		}
		out.WriteString("\n")
	}
	return out.String()
}
