package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// job is one job before it is submitted.
type job struct {
	kind    string
	options []string // of gsubmit, in addition to those every job has
	record  string   // what of record it runs: job or gang
	length  time.Duration
	exit    int
	deaf    bool
	held    bool
	// After it was accepted, and so much time, something is asked about it.
	then      history.Verb
	thenAfter time.Duration

	tasks, nodes int
	noRequeue    bool
	timeLimit    time.Duration

	after    history.Wait // of a job that was accepted lately
	parent   uint32
	licenses int
	throttle int
	urgent   bool
	counts   bool // its script counts in its memory, so that it may be saved
}

// kind is one kind of job and how common it is.
type kind struct {
	name   string
	weight int
	make   func(r *rand.Rand, j *job)
}

// between picks a length of time.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

var kinds = []kind{
	{"short", 22, func(r *rand.Rand, j *job) { j.length = between(r, 300*time.Millisecond, 2*time.Second) }},
	{"long", 10, func(r *rand.Rand, j *job) { j.length = between(r, 8*time.Second, 25*time.Second) }},
	{"gpu", 16, func(r *rand.Rand, j *job) {
		j.length = between(r, 2*time.Second, 8*time.Second)
		j.options = append(j.options, fmt.Sprintf("--gpus=%d", 1+r.IntN(2)))
	}},
	{"gpu-node", 5, func(r *rand.Rand, j *job) {
		j.length = between(r, 2*time.Second, 6*time.Second)
		j.options = append(j.options, fmt.Sprintf("--gpus-per-node=%d", gpusPerNode), "-c", fmt.Sprint(cpusPerNode/2))
	}},
	{"array", 6, func(r *rand.Rand, j *job) {
		j.length, j.tasks = between(r, time.Second, 3*time.Second), 3+r.IntN(5)
		array := fmt.Sprintf("--array=0-%d", j.tasks-1)
		if r.IntN(2) == 0 {
			j.throttle = 2
			array += "%2"
		}
		j.options = append(j.options, array)
	}},
	{"chain", 14, func(r *rand.Rand, j *job) {
		j.length = between(r, 300*time.Millisecond, 2*time.Second)
		j.after = waits[r.IntN(len(waits))]
		j.options = append(j.options, "--kill-on-invalid-dep=yes")
	}},
	{"licensed", 8, func(r *rand.Rand, j *job) {
		j.length, j.licenses = between(r, time.Second, 5*time.Second), 1+r.IntN(2)
		j.options = append(j.options, fmt.Sprintf("--licenses=%s:%d", license, j.licenses))
	}},
	{"urgent", 5, func(r *rand.Rand, j *job) {
		j.length, j.urgent = between(r, time.Second, 3*time.Second), true
		j.options = append(j.options, "--qos="+urgentQOS, fmt.Sprintf("--gpus-per-node=%d", gpusPerNode))
	}},
	{"gang", 8, gang},
	{"gpu-gang", 4, func(r *rand.Rand, j *job) {
		gang(r, j)
		j.options = append(j.options, "--gpus-per-node=1")
	}},
	{"fail", 6, func(r *rand.Rand, j *job) {
		j.length, j.exit = between(r, 300*time.Millisecond, 3*time.Second), 1+r.IntN(60)
	}},
	{"limit", 1, func(r *rand.Rand, j *job) {
		j.length, j.timeLimit = time.Hour, time.Minute // limits are whole minutes
		j.options = append(j.options, "--time=1")
	}},
	{"cancel", 6, func(r *rand.Rand, j *job) {
		j.length, j.deaf = time.Hour, r.IntN(4) == 0
		j.then, j.thenAfter = history.Cancel, between(r, time.Second, 6*time.Second)
	}},
	{"requeue", 4, func(r *rand.Rand, j *job) {
		j.length = between(r, 4*time.Second, 8*time.Second)
		j.then, j.thenAfter = history.Requeue, between(r, 2*time.Second, 5*time.Second)
	}},
	{"held", 4, func(r *rand.Rand, j *job) {
		j.length, j.held = between(r, 500*time.Millisecond, 3*time.Second), true
		j.options = append(j.options, "--hold")
		j.then, j.thenAfter = release, between(r, 2*time.Second, 6*time.Second)
	}},
	{"once", 6, func(r *rand.Rand, j *job) {
		j.length, j.noRequeue = between(r, 3*time.Second, 12*time.Second), true
		j.options = append(j.options, "--no-requeue")
	}},
}

// savedKinds are jobs that are saved and moved, where nodes can.
var savedKinds = []kind{
	{"saved", 14, counted},
	{"saved-often", 6, func(r *rand.Rand, j *job) {
		counted(r, j)
		j.options = append(j.options, "--checkpoint-interval=0:0"+fmt.Sprint(3+r.IntN(4)))
	}},
	{"saved-once", 6, func(r *rand.Rand, j *job) {
		counted(r, j)
		j.noRequeue = true
		j.options = append(j.options, "--no-requeue")
	}},
	{"saved-gpu", 6, func(r *rand.Rand, j *job) {
		counted(r, j)
		j.options = append(j.options, fmt.Sprintf("--gpus=%d", 1+r.IntN(2)))
	}},
	{"saved-gang-gpu", 3, func(r *rand.Rand, j *job) {
		counted(r, j)
		j.nodes = 2
		j.options = append(j.options, "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=1")
	}},
	{"saved-gang", 6, func(r *rand.Rand, j *job) {
		counted(r, j)
		j.nodes = 2 + r.IntN(2)
		j.options = append(j.options, fmt.Sprintf("--nodes=%d", j.nodes), "--ntasks-per-node=1")
	}},
}

func counted(r *rand.Rand, j *job) {
	j.record, j.counts, j.length = "count", true, between(r, 5*time.Second, 20*time.Second).Truncate(time.Second)
}

// waits are what a chain's job waits for. Half of them for a good end.
var waits = []history.Wait{history.AfterOK, history.AfterOK, history.AfterAny, history.AfterNotOK}

// dependOn has a job wait for one that was accepted. For an array it is an array
// itself half of the time, and waits task by task.
func (j *job) dependOn(r *rand.Rand, parent history.Submission) {
	j.parent = parent.Job
	if parent.Tasks > 0 && r.IntN(2) == 0 {
		j.after, j.tasks = history.AfterCorr, parent.Tasks
		j.options = append(j.options, fmt.Sprintf("--array=0-%d", j.tasks-1))
	}
	j.options = append(j.options, fmt.Sprintf("--dependency=%s:%d", j.after, j.parent))
}

// release is the request that the journal need not know for the checker.
const release history.Verb = "release"

func gang(r *rand.Rand, j *job) {
	j.record, j.length, j.nodes = "gang", between(r, 2*time.Second, 6*time.Second), 2+r.IntN(2)
	j.options = append(j.options, fmt.Sprintf("--nodes=%d", j.nodes), "--ntasks-per-node=1")
}

// pick makes a job of some kind. Slow ones are left out where the test itself
// is shorter than they are.
func pick(r *rand.Rand, kinds []kind, slow bool) job {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	at := r.IntN(total)
	for _, k := range kinds {
		if at -= k.weight; at < 0 {
			j := job{kind: k.name, record: "job", nodes: 1}
			k.make(r, &j)
			if j.timeLimit > 0 && !slow {
				return pick(r, kinds, slow)
			}
			return j
		}
	}
	panic("weights do not add up")
}
