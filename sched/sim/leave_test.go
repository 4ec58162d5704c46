package sim

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/sim/trace"
)

var lending = Lending{NoticeS: 60, ParkS: 5, ContinueS: 4, PackAfterS: 10, SaveS: 20, RestoreS: 15, KillS: 30}

// labs is a cluster of six nodes with two GPUs, of which two labs own two each.
func labs() Cluster {
	cluster := Cluster{
		Processors: 12,
		Request: func(job *trace.Job) place.Request {
			nodes := (job.Processors + 1) / 2
			return place.Request{MinNodes: nodes, MaxNodes: nodes, GPUsPerNode: min(job.Processors, 2), MemoryPerNode: 1 << 20}
		},
		Owners: []Owner{{Account: "a", Nodes: []place.NodeIndex{0, 1}, Processors: 4}, {Account: "b", Nodes: []place.NodeIndex{2, 3}, Processors: 4, Below: []string{"b2"}}},
	}
	for i := range 6 {
		n := place.Node{Name: string(rune('m' + i)), Available: true, CPUs: place.FirstCPUs(8), FreeCPUs: place.FirstCPUs(8), MemoryBytes: 1 << 30, FreeMemory: 1 << 30, TmpOpen: true}
		for d := range uint32(2) {
			n.Devices = append(n.Devices, place.Device{Index: d, Model: "gpu", Healthy: true, Parent: place.WholeDevice, Shares: 1, FreeShares: 1})
		}
		cluster.Nodes = append(cluster.Nodes, n)
	}
	return cluster
}

// labJobs are jobs of two labs and of an account without nodes.
func labJobs(seed uint64, accounts ...string) []trace.Job {
	random := rand.New(rand.NewPCG(seed, 9))
	var jobs []trace.Job
	nowS := int64(1000)
	for i := range 80 {
		nowS += random.Int64N(120)
		run := 1 + random.Int64N(900)
		jobs = append(jobs, trace.Job{
			ID: uint32(i), SubmitS: nowS, RunS: run, EstimateS: run + random.Int64N(600), Processors: []uint32{1, 1, 2, 4}[random.IntN(4)],
			Account: accounts[random.IntN(len(accounts))],
		})
	}
	return jobs
}

// play is Run, with a look at the cluster after each thing that happened.
func play(t *testing.T, jobs []trace.Job, cluster Cluster, policy Policy) *Result {
	t.Helper()
	r := newReplay(jobs, cluster, policy)
	for r.ended < len(jobs) {
		r.advance()
		if err := r.passes(); err != nil {
			t.Fatal(err)
		}
		r.noteUse()
		r.check(t)
	}
	for i := range r.snapshot.Nodes {
		if n, idle := r.snapshot.Nodes[i], place.Idle(cluster.Nodes[i], false); !reflect.DeepEqual(n, idle) {
			t.Fatalf("all jobs have ended, and node %d is %+v", i, n)
		}
	}
	return &r.result
}

// check fails if a device is given twice or to nobody, or if a guest has something on a
// reclaimed node after its notice.
func (r *replay) check(t *testing.T) {
	t.Helper()
	held := map[[2]int32]int{}
	used := uint32(0)
	for _, job := range r.running {
		of := r.runs[job]
		if !of.stopped && !of.ending {
			used += r.result.Jobs[job].Processors
		}
		for _, alloc := range of.holds().Allocs {
			for _, grant := range alloc.Devices {
				held[[2]int32{int32(alloc.Node), int32(grant.Device)}]++
			}
			late := of.askedS != 0 && r.nowS > of.askedS+r.policy.Lending.NoticeS
			if guest := slices.Contains(r.guestNodes(job, r.owners.ofNode[alloc.Node]), alloc.Node); guest && late && r.isReclaimed(alloc.Node) && len(alloc.Devices) > 0 && r.owners.ofNode[alloc.Node] != 0 {
				t.Fatalf("at %d job %d still has devices on node %d, which was reclaimed", r.nowS, job, alloc.Node)
			}
		}
	}
	if used != r.use.Used {
		t.Fatalf("at %d %d processors are in use, and %d are counted", r.nowS, used, r.use.Used)
	}
	for n := range r.snapshot.Nodes {
		for d := range r.snapshot.Nodes[n].Devices {
			if free := int(r.snapshot.Nodes[n].Devices[d].FreeShares); free+held[[2]int32{int32(n), int32(d)}] != 1 {
				t.Fatalf("at %d device %d of node %d: %d free, %d held", r.nowS, d, n, free, held[[2]int32{int32(n), int32(d)}])
			}
		}
	}
}

// reclaims take each owned node back now and then.
func reclaims(seed uint64) []Reclaim {
	random := rand.New(rand.NewPCG(seed, 4))
	var all []Reclaim
	for range 8 {
		fromS := 1000 + random.Int64N(5000)
		all = append(all, Reclaim{place.NodeIndex(random.IntN(4)), fromS, fromS + 1 + random.Int64N(2000)})
	}
	return all
}

// TestLending: however guests leave, every job runs as long as it should, no device is
// given twice, guests leave in time, and only those that are killed lose work.
func TestLending(t *testing.T) {
	sum := map[Guests]Lent{}
	for seed := range uint64(4) {
		cluster, jobs := labs(), labJobs(seed, "a", "b", "b2", "c")
		cluster.Reclaims = reclaims(seed)
		for _, guests := range []Guests{GuestsPark, GuestsPack, GuestsKill} {
			policy := Policy{Backfill: sched.BackfillPolicy{On: seed%2 == 0, PartJobs: 1}, Lending: lending}
			policy.Lending.Guests = guests
			result := play(t, jobs, cluster, policy)
			for i := range result.Jobs {
				o := &result.Jobs[i]
				if o.StartS < o.SubmitS || o.EndS < o.StartS+o.RunS+o.LostS || o.LostS > 0 && (guests != GuestsKill || o.Stops == 0) || o.Stops > 0 && !o.Guest {
					t.Fatalf("seed %d, guests %d: job %+v", seed, guests, o)
				}
			}
			lent := result.Lent
			if lent.InTime != lent.Leaves || guests != GuestsKill && lent.Kills > 0 || guests == GuestsKill && lent.Parks > 0 {
				t.Errorf("seed %d, guests %d: %+v", seed, guests, lent)
			}
			all := sum[guests]
			all.Parks, all.Packs, all.Kills, all.LostPS = all.Parks+lent.Parks, all.Packs+lent.Packs, all.Kills+lent.Kills, all.LostPS+lent.LostPS
			sum[guests] = all
			if again, err := Run(jobs, cluster, policy, nil); err != nil || !reflect.DeepEqual(again, result) {
				t.Fatalf("seed %d, guests %d: the same again gives another result (%v)", seed, guests, err)
			}
		}
	}
	t.Logf("%+v", sum)
	if park, pack, kill := sum[GuestsPark], sum[GuestsPack], sum[GuestsKill]; park.Parks < 10 || park.Packs == 0 || pack.Packs <= park.Packs || kill.Kills < 10 || kill.LostPS == 0 {
		t.Errorf("hardly anybody leaves: %+v", sum)
	}
}

// TestIsolated: without guests every job is on nodes of its own account, and whoever
// lends does not wait longer for it, but for parking guests.
func TestIsolated(t *testing.T) {
	worst := 0.0
	for seed := range uint64(4) {
		cluster, jobs := labs(), labJobs(seed, "a", "b")
		own, cut := Owned(jobs, &cluster)
		if cut != 0 || len(own) != len(jobs) {
			t.Fatalf("%d of %d are cut", cut, len(jobs))
		}
		policy := Policy{Backfill: sched.BackfillPolicy{On: true, PartJobs: 1}, Lending: lending}
		policy.Lending.Guests = GuestsNone
		alone := play(t, jobs, cluster, policy)
		policy.Lending.Guests = GuestsPack
		lent := play(t, jobs, cluster, policy)
		for _, change := range Changes(alone, lent, ByAccount) {
			worst = max(worst, change.After.Mean-change.Before.Mean)
		}
		for i := range alone.Jobs {
			if alone.Jobs[i].Guest {
				t.Fatalf("seed %d: job %d is a guest", seed, i)
			}
		}
	}
	if worst > 10 { // seconds: guests are parked first
		t.Errorf("an owner waits %.0f s longer on average because it lends", worst)
	}
	cluster := labs()
	if own, cut := Owned(labJobs(1, "a", "c"), &cluster); cut == 0 || slices.ContainsFunc(own, func(job trace.Job) bool { return job.Account == "c" }) {
		t.Errorf("%d jobs are cut, and c owns nothing", cut)
	}
}

// TestDepartures: each departure takes another node, arrivals give them back in turn,
// and what is left at the end of the day is given back.
func TestDepartures(t *testing.T) {
	cluster := labs()
	moves := []trace.Move{{AtS: 0, Arrives: true}, {AtS: 100}, {AtS: 200}, {AtS: 300, Arrives: true}, {AtS: 400}}
	got := Departures(moves, &cluster, 1000, 1000+dayS+1)
	nodes := map[place.NodeIndex]bool{}
	for _, r := range got {
		nodes[r.Node] = true
		if r.Node > 3 || r.ToS <= r.FromS {
			t.Errorf("reclaim %+v", r)
		}
	}
	if len(got) != 6 || len(nodes) < 3 || got[0].FromS != 1100 || got[0].ToS != 1300 || got[1].ToS != 1401 || got[3].FromS != 1100+dayS {
		t.Errorf("%+v", got)
	}
	if Departures(nil, &cluster, 0, 1) != nil {
		t.Error("nothing moves, and something is reclaimed")
	}
}
