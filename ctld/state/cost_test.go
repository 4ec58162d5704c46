package state

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// These tests hold what DESIGN.md says of cost, in bytes and allocations,
// which are the same on a slow machine.

// ownSubmit is a submission of which all differs that usually does.
func ownSubmit(n int) (SubmitJob, RequestID) {
	command, id := benchSubmit(n, true)
	command.Own.Comment = fmt.Sprintf("point %d of the scan that is going on", n)
	command.Own.WorkDirectory = fmt.Sprintf("/home/user/project/experiments/run-%d", n)
	command.Own.StandardOutput = fmt.Sprintf("/home/user/project/experiments/run-%d/out.txt", n)
	command.Own.StandardError = fmt.Sprintf("/home/user/project/experiments/run-%d/err.txt", n)
	command.Own.Command = fmt.Sprintf("/home/user/project/experiments/run-%d/job.sh", n)
	command.Own.Arguments = []string{"--seed", fmt.Sprint(n), "--steps", "100000"}
	return command, id
}

// TestWaitingJobTakesUnderOneKiB of memory, apart from scripts and environments
// that it shares, even if everything else differs, and with its remembered
// request.
func TestWaitingJobTakesUnderOneKiB(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: the race detector's own memory would count")
	}
	const jobs = 10_000
	cases := []struct {
		name   string
		submit func(n int) (SubmitJob, RequestID)
		limit  uint64
	}{
		{"alike", func(n int) (SubmitJob, RequestID) { return benchSubmit(n, false) }, 400},
		{"own name", func(n int) (SubmitJob, RequestID) { return benchSubmit(n, true) }, 512},
		{"own everything", ownSubmit, 1024},
		{"own time limit", func(n int) (SubmitJob, RequestID) {
			command, id := benchSubmit(n, true)
			command.Spec.TimeLimitS = uint32(60 + n)
			return command, id
		}, 2048}, // a spec and a shape of its own; more than most do
	}
	for _, c := range cases {
		s := roomy()
		command, _ := c.submit(0)
		applyCommand(t, s, command, RequestID{}, 1) // the script and the environment
		before := heap()
		for n := range jobs {
			command, id := c.submit(n)
			applyCommand(t, s, s.Abridge(command), id, int64(n))
		}
		each := (heap() - before) / jobs
		t.Logf("%s: %d bytes for each job", c.name, each)
		if each > c.limit {
			t.Errorf("%s: a waiting job takes %d bytes, more than %d", c.name, each, c.limit)
		}
		runtime.KeepAlive(s)
	}
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// allocated is how many bytes an action allocates.
func allocated(action func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	action()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// costs are what one record costs, in bytes allocated but for persisted, which
// is bytes written.
type costs struct {
	submit, list, pass, persisted, cancel uint64
}

// costsOf measures the only live job of a state, and cancels it.
func costsOf(t *testing.T, s *State, id uint32) costs {
	t.Helper()
	var c costs
	var answer Result
	view := s.View()
	c.list = allocated(func() {
		for job := range view.LiveJobs() {
			view.JobMessage(job, Overlay{}, JobDetail{})
		}
	})
	c.pass = allocated(func() {
		snapshot := view.SchedSnapshot(1)
		plan, _ := sched.Schedule(snapshot, sched.Memo{})
		if len(plan.Reasons) != 1 {
			t.Errorf("%d reasons for one record", len(plan.Reasons))
		}
	})
	var out bytes.Buffer
	if err := view.Persist(&out); err != nil {
		t.Fatal(err)
	}
	c.persisted = uint64(out.Len())
	entry, err := Encode(CancelJobs{Targets: []Target{{Job: id}}, UID: 1000}, RequestID{}, s.TimeMS())
	if err != nil {
		t.Fatal(err)
	}
	c.cancel = allocated(func() { answer = mustApply(t, s, s.Index()+1, entry) })
	if len(answer.Jobs) != 1 || answer.Jobs[0].Code != OK {
		t.Fatalf("cancelled: %d answers, %+v", len(answer.Jobs), answer.Jobs[0])
	}
	return c
}

// submitMeasured submits, and says what that allocated.
func submitMeasured(t *testing.T, s *State, array bool) (id uint32, bytes uint64) {
	t.Helper()
	command, _ := benchSubmit(0, false)
	if array {
		command.Spec.ArrayTasks = []ranges.Range{{First: 0, Last: 999_999, Step: 1}}
	}
	entry, err := Encode(command, RequestID{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.View()
	var result Result
	bytes = allocated(func() { result = mustApply(t, s, s.Index()+1, entry) })
	if result.Refused != nil {
		t.Fatal(result.Refused)
	}
	return result.JobID, bytes
}

func stateForArrays(t *testing.T) *State {
	t.Helper()
	s := roomy()
	policy := *s.policy
	policy.MaxArraySize = spec.MaxArrayIndex + 1
	policy.MinJobAgeS = 1
	if result := applyCommand(t, s, ApplyPolicy{Policy: policy}, RequestID{}, 1); result.Refused != nil {
		t.Fatal(result.Refused)
	}
	return s
}

// TestArrayCostsWhatAJobCosts: a million tasks are one record, in whatever is
// done to it.
func TestArrayCostsWhatAJobCosts(t *testing.T) {
	if checkAlways {
		t.Skip("needs a build without the tag invariants: the checks allocate more than what they check")
	}
	plain, array := stateForArrays(t), stateForArrays(t)
	id, submitted := submitMeasured(t, plain, false)
	one := costsOf(t, plain, id)
	one.submit = submitted
	id, submitted = submitMeasured(t, array, true)
	many := costsOf(t, array, id)
	many.submit = submitted
	compare(t, one, many)
}

// TestUsedArrayCostsWhatAJobCosts, even if 10,000 of its tasks were started and
// have ended, in a state with as many past jobs, and when these have been
// purged.
func TestUsedArrayCostsWhatAJobCosts(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: the race detector's own memory would count")
	}
	if checkAlways {
		t.Skip("needs a build without the tag invariants: the checks allocate more than what they check")
	}
	for _, purged := range []bool{false, true} {
		plain, array := stateForArrays(t), stateForArrays(t)
		var id [2]uint32
		for i, s := range []*State{plain, array} {
			id[i], _ = submitMeasured(t, s, true)
			runTasks(t, s, id[i], 10_000)
		}
		applyCommand(t, plain, CancelJobs{Targets: []Target{{Job: id[0]}}, UID: 1000}, RequestID{}, 1)
		id[0], _ = submitMeasured(t, plain, false)
		if purged {
			for _, s := range []*State{plain, array} {
				for s.Counts().Finished > 0 {
					applyCommand(t, s, PurgeJobs{BeforeMS: 1 << 40}, RequestID{}, 1<<40)
				}
			}
		}
		one, used := costsOf(t, plain, id[0]), costsOf(t, array, id[1])
		if job, _ := array.View().Job(id[1]); job.TaskCount() != 990_000 {
			t.Fatalf("%d tasks were cancelled", job.TaskCount())
		}
		compare(t, one, used)
	}
}

// runTasks starts tasks of an array and ends them, several at a time, and
// takes the node away at the end.
func runTasks(t *testing.T, s *State, array uint32, tasks int) {
	t.Helper()
	const together = 50
	applyCommand(t, s, RegisterNode{Name: "n1", Inventory: Inventory{CPUs: together, MemoryBytes: 1 << 30, BootID: "b"}}, RequestID{}, 1)
	for range tasks / together {
		var place PlaceJobs
		for cpu := range uint32(together) {
			place.Starts = append(place.Starts, StartOrder{Job: array, Partition: "main", Allocs: []AllocOrder{{Node: "n1", CPUs: []uint32{cpu}}}})
		}
		var ended AllocsEnded
		for _, start := range applyCommand(t, s, place, RequestID{}, 1).Starts {
			if start.Dropped != "" {
				t.Fatal(start.Dropped)
			}
			ended.Reports = append(ended.Reports, AllocReport{Job: start.Job, Epoch: 1, Node: "n1", Cause: pb.EndCause_END_CAUSE_EXITED})
		}
		applyCommand(t, s, ended, RequestID{}, 1)
	}
	applyCommand(t, s, UpdateNodes{Names: []string{"n1"}, Action: DownNode, Reason: "test", User: "root"}, RequestID{}, 1)
}

// compare refuses more than twice the bytes and a little.
func compare(t *testing.T, one, many costs) {
	t.Helper()
	for _, c := range []struct {
		what      string
		one, many uint64
	}{
		{"submitting", one.submit, many.submit}, {"listing", one.list, many.list}, {"a scheduling pass", one.pass, many.pass},
		{"a snapshot", one.persisted, many.persisted}, {"cancelling", one.cancel, many.cancel},
	} {
		t.Logf("%s: a job %d bytes, the array %d", c.what, c.one, c.many)
		if c.many > 2*c.one+1024 {
			t.Errorf("%s: %d bytes for the array, %d for a job", c.what, c.many, c.one)
		}
	}
}
