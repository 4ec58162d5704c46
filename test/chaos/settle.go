package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/test/chaos/history"
	"github.com/gleaner-hpc/gleaner/test/chaos/host"
)

// drain lets all jobs come to their end: those that would run forever are
// cancelled, those that are held released.
func (t *test) drain(ctx context.Context) error {
	asked := map[uint32]time.Time{}
	var rest []string
	told := time.Now()
	err := until(ctx, "the queue to be empty", func() bool {
		time.Sleep(300 * time.Millisecond)
		jobs, err := t.listJobs(ctx, false)
		if err != nil {
			return false
		}
		rest = nil
		for _, j := range jobs {
			id := j.GetId().GetJob()
			rest = append(rest, fmt.Sprintf("%d (%s) %s on %s: %s %s", id, j.GetSpec().GetName(), spec.StateName(j.State), j.NodeList, j.Reason, j.ReasonDetail))
			if time.Since(asked[id]) < 5*time.Second {
				continue
			}
			asked[id] = time.Now()
			t.help(ctx, j, id)
		}
		if len(jobs) > 0 && time.Since(told) > progressPace {
			told = time.Now()
			t.out.note("not over: %s", strings.Join(rest, "; "))
		}
		return len(jobs) == 0
	})
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.Join(rest, "; "))
	}
	return err
}

// help asks what a job needs to come to its end. A job of a client that did not
// hear its number is cancelled by who finds it.
func (t *test) help(ctx context.Context, j *pb.Job, id uint32) {
	kind, _, _ := strings.Cut(j.GetSpec().GetName(), "-")
	switch {
	case kind == "cancel":
		over := t.journal.requesting(history.Cancel, id)
		_, _ = t.tool(ctx, "gcancel", fmt.Sprint(id))
		over()
	case strings.HasPrefix(j.Reason, "JobHeld"):
		_, _ = t.tool(ctx, "gcontrol", "release", fmt.Sprint(id))
	}
}

// idle waits until no node has anything in use. What comes to its end now may
// still be cleaned up.
func (t *test) idle(ctx context.Context) error {
	return until(ctx, "idle nodes", func() bool {
		nodes, err := t.listNodes(ctx)
		if err != nil {
			return false
		}
		for _, n := range nodes {
			if n.State != pb.NodeState_NODE_STATE_IDLE || len(n.LeftOvers) > 0 || len(n.AllocatedDeviceIds) > 0 || n.AllocatedMemoryBytes > 0 {
				return false
			}
		}
		return true
	})
}

// settle takes the cluster's last word, stops everything, looks at the hosts,
// and reads the records.
func (t *test) settle(ctx context.Context) *history.History {
	h := &history.History{Licenses: licenses}
	t.journal.into(h)
	t.weather.into(h)
	t.promises.into(h)
	t.watch.into(h)
	t.limited(ctx, time.Minute, "the cluster's last word", func(ctx context.Context) error {
		return until(ctx, "the lists of jobs and nodes", func() bool { return t.lastWord(ctx, h) == nil })
	})
	t.limited(ctx, calmLimit, "the history of all controllers", func(ctx context.Context) error {
		var last error
		err := until(ctx, "the same history everywhere", func() bool { last = t.readDatabases(ctx, h); return last == nil })
		return errors.Join(err, last)
	})
	t.stopAll()
	t.lookAtHosts(h)
	if err := t.readRecords(h); err != nil {
		t.failed = append(t.failed, err.Error())
	}
	return h
}

func (t *test) lastWord(ctx context.Context, h *history.History) error {
	jobs, err := t.listJobs(ctx, true)
	if err != nil {
		return err
	}
	nodes, err := t.listNodes(ctx)
	if err != nil {
		return err
	}
	h.Jobs, h.Nodes = nil, nil
	for _, j := range jobs {
		job, err := jobOf(j)
		if err != nil {
			return err
		}
		h.Jobs = append(h.Jobs, job)
	}
	for _, n := range nodes {
		h.Nodes = append(h.Nodes, nodeOf(n))
	}
	return nil
}

func jobOf(j *pb.Job) (history.Job, error) {
	nodes, err := spec.ParseHostList(j.NodeList)
	if j.NodeList == "" {
		nodes, err = nil, nil
	}
	index := -1
	if j.GetId().ArrayTask != nil {
		index = int(j.GetId().GetArrayTask())
	}
	return history.Job{
		ID: j.GetId().GetJob(), Array: j.ArrayJobId, Index: index, Waiting: spec.FormatArray(j.GetWaitingTasks().GetRanges(), 0),
		Name: j.GetSpec().GetName(), State: spec.StateName(j.State), Reason: j.Reason, Detail: j.ReasonDetail,
		Completing: j.Completing, Requeue: j.GetSpec().GetRequeue(), Epoch: j.Epoch, Restarts: j.RestartCount,
		ExitCode: int(j.ExitCode), Signal: int(j.ExitSignal), Nodes: nodes,
	}, err
}

func nodeOf(n *pb.Node) history.Node {
	state := strings.TrimPrefix(n.State.String(), "NODE_STATE_")
	if n.Drain {
		state += "+DRAIN"
	}
	if n.NotResponding {
		state += "+NOT_RESPONDING"
	}
	node := history.Node{
		Name: n.Name, State: state, Devices: len(n.GetInventory().GetDevices()), BusyDevices: n.AllocatedDeviceIds,
		AllocatedCPUs: int(n.AllocatedCpus), JobsThere: n.RunningJobs, NotResponding: n.NotResponding, DrainedBecause: n.Reason,
	}
	for _, left := range n.LeftOvers {
		node.LeftOvers = append(node.LeftOvers, left.What+": "+left.Error)
	}
	return node
}

// stopAll stops all daemons, nodes first.
func (t *test) stopAll() {
	var all sync.WaitGroup
	for _, n := range t.nodes {
		all.Go(func() { n.stop(syscall.SIGTERM) })
	}
	all.Wait()
	for _, one := range t.controllers {
		all.Go(func() { one.stop(syscall.SIGTERM) })
	}
	all.Wait()
	t.stopKeeper()
	t.keepers.Wait()
}

// lookAtHosts finds what is left of jobs, where every job is over and every
// daemon stopped.
func (t *test) lookAtHosts(h *history.History) {
	h.Left = append(h.Left, processesBelow(t.options.directory)...)
	for _, n := range t.nodes {
		entries, err := os.ReadDir(filepath.Join(n.state, "jobs"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			h.Left = append(h.Left, err.Error())
		}
		for _, entry := range entries {
			h.Left = append(h.Left, fmt.Sprintf("%s on node %s", filepath.Join(n.state, "jobs", entry.Name()), n.name))
		}
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*" + host.Group(t.options.directory) + "/n*/*")
	for _, group := range groups {
		if info, err := os.Stat(group); err == nil && info.IsDir() {
			h.Left = append(h.Left, "control group "+group)
		}
	}
}

// readRecords reads what the jobs wrote down.
func (t *test) readRecords(h *history.History) error {
	paths, err := filepath.Glob(t.path(recordFolder, "*"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		runs, err := history.ReadRecord(text)
		if err != nil {
			t.failed = append(t.failed, fmt.Sprintf("%s: %v:\n%s", path, err, text))
			continue
		}
		for _, run := range runs {
			list := run.NodeList
			if run.Moved {
				list = t.watch.seenOn(run.Job, run.Epoch)
			}
			if run.Nodes, err = spec.ParseHostList(list); list != "" && err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			h.Runs = append(h.Runs, run)
		}
	}
	return nil
}
