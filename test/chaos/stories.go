package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// stories are told in place of the weather: each brings about, step by step,
// what one protection is there for. With the protection broken the checker must
// find what it is there to find; that is what proves the checker.
var stories = map[string]func(*test, context.Context) error{
	"fencing":     fencing,
	"epochs":      epochs,
	"request-ids": requestIDs,
	"history":     lostHistory,
}

// storyLimit bounds each step of a story. A cluster whose lease was just made
// shorter still honours longer ones for a while.
const storyLimit = 2 * time.Minute

func storyNames() []string { return slices.Sorted(maps.Keys(stories)) }

// tell tells a story, and checks as after bad weather.
func (t *test) tell(ctx context.Context, name string) (int, error) {
	story := stories[name]
	if story == nil {
		return 2, fmt.Errorf("there is no story %q: take one of %s", name, strings.Join(storyNames(), ", "))
	}
	watching, stopWatching := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { t.watch.run(watching) })
	err := story(t, ctx)
	t.healAll()
	if err == nil {
		t.limited(ctx, storyLimit, "a healthy cluster", t.healthy)
		t.limited(ctx, storyLimit, "all jobs to end", t.drain)
		t.limited(ctx, storyLimit, "all nodes to be idle", t.idle)
	}
	stopWatching()
	watch.Wait()
	if err != nil || ctx.Err() != nil {
		return 1, err
	}
	h := t.settle(ctx)
	return t.report(h, history.Check(h)), nil
}

// step waits for one step of a story.
func (t *test) step(ctx context.Context, what string, done func(context.Context) bool) error {
	limited, cancel := context.WithTimeout(ctx, storyLimit)
	defer cancel()
	err := until(limited, what, func() bool { return done(limited) })
	t.out.say("story: %s: %v", what, map[bool]string{true: "yes", false: "no"}[err == nil])
	return err
}

// told notes a fault that a story makes.
func (t *test) told(kind string, harm history.Harm, nodes ...string) {
	t.out.say("story: %s %s", kind, strings.Join(nodes, " "))
	t.weather.begin(history.Fault{Kind: kind, Nodes: nodes, Everywhere: len(nodes) == 0, Harm: harm, From: now()})
}

// submitOne submits a job that runs so long and returns its number.
func (t *test) submitOne(ctx context.Context, partition string, length time.Duration, options ...string) (uint32, error) {
	j := job{kind: "story", record: "job", nodes: 1, length: length, options: options}
	r := rand.New(rand.NewPCG(t.options.seed, 99))
	s, _ := t.submitAs(ctx, r, users[0], partition, 1, j)
	if s.Job == 0 {
		return 0, fmt.Errorf("the story's job was not accepted: see %s", t.path(logFolder, "chaos.log"))
	}
	return s.Job, nil
}

// recorded reports whether a run of a job has begun to write its record, and where.
func (t *test) recorded(job, epoch uint32) (node string, ok bool) {
	paths, _ := filepath.Glob(t.path(recordFolder, fmt.Sprintf("%d.%d.*", job, epoch)))
	if len(paths) == 0 {
		return "", false
	}
	return strings.Split(filepath.Base(paths[0]), ".")[2], true
}

func (t *test) nodeCalled(name string) *node {
	return t.nodes[slices.IndexFunc(t.nodes, func(n *node) bool { return n.name == name })]
}

// runs waits until a run of the job runs and returns its node.
func (t *test) runs(ctx context.Context, job, epoch uint32) (n *node, err error) {
	err = t.step(ctx, fmt.Sprintf("run %d of job %d has begun", epoch, job), func(context.Context) bool {
		where, ok := t.recorded(job, epoch)
		if ok {
			n = t.nodeCalled(where)
		}
		return ok
	})
	return n, err
}

// fencing: a node is cut off for longer than its lease; its job is started
// elsewhere meanwhile. Only that it is frozen keeps it from running twice.
func fencing(t *test, ctx context.Context) error {
	job, err := t.submitOne(ctx, fenced, time.Hour)
	if err != nil {
		return err
	}
	n, err := t.runs(ctx, job, 1)
	if err != nil {
		return err
	}
	w := &weather{t.cluster, t.watch}
	t.told("cut-node", history.Silences, n.name)
	cut, err := w.cutOff(n.host, time.Hour)
	if err != nil {
		return err
	}
	if _, err := t.runs(ctx, job, 2); err != nil {
		return err
	}
	time.Sleep(3 * time.Second)
	if err := cut.heal(ctx); err != nil {
		return err
	}
	if err := t.step(ctx, n.name+" is back", func(ctx context.Context) bool { return t.healthy(ctx) == nil }); err != nil {
		return err
	}
	defer t.journal.requesting(history.Cancel, job)()
	_, err = t.tool(ctx, "gcancel", fmt.Sprint(job))
	return err
}

// epochs: the end of a run reaches the controllers only after the job was
// declared over there and waits for its next run on the same node. Only its
// epoch tells that it is not the end of that next run.
func epochs(t *test, ctx context.Context) error {
	n := t.nodes[0]
	job, err := t.submitOne(ctx, runOn, 4*time.Second, "--nodelist="+n.name)
	if err != nil {
		return err
	}
	if _, err := t.runs(ctx, job, 1); err != nil {
		return err
	}
	// The job ends, but its supervisor cannot write that down, and the node
	// is not heard of.
	t.told("slow-node-disk", history.Kills, n.name)
	stalled, stop := context.WithTimeout(ctx, storyLimit)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- n.host.Disk.Stall(stalled, storyLimit) }()
	time.Sleep(4 * time.Second)
	t.told("stop-gnoded", history.Silences, n.name)
	n.signal(syscall.SIGSTOP)
	if err := t.step(ctx, n.name+" can be declared off", func(ctx context.Context) bool {
		_, err := t.tool(ctx, "gcontrol", "update", "node", n.name, "state=fenced", "reason=it is said to be off")
		return err == nil
	}); err != nil {
		return err
	}
	n.signal(syscall.SIGCONT)
	if err := t.step(ctx, "the next run is on its way to "+n.name, func(ctx context.Context) bool {
		_, _ = t.tool(ctx, "gcontrol", "update", "node", n.name, "state=resume")
		return t.jobIs(ctx, job, func(j *pb.Job) bool { return j.Epoch == 2 && j.State == pb.JobState_JOB_STATE_RUNNING })
	}); err != nil {
		return err
	}
	stop()
	return <-ended
}

// jobIs asks how a job is.
func (t *test) jobIs(ctx context.Context, number uint32, so func(*pb.Job) bool) bool {
	jobs, err := t.listJobs(ctx, true)
	return err == nil && slices.ContainsFunc(jobs, func(j *pb.Job) bool { return j.GetId().GetJob() == number && so(j) })
}

// lostHistory: a controller loses its database when nothing but the databases has what
// is over. It copies it from another one.
func lostHistory(t *test, ctx context.Context) error {
	job, err := t.submitOne(ctx, runOn, time.Second)
	if err != nil {
		return err
	}
	one, own := t.controllers[0], uint64(0)
	err = t.step(ctx, fmt.Sprintf("job %d is in all databases, and nowhere else", job), func(ctx context.Context) bool {
		jobs, err := t.listJobs(ctx, false)
		if err != nil || len(jobs) > 0 || t.databasesEqual(ctx) != nil {
			return false
		}
		own, _, err = t.historyOf(ctx, one)
		return err == nil && own > 0
	})
	if err != nil {
		return err
	}
	t.told("lose-history "+one.name, history.Harmless)
	if err := one.removeHistory(); err != nil {
		return err
	}
	gone := false
	return t.step(ctx, "it says that it has all again", func(ctx context.Context) bool {
		_, err := os.Stat(one.historyPath())
		gone = gone || err == nil
		through, _, asked := t.historyOf(ctx, one)
		return gone && asked == nil && through >= own
	})
}

// requestIDs: a submission is carried out, its answer is lost on the way back,
// and the leader dies. The client asks again; only its request id tells that it
// has what it asks for.
func requestIDs(t *test, ctx context.Context) error {
	if len(t.controllers) < 3 {
		return fmt.Errorf("this story needs three controllers")
	}
	var leader, other *controller
	if err := t.step(ctx, "there is a leader", func(context.Context) bool { leader = t.watch.leading(); return leader != nil }); err != nil {
		return err
	}
	for _, one := range t.controllers {
		if one != leader {
			other = one
		}
	}
	// A first request has the two talk to each other.
	if _, err := t.tool(ctx, "gcontrol", "--controller=unix://"+other.socket, "show", "config"); err != nil {
		return err
	}
	t.told("one-way "+leader.name+" to "+other.name, history.Harmless)
	if err := leader.host.Lose(other.host.IP(), 100); err != nil {
		return err
	}
	s := &history.Submission{Name: "story-1", Kind: "story", Nodes: 1, Requeue: true}
	t.journal.submitting(s)
	var client sync.WaitGroup
	client.Go(func() { t.submitThrough(ctx, other, s) })
	defer client.Wait()
	if err := t.step(ctx, "the leader has the job", func(ctx context.Context) bool { return t.holds(ctx, leader, s.Name) }); err != nil {
		return err
	}
	// With its host: the kernel would still deliver what a killed process sent.
	t.told("power-off "+leader.name, history.Harmless)
	leader.want(false)
	if err := errors.Join(leader.host.PowerOff(), leader.host.Mend(), leader.host.PowerOn(time.Minute)); err != nil {
		return err
	}
	leader.want(true)
	client.Wait()
	if s.Job == 0 {
		return fmt.Errorf("the client got no answer: %s", filepath.Join(t.path(logFolder), "chaos.log"))
	}
	return nil
}

// submitThrough submits a short job as root would for a user, by one controller.
func (t *test) submitThrough(ctx context.Context, one *controller, s *history.Submission) {
	out, err := t.tool(ctx, "gsubmit", "--controller=unix://"+one.socket, "--uid="+users[0].name, "--parsable", "-J", s.Name,
		"-D", "/tmp", "-o", os.DevNull, "--mem=24M", "--wrap="+t.script(job{record: "job", length: time.Second}))
	// The number comes last: before it, gsubmit may say that it still tries.
	number, parseErr := strconv.ParseUint(out[strings.LastIndexByte(out, '\n')+1:], 10, 32)
	if err != nil || parseErr != nil {
		t.journal.failed(s)
		t.out.note("submission %s: %v: %s", s.Name, err, out)
		return
	}
	t.journal.submitted(s, uint32(number))
}

// holds asks one controller by itself whether it has a job of that name.
func (t *test) holds(ctx context.Context, one *controller, name string) bool {
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	stream, err := one.client.ListJobs(limited, &pb.ListJobsRequest{Filter: &pb.JobFilter{AllStates: true, Names: []string{name}}})
	if err != nil {
		return false
	}
	found := false
	err = drain(stream.Recv, func(answer *pb.ListJobsResponse) { found = found || len(answer.Jobs) > 0 })
	return err == nil && found
}
