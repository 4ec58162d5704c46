package state

import (
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file has the words of dialogues about nodes that go, and owners who take them:
//
//	leaves n1 within=SECONDS why=TEXT     the node says that it goes
//	stays n1                              it does not after all, or is back
//	habit n1                              what is known of its owner
//	hazard 3.1                            what a guest's nodes do to it

func (d *dialogue) leaves(verb string, a arguments) Command {
	if verb == "stays" {
		return LeavesFromMessage(a.words[0], &pb.NodeLeaves{Stays: true})
	}
	return LeavesFromMessage(a.words[0], &pb.NodeLeaves{Why: strings.ReplaceAll(a.values["why"], "_", " "), WithinMs: int64(a.number("within")) * 1000})
}

func (d *dialogue) habit(a arguments) string {
	node, _ := d.state.View().Node(a.words[0])
	h := d.state.View().habitMessage(node)
	if h == nil {
		return "nothing is known\n"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "taken %d/1000 times a week; killed %d/1000 of %d guests\n", h.PerWeekMilli, h.KilledPermille, h.Guests)
	for _, hour := range h.Hours {
		fmt.Fprintf(&out, "  hour %d: %d/1000 of the weeks, %d times, at %d s within %d s\n", hour.Hour, hour.TakenPermille, hour.Times, hour.AtS, hour.SpreadS)
	}
	return out.String()
}

func (d *dialogue) hazard(a arguments) string {
	id, _ := d.alloc(a.words[0])
	view := d.state.View()
	job, _ := view.Job(id)
	var out strings.Builder
	for i := range job.Run.Allocs {
		node, _ := view.Node(job.Run.Allocs[i].Node)
		times, lost := view.TakenPerWeek(job, node, d.nowMS)
		fmt.Fprintf(&out, "%s: taken %d/65536 times a week, it loses its run with %d/65536\n", node.Name, times, lost)
	}
	return out.String()
}
