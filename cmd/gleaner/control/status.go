package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// loadStatus is what gcontrol status was doing when it failed.
const loadStatus = "gleaner_load_status error"

// statusTime is how long the leader is looked for: as long as another takes to
// take over. Whoever asks for the status would rather know that none leads than
// wait until one does.
var statusTime = 8 * time.Second

// maxLeasesShown is how many nodes one screen takes.
const maxLeasesShown = 10

// clusterStatus is what one look found: the leader's word, and what each
// controller that was asked knows itself.
type clusterStatus struct {
	leader *pb.StatusResponse // nil: no leader answered
	pings  []pinged
}

// controlStatus shows how the cluster is. Where no controller leads it shows
// what those that were asked know.
func controlStatus(c *controlRun, words []string) error {
	if len(words) > 0 {
		return c.tooMany("status")
	}
	found, err := c.lookAtCluster()
	if err == nil || anyUp(found.pings) {
		if printErr := c.printStatus(found); printErr != nil {
			return printErr
		}
	}
	if err != nil {
		return client.LoadError(c.inv, loadStatus, err)
	}
	return nil
}

// lookAtCluster asks for the leader's word, and each controller meanwhile.
func (c *controlRun) lookAtCluster() (clusterStatus, error) {
	ctx, cancel := context.WithCancel(c.inv.Context)
	defer cancel()
	pings := make(chan []pinged, 1)
	go func() { pings <- pingAll(ctx, c.client.Targets) }()
	limit := c.client.Limits.Question
	limit.Total, limit.Nowhere = min(limit.Total, statusTime), min(limit.Nowhere, statusTime)
	leader, err := client.Once(ctx, c.client, limit, c.client.Status, &pb.StatusRequest{})
	if err != nil {
		leader = nil
	}
	return clusterStatus{leader: leader, pings: <-pings}, err
}

func anyUp(answers []pinged) bool {
	return slices.ContainsFunc(answers, func(p pinged) bool { return p.up() })
}

// statusRecord is the whole as JSON.
type statusRecord struct {
	AnsweredBy string       `json:"answered_by"`
	Leader     string       `json:"leader"` // "" = none
	Term       uint64       `json:"term"`
	Applied    uint64       `json:"applied_index"`
	Level      uint32       `json:"level"`
	Peers      []peerRecord `json:"controllers"` // the leader's word
	Pings      []pinged     `json:"pings"`       // each one's own word
	Leases     []leaseRow   `json:"leases"`
	Jobs       jobCounts    `json:"jobs"`
	Problems   []string     `json:"problems"`
}

type jobCounts struct {
	Waiting uint32 `json:"waiting"`
	Running uint32 `json:"running"`
	Ending  uint32 `json:"ending"`
}

type peerRecord struct {
	Name          string `json:"name"`
	Address       string `json:"address"`
	Voter         bool   `json:"voter"`
	Leader        bool   `json:"leader"`
	Reachable     bool   `json:"reachable"`
	Version       string `json:"version"`
	Level         uint32 `json:"level"`
	Applied       uint64 `json:"applied_index"`
	Lag           uint64 `json:"lag"`
	LastContactMS int64  `json:"last_contact_ms"`
	Problem       string `json:"problem,omitempty"`
}

type leaseRow struct {
	Node         string `json:"node"`
	Connected    bool   `json:"connected"`
	AgeMS        int64  `json:"age_ms"`
	LeftMS       int64  `json:"left_ms"`
	FrozenAllocs uint32 `json:"frozen_allocs"`
}

func statusRecordOf(found clusterStatus) statusRecord {
	s := found.leader
	r := statusRecord{
		AnsweredBy: s.GetAnsweredBy(), Leader: s.GetLeader(), Term: s.GetTerm(), Applied: s.GetAppliedIndex(), Level: s.GetLevel(),
		Peers: []peerRecord{}, Pings: found.pings, Leases: []leaseRow{}, Problems: append([]string{}, s.GetProblems()...),
		Jobs: jobCounts{Waiting: s.GetJobsWaiting(), Running: s.GetJobsRunning(), Ending: s.GetJobsEnding()},
	}
	for _, p := range s.GetPeers() {
		r.Peers = append(r.Peers, peerRecord{
			Name: p.GetName(), Address: p.GetAddress(), Voter: p.GetVoter(), Leader: p.GetLeader(), Reachable: p.GetReachable(), Version: p.GetVersion(),
			Level: p.GetLevel(), Applied: p.GetAppliedIndex(), Lag: behind(s, p), LastContactMS: p.GetLastContactMs(), Problem: p.GetProblem(),
		})
	}
	for _, l := range s.GetLeases() {
		r.Leases = append(r.Leases, leaseRow{Node: l.GetNode(), Connected: l.GetConnected(), AgeMS: l.GetAgeMs(), LeftMS: l.GetLeftMs(), FrozenAllocs: l.GetFrozenAllocs()})
	}
	return r
}

// behind is how many commands a controller has yet to apply.
func behind(s *pb.StatusResponse, p *pb.Peer) uint64 {
	if p.GetAppliedIndex() >= s.GetAppliedIndex() {
		return 0
	}
	return s.GetAppliedIndex() - p.GetAppliedIndex()
}

// worstLeases are the nodes to show: all of a small cluster, or of a large one
// those in the worst case first, as many as fit.
func worstLeases(leases []*pb.NodeLease, all bool) (shown []*pb.NodeLease, hidden int) {
	shown = slices.Clone(leases)
	slices.SortStableFunc(shown, func(a, b *pb.NodeLease) int {
		return cmp.Or(cmp.Compare(leaseTrouble(b), leaseTrouble(a)), cmp.Compare(a.GetLeftMs(), b.GetLeftMs()), cmp.Compare(a.GetNode(), b.GetNode()))
	})
	if all || len(shown) <= maxLeasesShown {
		return shown, 0
	}
	return shown[:maxLeasesShown], len(shown) - maxLeasesShown
}

// leaseTrouble orders leases: one with frozen parts, over, not connected, late,
// as it should be. A node renews three times in a lease.
func leaseTrouble(l *pb.NodeLease) int {
	switch {
	case l.GetFrozenAllocs() > 0:
		return 4
	case l.GetLeftMs() < 0:
		return 3
	case !l.GetConnected():
		return 2
	case l.GetAgeMs() > l.GetLeftMs():
		return 1
	}
	return 0
}

// headline says who leads, or that nobody does.
func headline(found clusterStatus) string {
	s := found.leader
	if s == nil {
		return "No controller leads, or the one that does cannot be reached. What each of those asked knows:"
	}
	return fmt.Sprintf("%s leads: term %d, applied index %d, level %d", format.Printable(s.GetLeader()), s.GetTerm(), s.GetAppliedIndex(), s.GetLevel())
}
