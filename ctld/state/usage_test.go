package state

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// usageWorld runs jobs at random and keeps books of its own, in another way:
// each run for itself, as the integral that decay is.
type usageWorld struct {
	t         *testing.T
	random    *rand.Rand
	state     *State
	nowMS     int64
	halfLifeS uint32
	running   map[string]uint32 // node -> job
	runs      []bookedRun
	resetMS   int64 // when all was forgotten last
}

type bookedRun struct {
	user             string
	kept             bool    // it is under the QOS that forgets nothing
	rate             float64 // billing a second, its QOS's factor included
	startMS, endedMS int64   // endedMS 0 = it runs
}

const usageNodes = 4

var usageUsers = []string{"ada", "bob", "eve"}

func newUsageWorld(t *testing.T, seed uint64) *usageWorld {
	w := &usageWorld{t: t, random: rand.New(rand.NewPCG(seed, 9)), state: New(), nowMS: 1_000_000, running: map[string]uint32{}}
	w.halfLifeS = 60 + w.random.Uint32N(100_000)
	site := policy.Message(policy.Default())
	site.Priority.DecayHalfLifeS, site.Priority.UsageResetPeriod = w.halfLifeS, "WEEKLY"
	site.Partitions[0].TresBillingWeights = map[string]float64{"cpu": 1.5, "mem": 0.25}
	half := int64(500_000)
	accounts := ChangeAccounts{Changes: []AccountChange{
		{Action: AddRecord, Record: AccountRecord, Account: "physics"},
		{Action: AddRecord, Record: AccountRecord, Account: "optics", Parent: ptr("physics")},
		{Action: AddRecord, Record: AssociationRecord, Account: "optics", User: "ada"},
		{Action: AddRecord, Record: AssociationRecord, Account: "physics", User: "bob"},
		{Action: AddRecord, Record: AssociationRecord, Account: "physics", User: "eve"},
		{Action: AddRecord, Record: QOSRecord, QOS: "cheap", UsageFactorPPM: &half},
		{Action: AddRecord, Record: QOSRecord, QOS: "kept", FlagsOn: FlagNoDecay},
		{Action: ModifyRecord, Record: AccountRecord, Account: "physics", AllowedQOS: &ListEdit{Operation: SetList, Names: []string{"cheap", "kept", "normal"}}},
	}}
	w.apply(ApplyPolicy{Policy: *policy.FromMessage(site)})
	w.apply(accounts)
	for n := range usageNodes {
		w.apply(RegisterFromMessage(&pb.Register{Node: fmt.Sprintf("n%d", n), Inventory: &pb.Inventory{BootId: "b", Cpus: 8, MemoryBytes: 64 << 30}}))
	}
	return w
}

func (w *usageWorld) apply(command Command) Result {
	w.t.Helper()
	result := applyCommand(w.t, w.state, command, RequestID{}, w.nowMS)
	if result.Refused != nil {
		w.t.Fatal(result.Refused)
	}
	return result
}

// start runs a new job on a free node.
func (w *usageWorld) start(node string) {
	user, qos := usageUsers[w.random.IntN(len(usageUsers))], []string{"normal", "cheap", "kept"}[w.random.IntN(3)]
	cpus := 1 + w.random.Uint32N(8)
	gigabytes := 1 + w.random.Uint64N(16)
	command, err := SubmitFromSpec(&pb.JobSpec{
		Script: []byte("#!/bin/sh\n"), CpusPerTask: cpus, MemoryPerNodeBytes: gigabytes << 30, Qos: qos, Requeue: true,
	}, &pb.Identity{Uid: 1000, User: user})
	if err != nil {
		w.t.Fatal(err)
	}
	id := w.apply(command).JobID
	order := StartOrder{Job: id, Partition: "main", Allocs: []AllocOrder{{Node: node, MemoryBytes: gigabytes << 30, Tasks: 1}}}
	for cpu := range cpus {
		order.Allocs[0].CPUs = append(order.Allocs[0].CPUs, cpu)
	}
	if started := w.apply(PlaceJobs{Starts: []StartOrder{order}}).Starts[0]; started.Dropped != "" {
		w.t.Fatal(started.Dropped)
	}
	rate := 1.5*float64(cpus) + 0.25*float64(gigabytes)
	if qos == "cheap" {
		rate /= 2
	}
	w.running[node] = id
	w.runs = append(w.runs, bookedRun{user: user, rate: rate, startMS: w.nowMS, kept: qos == "kept"})
}

// end ends what runs on a node, in one of the ways there are.
func (w *usageWorld) end(node string) {
	job, _ := w.state.Job(w.running[node])
	target := []Target{{Job: job.ID}}
	switch w.random.IntN(3) {
	case 0:
		w.apply(CancelJobs{Targets: target, Privileged: true})
	case 1:
		w.apply(RequeueJobs{Targets: target, Privileged: true})
	}
	w.apply(AllocsEnded{Reports: []AllocReport{{Job: job.ID, Epoch: job.Epoch, Node: node, Cause: pb.EndCause_END_CAUSE_EXITED}}})
	delete(w.running, node)
	user := job.Owner().User
	for i := len(w.runs) - 1; i >= 0; i-- {
		if r := &w.runs[i]; r.endedMS == 0 && r.user == user && r.startMS == job.Run.StartMS {
			r.endedMS = w.nowMS
			break
		}
	}
	w.apply(CancelJobs{Targets: target, Privileged: true}) // what waits again stays out of the way
}

// used is what a user has used by the books: the rate, integrated over each
// run and decayed to now.
func (w *usageWorld) used(user string) float64 {
	life := float64(w.halfLifeS)
	left := func(sinceMS int64) float64 { return math.Exp2(-float64(w.nowMS-sinceMS) / 1000 / life) }
	sum := 0.0
	for _, run := range w.runs {
		if run.startMS = max(run.startMS, w.resetMS); run.user != user || run.endedMS > 0 && run.endedMS <= run.startMS {
			continue
		}
		ended := 1.0
		if run.endedMS > 0 {
			ended = left(run.endedMS)
		}
		sum += run.rate * life / math.Ln2 * (ended - left(run.startMS))
	}
	return sum
}

// reset forgets everything.
func (w *usageWorld) reset() {
	w.apply(ResetUsage{Period: policy.ResetWeekly, DueMS: w.nowMS})
	w.resetMS = w.nowMS
	w.apply(ResetUsage{Period: policy.ResetWeekly, DueMS: w.nowMS - 1}) // somebody else was too late with it
}

// kept is what the QOS that forgets nothing has been charged.
func (w *usageWorld) kept() (sum float64) {
	for _, run := range w.runs {
		until := run.endedMS
		if until == 0 {
			until = max(w.resetMS, run.startMS) // what runs is charged when it ends, and before all is forgotten
		}
		if run.kept {
			sum += run.rate * float64(until-run.startMS) / 1000
		}
	}
	return sum
}

func (w *usageWorld) check() {
	w.t.Helper()
	qos, _ := w.state.QOS("kept")
	if got, want := float64(qos.Usage.Raw)/1024, w.kept(); math.Abs(got-want) > 0.05+want*1e-6 {
		w.t.Fatalf("QOS kept has used %f billing-seconds, by the books %f", got, want)
	}
	want := map[string]float64{}
	for _, user := range usageUsers {
		want[user] = w.used(user)
	}
	want["optics"] = want["ada"]
	want["physics"] = want["ada"] + want["bob"] + want["eve"]
	want["root"] = want["physics"]
	for _, a := range w.state.View().SchedSnapshot(w.nowMS).Associations {
		name := a.Account
		if a.User != "" {
			name = a.User
		}
		// Each change rounds down once, in units of a thousandth of a second.
		if got, slack := float64(a.UsageRaw)/1024, 0.05+want[name]*1e-6; math.Abs(got-want[name]) > slack {
			w.t.Fatalf("%s has used %f billing-seconds, by the books %f", name, got, want[name])
		}
	}
}

// TestUsageByTheBooks: whatever runs, and however it ends, what associations
// have used is what the books say, at any time.
func TestUsageByTheBooks(t *testing.T) {
	for seed := range uint64(20) {
		w := newUsageWorld(t, seed)
		for range 100 {
			w.nowMS += w.random.Int64N(1 << (4 + w.random.IntN(20)))
			node := fmt.Sprintf("n%d", w.random.IntN(usageNodes))
			if w.running[node] == 0 {
				w.start(node)
			} else {
				w.end(node)
			}
			if w.random.IntN(20) == 0 {
				w.reset()
			}
			if err := w.state.Check(); err != nil {
				t.Fatal(err)
			}
			w.nowMS += w.random.Int64N(5000)
			w.check()
		}
	}
}

// TestBillingIsShown: a job says what it is billed by its partition's weights,
// while it waits by the least that it needs, and keeps what it began with.
func TestBillingIsShown(t *testing.T) {
	for name, test := range map[string]struct {
		weights        map[string]float64
		maxTRES        bool
		waiting, start int64
	}{
		"without weights CPUs count":             {nil, false, 2, 2},
		"the sum":                                {map[string]float64{"cpu": 1.5, "mem": 0.25, "gres/gpu": 2, "gres/gpu:m": 1, "license/l": 0.5}, false, 10, 10},
		"rounded down":                           {map[string]float64{"mem": 0.3}, false, 2, 2},
		"the most expensive, and what is global": {map[string]float64{"cpu": 1.5, "mem": 0.25, "gres/gpu": 2, "license/l": 0.5}, true, 5, 5},
		"nothing of what it asks for":            {map[string]float64{"gres/gpu:other": 7}, false, 0, 0},
		"nodes, of which it has one, cost":       {map[string]float64{"node": 100}, false, 100, 100},
	} {
		s := New()
		site := policy.Message(policy.Default())
		site.Partitions[0].TresBillingWeights, site.Priority.MaxTres = test.weights, test.maxTRES
		site.Licenses = []*pb.License{{Name: "l", Count: 9}}
		applyCommand(t, s, ApplyPolicy{Policy: *policy.FromMessage(site)}, RequestID{}, 1)
		applyCommand(t, s, gpuNode("n1", 4), RequestID{}, 1)
		id := submitJob(t, s, &pb.JobSpec{
			Script: []byte("#!/bin/sh\n"), CpusPerTask: 2, MemoryPerNodeBytes: 8 << 30, Licenses: "l:4",
			Gpus: []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_JOB, Count: 1, Model: "m"}},
		}, &pb.Identity{Uid: 7})
		billed := func() int64 {
			job, _ := s.View().Job(id)
			return s.View().JobMessage(job, Overlay{}, JobDetail{}).Billing
		}
		if got := billed(); got != test.waiting {
			t.Errorf("%s: it waits and is billed %d, not %d", name, got, test.waiting)
		}
		snapshot := s.View().SchedSnapshot(1)
		plan, _ := sched.Schedule(snapshot, sched.Memo{})
		applyCommand(t, s, PlanToCommand(&snapshot, &plan), RequestID{}, 1)
		site.Partitions[0].TresBillingWeights = map[string]float64{"cpu": 1000}
		applyCommand(t, s, ApplyPolicy{Policy: *policy.FromMessage(site)}, RequestID{}, 1)
		if got := billed(); got != test.start {
			t.Errorf("%s: it runs and is billed %d, not %d", name, got, test.start)
		}
	}
}
