package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// readDatabases asks each controller for its history, once all say that they have all.
func (t *test) readDatabases(ctx context.Context, h *history.History) error {
	if err := t.databasesEqual(ctx); err != nil {
		return err
	}
	h.Databases = nil
	for _, one := range t.controllers {
		runs, err := pastOf(ctx, one)
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		h.Databases = append(h.Databases, history.Database{Controller: one.name, Runs: runs})
	}
	return nil
}

// databasesEqual: nothing waits for the databases, and all have come equally far.
func (t *test) databasesEqual(ctx context.Context) error {
	if waiting, err := t.runsWaiting(ctx); err != nil || waiting > 0 {
		return errors.Join(err, fmt.Errorf("%d runs wait for the databases", waiting))
	}
	peers, err := t.listPeers(ctx)
	if err != nil {
		return err
	}
	for _, peer := range peers {
		if peer.HistoryThrough != peers[0].HistoryThrough {
			return fmt.Errorf("the history of %s is not that of %s yet", peer.Name, peers[0].Name)
		}
	}
	return nil
}

// runsWaiting is how many runs the state keeps because a database may lack them.
func (c *cluster) runsWaiting(ctx context.Context) (waiting uint32, err error) {
	err = c.ask(ctx, func(ctx context.Context, client pb.ControllerClient) error {
		answer, err := client.Diagnose(ctx, &pb.DiagnoseRequest{})
		waiting = answer.GetRunsWaiting()
		return err
	})
	return waiting, err
}

// pastOf is the whole history of one controller.
func pastOf(ctx context.Context, one *controller) (runs []history.PastRun, err error) {
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	stream, err := one.client.ListRuns(limited, &pb.ListRunsRequest{Filter: &pb.JobFilter{AllStates: true}, Duplicates: true})
	if err != nil {
		return nil, err
	}
	notice := ""
	err = drain(stream.Recv, func(answer *pb.ListRunsResponse) {
		notice += answer.Notice
		for _, run := range answer.Runs {
			runs = append(runs, pastRunOf(run))
		}
	})
	if err == nil && notice != "" {
		err = errors.New(notice)
	}
	return runs, err
}

func pastRunOf(run *pb.PastRun) history.PastRun {
	j := run.Job
	return history.PastRun{
		Job: j.GetId().GetJob(), Restarts: j.RestartCount, Epoch: j.Epoch, Requeued: run.Requeued,
		State: spec.StateName(j.State), ExitCode: int(j.ExitCode), Signal: int(j.ExitSignal),
	}
}

// pastRuns counts the runs in the database that has most.
func pastRuns(h *history.History) (most int) {
	for i := range h.Databases {
		most = max(most, len(h.Databases[i].Runs))
	}
	return most
}

// historyKept waits until a controller's database has what it had, or another's has.
func (c *cluster) historyKept(ctx context.Context, one *controller, through uint64) error {
	return until(ctx, "the history of "+one.name+" to be complete again", func() bool {
		time.Sleep(200 * time.Millisecond)
		at, _, err := c.historyOf(ctx, one)
		return err == nil && at >= through
	})
}

// historyOf is how far the database of a controller has come, and that of the one of the
// others that is furthest.
func (c *cluster) historyOf(ctx context.Context, one *controller) (own, others uint64, err error) {
	peers, err := c.listPeers(ctx)
	for _, peer := range peers {
		if peer.Name == one.name {
			own = peer.HistoryThrough
		} else {
			others = max(others, peer.HistoryThrough)
		}
	}
	return own, others, err
}
