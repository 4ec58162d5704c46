package api

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// maxProblems bounds the list: a longer list has one cause for most of its
// entries.
const maxProblems = 64

// lagNoticed is how many commands a controller may be behind before that is a
// problem: more than gather between two heartbeats of a busy leader.
const lagNoticed = 10_000

// problems are what an administrator should look at, each with what to do;
// worst first: controllers, then nodes that do not answer, then what they
// reported.
func (s *Controller) problems(view *state.View, status *pb.StatusResponse, now time.Time) []string {
	found := append(peerProblems(status), restoreProblems(view)...)
	if s.options.Problems != nil {
		found = append(found, s.options.Problems()...)
	}
	found = append(found, s.nodeProblems(view, now)...)
	if len(found) > maxProblems {
		rest := len(found) - maxProblems + 1
		found = append(found[:maxProblems-1], fmt.Sprintf("and %d more: mend these first", rest))
	}
	for i := range found {
		found[i] = plainly(found[i])
	}
	return found
}

func peerProblems(status *pb.StatusResponse) []string {
	var found []string
	voters, down := 0, 0
	for _, peer := range status.GetPeers() {
		if peer.GetVoter() {
			voters++
		}
		switch {
		case !peer.GetReachable():
			if peer.GetVoter() {
				down++
			}
			found = append(found, fmt.Sprintf("controller %s cannot be reached: %s", peer.GetName(), cmp.Or(peer.GetProblem(), "see whether gctld runs there, and the network between")))
		case peer.GetProblem() != "":
			found = append(found, fmt.Sprintf("controller %s: %s", peer.GetName(), peer.GetProblem()))
		case status.GetAppliedIndex() > peer.GetAppliedIndex()+lagNoticed:
			found = append(found, fmt.Sprintf("controller %s is %d commands behind: see whether its disk or its network is slow", peer.GetName(), status.GetAppliedIndex()-peer.GetAppliedIndex()))
		}
	}
	if left := voters - down - (voters/2 + 1); down > 0 && left == 0 {
		found = append([]string{"no further controller may fail, or nothing can be submitted or started: bring back those that are down first"}, found...)
	}
	if voters > 1 && voters%2 == 0 {
		found = append(found, fmt.Sprintf("%d controllers tolerate no more failures than %d: add one, or remove one (gcontrol peer)", voters, voters-1))
	}
	return found
}

// restoreProblems say what keeps jobs from starting after a restore.
func restoreProblems(view *state.View) []string {
	awaited := view.Awaited()
	if len(awaited) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("after a restore nothing starts until %.200s registered and ended what is not known here: start gnoded there; of a machine that is off say so with gcontrol fence NODE", nodesHave(awaited))}
}

// nodesHave is "node n1 has" or "3 nodes (n[1-3]) have".
func nodesHave(names []string) string {
	if len(names) == 1 {
		return "node " + names[0] + " has"
	}
	return fmt.Sprintf("%d nodes (%.160s) have", len(names), spec.FormatHostList(names))
}

// nodeProblems joins the nodes that have the same trouble.
func (s *Controller) nodeProblems(view *state.View, now time.Time) []string {
	var silent, drained []string
	var single []string
	for node := range view.Nodes() {
		switch {
		case node.Inventory == nil:
			continue
		case node.NotResponding:
			silent = append(silent, node.Name)
			if said := s.loops.Fencing(node.Name); said != "" {
				single = append(single, fmt.Sprintf("node %s: %s", node.Name, said))
			}
		case node.Inventory.Trouble != "":
			single = append(single, fmt.Sprintf("node %s takes no jobs: %s", node.Name, node.Inventory.Trouble))
		case node.Drain || node.Down:
			drained = append(drained, node.Name)
		}
		for i := range node.Inventory.Devices {
			if device := &node.Inventory.Devices[i]; device.Health != pb.DeviceHealth_DEVICE_HEALTH_OK {
				single = append(single, fmt.Sprintf("GPU %s of node %s is given to no job: %s", device.ID, node.Name, cmp.Or(device.HealthDetail, "it is not healthy")))
			}
		}
		for _, left := range node.LeftOvers {
			single = append(single, fmt.Sprintf("node %s cannot clean up %s, for %s: %s", node.Name, left.What, sinceText(left.SinceMS, now), left.Error))
		}
	}
	var found []string
	if len(silent) > 0 {
		found = append(found, fmt.Sprintf("%s not answer: see whether gnoded runs there, and the network between; of a machine that is off say so with gcontrol fence NODE", nodesDo(silent)))
	}
	found = append(found, single...)
	if len(drained) > 0 {
		found = append(found, fmt.Sprintf("%s not take jobs because somebody said so: ginfo -R says why; gcontrol update NodeName=NAME State=RESUME takes them back", nodesDo(drained)))
	}
	return found
}

// nodesDo is "node n1 does" or "3 nodes (n[1-3]) do".
func nodesDo(names []string) string {
	if len(names) == 1 {
		return "node " + names[0] + " does"
	}
	return fmt.Sprintf("%d nodes (%.200s) do", len(names), spec.FormatHostList(names))
}

func sinceText(ms int64, now time.Time) string {
	return max(now.Sub(time.UnixMilli(ms)), 0).Round(time.Second).String()
}
