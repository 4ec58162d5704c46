package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/test/chaos/history"
	"github.com/gleaner-hpc/gleaner/test/chaos/host"
)

// recordPulse is the time between two signs of life of a job that counts.
const recordPulse = 100 * time.Millisecond

// savesLane is that in which an operator saves and moves jobs, and processes are
// killed while it is done.
const savesLane = "saves"

// seeWhetherSaves reads in the nodes' logs whether they can save jobs, which they say
// when they start. Without CRIU there are no such jobs.
func (c *cluster) seeWhetherSaves(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for _, n := range c.nodes {
		said := ""
		err := until(limited, "node "+n.name+" to have looked for CRIU", func() bool {
			text, err := os.ReadFile(n.log)
			said = string(text)
			return err == nil && strings.Contains(said, " be saved on this node")
		})
		if _, why, not := strings.Cut(said, "jobs cannot be saved on this node"); err != nil || not {
			line, _, _ := strings.Cut(why, "\n")
			c.out.say("saves are not tried: %s%s", n.name, cmp.Or(line, fmt.Sprint(": ", err)))
			return
		}
	}
	c.saves = true
	c.out.say("jobs are saved and moved too")
}

// kinds are those of jobs that make sense here.
func (c *cluster) kinds() []kind {
	if c.saves {
		return slices.Concat(kinds, savedKinds)
	}
	return kinds
}

// images are those that lie on the nodes.
func (c *cluster) images() []string {
	var all []string
	for _, n := range c.nodes {
		found, _ := filepath.Glob(filepath.Join(n.state, "images", "images", "*"))
		all = append(all, found...)
	}
	return all
}

// imagesGone waits until no node has an image: no job needs one.
func (c *cluster) imagesGone(ctx context.Context) error {
	err := until(ctx, "images to go", func() bool { return len(c.images()) == 0 })
	if err != nil {
		err = fmt.Errorf("%w: %v", err, c.images())
	}
	return err
}

// saveFaults are what an operator does with jobs that run, and what comes in the
// middle of it.
var saveFaults = []fault{
	{"checkpoint", 4, 0, 0, false, func(w *weather, c cast) (*strike, error) { return w.save(c, false, nil) }},
	{"migrate", 8, 0, 0, false, func(w *weather, c cast) (*strike, error) { return w.save(c, true, nil) }},
	{"migrate-around", 5, 0, 0, false, func(w *weather, c cast) (*strike, error) { return w.moveAround(c) }},
	{"kill-criu", 3, 0, 0, false, func(w *weather, c cast) (*strike, error) {
		return w.hitProcess(c, isCRIU, syscall.SIGKILL, history.Kills)
	}},
	{"kill-shim-in-save", 2, 0, 0, false, func(w *weather, c cast) (*strike, error) { return w.save(c, c.pick2%2 == 0, killShim) }},
	{"kill-criu-in-save", 3, 0, 0, false, func(w *weather, c cast) (*strike, error) { return w.save(c, c.pick2%2 == 0, killCRIU) }},
	{"kill-gnoded-in-save", 3, 0, 0, false, func(w *weather, c cast) (*strike, error) { return w.save(c, c.pick2%2 == 0, killNode) }},
}

// isCRIU: the program itself, or the loader that runs it.
func isCRIU(words []string) bool { return slices.Contains(words, "swrk") }

// blow is what comes in the middle of a save, on one of the job's nodes.
type blow struct {
	harm   history.Harm
	strike func(w *weather, job *pb.Job, n *node) error
}

var (
	killShim = &blow{history.Kills, func(w *weather, job *pb.Job, n *node) error {
		alloc := fmt.Sprintf("/%d.%d", job.GetId().GetJob(), job.Epoch)
		return w.killThere(n, func(words []string) bool {
			return isShim(words) && strings.HasSuffix(words[2], alloc)
		})
	}}
	killCRIU = &blow{history.Kills, func(w *weather, _ *pb.Job, n *node) error { return w.killThere(n, isCRIU) }}
	killNode = &blow{history.Silences, func(_ *weather, _ *pb.Job, n *node) error {
		n.signal(syscall.SIGKILL)
		return nil
	}}
)

// killThere kills the processes of a kind on a node.
func (w *weather) killThere(n *node, wanted func([]string) bool) error {
	var all []error
	for _, process := range host.Processes() {
		if process.Namespace == n.host.Namespace() && wanted(process.Words) {
			all = append(all, syscall.Kill(process.PID, syscall.SIGKILL))
		}
	}
	return errors.Join(all...)
}

// save has a job that runs saved or moved, and strikes meanwhile.
func (w *weather) save(c cast, move bool, blow *blow) (*strike, error) {
	job := w.watch.pickSaved(c.pick, "saved")
	if job == nil {
		return nil, nil
	}
	nodes, err := spec.ParseHostList(job.NodeList)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(c.pick, c.pick2))
	id := job.GetId().GetJob()
	words := []string{"checkpoint", fmt.Sprint(id)}
	if move {
		words = slices.Concat([]string{"migrate", fmt.Sprint(id)}, w.target(r, nodes))
	}
	s := &strike{target: strings.Join(words[1:], " to "), nodes: nodes, harm: history.Harmless}
	if blow != nil {
		n := of(w.nodes, uint64(slices.IndexFunc(w.nodes, func(n *node) bool { return n.name == nodes[r.IntN(len(nodes))] })))
		s.harm, s.target = blow.harm, s.target+", and on "+n.name
		go func() {
			time.Sleep(time.Duration(r.Int64N(int64(1500 * time.Millisecond))))
			if err := blow.strike(w, job, n); err != nil {
				w.out.note("%s: %v", c.name, err)
			}
		}()
	}
	ctx, cancel := context.WithTimeout(context.Background(), clientLimit)
	defer cancel()
	if move {
		defer w.journal.requesting(history.Move, id)()
	}
	if out, err := w.tool(ctx, "gcontrol", append(words, "--no-wait")...); err != nil && blow == nil {
		return nil, errors.New(out) // it has ended, or is being saved already
	}
	return s, nil
}

// target is where a job is to continue: of a job on one node anywhere half of the time.
func (w *weather) target(r *rand.Rand, nodes []string) []string {
	if len(nodes) == 1 && r.IntN(2) == 0 {
		return nil
	}
	var names []string
	for _, i := range r.Perm(len(w.nodes)) {
		if name := w.nodes[i].name; len(names) < len(nodes) && !slices.Contains(nodes, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names) // too few are refused
	return []string{strings.Join(names, ",")}
}

// around is how often a job is moved in a row.
const around = 4

// moveAround has a job with GPUs moved again and again, each time as soon as it runs
// again.
func (w *weather) moveAround(c cast) (*strike, error) {
	job := w.watch.pickSaved(c.pick, "saved-gpu-")
	if job == nil {
		return nil, nil
	}
	nodes, err := spec.ParseHostList(job.NodeList)
	if err != nil {
		return nil, err
	}
	id := job.GetId().GetJob()
	ctx, cancel := context.WithTimeout(context.Background(), clientLimit)
	defer cancel()
	defer w.journal.requesting(history.Move, id)()
	moved := 0
	for range around {
		if _, err := w.tool(ctx, "gcontrol", "migrate", fmt.Sprint(id)); err != nil {
			break // it has ended, or other faults are in the way
		}
		moved++
	}
	return &strike{target: fmt.Sprintf("%d, %d times", id, moved), nodes: nodes, harm: history.Harmless}, nil
}

// pickSaved picks one of the jobs that run and may be saved, among those whose names
// begin so; nil if there is none.
func (w *watcher) pickSaved(pick uint64, prefix string) *pb.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []*pb.Job
	for _, job := range w.jobs {
		if job.State == pb.JobState_JOB_STATE_RUNNING && strings.HasPrefix(job.GetSpec().GetName(), prefix) {
			found = append(found, job)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return of(found, pick)
}
