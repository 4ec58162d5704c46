package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// TestNoLimitIsPassed: whatever is applied, two plans that were made from the
// same state among it, what runs and waits is within every limit. The limits
// stay as they are and each kind is set in one place, so that what they mean
// can be said plainly.
func TestNoLimitIsPassed(t *testing.T) {
	seeds := prototest.Soak(4, 40)
	for seed := range int64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			walkWithLimits(t, seed)
		})
	}
}

// limitedCluster is what the walk starts from.
func limitedCluster(t *testing.T, apply func(Command) Result) {
	t.Helper()
	site := *policy.Default()
	site.Partitions[0].DefaultTimeS = 60
	site.Partitions[0].AllowRootJobs = true
	site.Accounting.EnforceLimits = true
	site.Licenses = []policy.License{{Name: "x", Count: 3}}
	limit := func(kind LimitKind, tres string, value uint64) LimitChange {
		return LimitChange{Limit: kind, TRES: tres, Value: value}
	}
	add := func(c AccountChange) AccountChange { c.Action = AddRecord; return c }
	for _, command := range []Command{
		ChangeAccounts{Changes: []AccountChange{
			add(AccountChange{Record: AccountRecord, Account: "a0", Limits: []LimitChange{limit(LimitGroupTRES, "cpu", 6)}}),
			add(AccountChange{Record: AccountRecord, Account: "a1", Parent: ptr("a0"), Limits: []LimitChange{limit(LimitGroupJobs, "", 3), limit(LimitGroupSubmit, "", 9)}}),
			add(AccountChange{Record: QOSRecord, QOS: "q0", Limits: []LimitChange{
				limit(LimitGroupTRES, "node", 4), limit(LimitMaxTRESPerUser, "gres/gpu", 2), limit(LimitMaxJobsPerAccount, "", 2),
			}}),
			add(AccountChange{Record: AssociationRecord, Account: "a0", User: "u1000", Limits: []LimitChange{limit(LimitMaxJobs, "", 2)}}),
			add(AccountChange{Record: AssociationRecord, Account: "a1", User: "u1000"}),
			add(AccountChange{Record: AssociationRecord, Account: "a1", User: "u1001", Limits: []LimitChange{limit(LimitMaxSubmit, "", 5)}}),
		}},
		ApplyPolicy{Policy: site},
	} {
		if result := apply(command); result.Refused != nil {
			t.Fatalf("%T: %v", command, result.Refused)
		}
	}
}

func walkWithLimits(t *testing.T, seed int64) {
	w, s := newWalker(seed), New()
	now, index := int64(1_000_000), uint64(0)
	apply := func(command Command) Result {
		now += 100
		index++
		entry, err := Encode(command, RequestID{}, now)
		if err != nil {
			t.Fatal(err)
		}
		result := mustApply(t, s, index, entry)
		if err := s.Check(); err != nil {
			t.Fatalf("entry %d: %v", index, err)
		}
		return result
	}
	limitedCluster(t, apply)
	counts := limitTally{}
	for range 700 {
		switch command := w.next(s.View()).(type) {
		case ChangeAccounts, ApplyPolicy, RequeueJobs: // a requeue may pass a limit of what may be submitted, as in Slurm
		case SubmitJob:
			counts.submitted(apply(w.limited(command)))
		default:
			apply(command)
		}
		counts.check(t, s)
		if w.chance(40) {
			job, node := w.activeJob(s.View())
			apply(AllocsEnded{Reports: []AllocReport{{Job: job.ID, Epoch: job.Epoch, Node: node, Cause: pb.EndCause_END_CAUSE_EXITED}}})
		}
		if !w.chance(50) {
			continue
		}
		snapshot := s.View().SchedSnapshot(now)
		first, second := twoPlans(snapshot)
		counts.placed(apply(first))
		counts.check(t, s)
		counts.placed(apply(second))
		counts.check(t, s)
	}
	counts.mustBite(t)
}

// twoPlans are two that fit the nodes together, of which neither knows what the
// other starts: each may use up the same limits.
func twoPlans(snapshot sched.Snapshot) (first, second PlaceJobs) {
	plan, _ := sched.Schedule(snapshot, sched.Memo{})
	first = PlanToCommand(&snapshot, &plan)
	started := map[sched.JobID]bool{}
	for _, start := range plan.Starts {
		started[start.Job] = true
		place.Take(snapshot.Nodes, start.Placement, false)
	}
	snapshot.Waiting = slices.DeleteFunc(snapshot.Waiting, func(j sched.Job) bool { return started[j.ID] })
	plan, _ = sched.Schedule(snapshot, sched.Memo{})
	return first, PlanToCommand(&snapshot, &plan)
}

// limited is a submission that counts for some limits.
func (w *walker) limited(c SubmitJob) SubmitJob {
	c.Spec.Account = []string{"a0", "a1"}[w.Intn(2)]
	c.Spec.QOS = []string{NormalQOS, "q0"}[w.Intn(2)]
	c.Spec.Licenses = nil
	if w.chance(30) {
		c.Spec.Licenses = []policy.License{{Name: "x", Count: 1 + uint32(w.Intn(2))}}
	}
	if w.chance(40) {
		c.Spec.GPUs = []GPURequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: 1}}
	}
	c.Spec.MemoryPerNode = 1
	c.Spec.Partitions = nil
	return c
}

// limitTally notes which limits have been reached.
type limitTally struct {
	starts, dropped, refused int
	full                     map[string]int
}

func (c *limitTally) submitted(result Result) {
	if result.Refused != nil {
		c.refused++
	}
}

func (c *limitTally) placed(result Result) {
	for _, start := range result.Starts {
		if start.Dropped == "" {
			c.starts++
		} else {
			c.dropped++
		}
	}
}

// check counts what the limits of limitedCluster bound, in the plainest way.
func (c *limitTally) check(t *testing.T, s *State) {
	t.Helper()
	v := s.View()
	used := map[string]int{}
	for job := range v.LiveJobs() {
		association, _ := v.Association(job.Association)
		if association == nil {
			continue
		}
		user, account := association.User, association.Account
		if account == "a1" {
			used["GrpSubmitJobs of a1"] += int(job.TaskCount())
		}
		if user == "u1001" && account == "a1" {
			used["MaxSubmitJobs of u1001"] += int(job.TaskCount())
		}
		if !job.HoldsNodes() {
			continue
		}
		if account == "a1" {
			used["GrpJobs of a1"]++
		}
		if user == "u1000" && account == "a0" {
			used["MaxJobs of u1000"]++
		}
		if job.Spec.QOS == "q0" {
			used["MaxJobsPerAccount of "+account]++
		}
		for _, license := range job.Spec.Licenses {
			used["license x"] += int(license.Count)
		}
		for _, alloc := range job.Run.Allocs {
			if alloc.Released {
				continue
			}
			used["GrpTRES=cpu of a0"] += len(alloc.CPUs)
			if job.Spec.QOS == "q0" {
				used["GrpTRES=node of q0"]++
				used["MaxTRESPerUser=gres/gpu of "+user] += len(alloc.Devices)
			}
		}
	}
	if c.full == nil {
		c.full = map[string]int{}
	}
	for what, limit := range map[string]int{
		"GrpTRES=cpu of a0": 6, "GrpJobs of a1": 3, "GrpSubmitJobs of a1": 9, "MaxSubmitJobs of u1001": 5, "MaxJobs of u1000": 2,
		"GrpTRES=node of q0": 4, "MaxJobsPerAccount of a0": 2, "MaxJobsPerAccount of a1": 2, "license x": 3,
		"MaxTRESPerUser=gres/gpu of u1000": 2, "MaxTRESPerUser=gres/gpu of u1001": 2,
	} {
		if used[what] > limit {
			t.Fatalf("%s is %d, and %d are used", what, limit, used[what])
		}
		if used[what] == limit {
			c.full[what]++
		}
	}
}

// mustBite: a limit that was never reached was not tested.
func (c *limitTally) mustBite(t *testing.T) {
	t.Helper()
	t.Logf("%d starts, %d dropped, %d submissions refused, reached: %v", c.starts, c.dropped, c.refused, c.full)
	if c.starts < 30 || c.refused == 0 || len(c.full) < 5 {
		t.Error("the walk goes nowhere")
	}
}

// TestLimitUses: the use that is shown for each limit is what counts for it.
func TestLimitUses(t *testing.T) {
	s, index := New(), uint64(0)
	now := int64(1_000_000)
	apply := func(command Command) Result {
		index++
		entry, err := Encode(command, RequestID{}, now)
		if err != nil {
			t.Fatal(err)
		}
		return mustApply(t, s, index, entry)
	}
	limitedCluster(t, apply)
	apply(gpuNode("n1", 4))
	for range 2 {
		submitted := apply(SubmitJob{Owner: Owner{UID: 1000, User: "u1000"}, Script: []byte("#!/bin/sh\n"), Spec: Spec{
			Account: "a1", QOS: "q0", TimeLimitS: 600, MemoryPerNode: 1 << 20, ArrayTasks: []ranges.Range{{First: 0, Last: 1, Step: 1}},
			GPUs: []GPURequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: 1}}, Licenses: []policy.License{{Name: "x", Count: 1}},
		}})
		if submitted.Refused != nil {
			t.Fatal(submitted.Refused)
		}
	}
	snapshot := s.View().SchedSnapshot(now)
	plan, _ := sched.Schedule(snapshot, sched.Memo{})
	apply(PlanToCommand(&snapshot, &plan))
	uses := s.View().LimitUses(now + 120_000)
	at := func(amounts []uint64, tres string) uint64 { return amounts[slices.Index(uses.TRES(), tres)] }
	above, _ := s.View().AssociationOf("a0", "", "")
	use := uses.Association(above, 1).GetUse()
	if use.GetJobs() != 2 || use.GetSubmitted() != 4 || use.GetWallMinutes() != 4 || at(use.GetTres(), "cpu") != 2 ||
		at(use.GetTresMinutes(), "cpu") != 4 || at(use.GetTresRunMinutes(), "gres/gpu") != 16 || at(use.GetTres(), "license/x") != 2 {
		t.Errorf("account a0, above a1: %v", use)
	}
	qos, _ := s.View().QOS("q0")
	q := uses.QOS(qos)
	if q.GetUse().GetJobs() != 2 || len(q.GetWithin()) != 2 || q.GetWithin()[0].GetAccount() != "a1" || q.GetWithin()[1].GetUser() != "u1000" ||
		at(q.GetWithin()[1].GetUse().GetTres(), "gres/gpu") != 2 {
		t.Errorf("QOS q0: %v", q)
	}
	if l := s.View().Licenses(); len(l) != 1 || l[0] != (LicenseUse{Name: "x", Total: 3, Used: 2}) {
		t.Errorf("licenses: %v", l)
	}
}
