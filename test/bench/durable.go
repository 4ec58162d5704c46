package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const (
	// snapshotPatience bounds the wait for a snapshot while jobs are submitted:
	// the controller looks every 10 to 20 s whether one is due.
	snapshotPatience = 90 * time.Second
	// after a snapshot the log is shortened, which may hold up requests too.
	snapshotAftermath = 2 * time.Second
)

// lasting measures what a controller with many jobs in its state does to those
// who ask: while it writes a snapshot, and when it was killed.
func (b *bench) lasting(ctx context.Context, round int) {
	what := fmt.Sprintf("a controller with %s jobs", thousands(float64(b.sizes.many), 0))
	b.on(ctx, b.sides[0], what, []measure{restartTime, snapshotStall}, func(ctx context.Context, on system) error {
		g, ok := on.(*gleaner)
		if !ok {
			return fmt.Errorf("%T is no gctld of ours", on)
		}
		if err := drain(ctx, g); err != nil {
			return err
		}
		if _, err := g.submitMany(ctx, load{jobs: b.sizes.many, clients: b.sizes.loaders, names: different}); err != nil {
			return err
		}
		stall, quiet, err := g.stallOfSnapshot(ctx)
		if err != nil {
			return err
		}
		b.say("longest request: %v around a snapshot, %v else", stall.Round(time.Microsecond), quiet.Round(time.Microsecond))
		b.table.add(round, snapshotStall, ours, milliseconds(stall))
		for range b.sizes.restarts {
			took, err := g.restart(ctx)
			if err != nil {
				return err
			}
			b.table.add(round, restartTime, ours, milliseconds(took))
		}
		return nil
	})
}

// restart kills gctld with -9, starts it again and returns how long the new
// one took from its start until it said that it is ready.
func (g *gleaner) restart(ctx context.Context) (time.Duration, error) {
	former := g.daemons[0]
	if err := syscall.Kill(former.command.Process.Pid, syscall.SIGKILL); err != nil {
		return 0, err
	}
	<-former.ended
	reader, writer, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	log, err := os.OpenFile(g.path("gctld.log"), os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, errors.Join(err, writer.Close())
	}
	defer log.Close()
	command := exec.Command(filepath.Join(g.binaries, "gctld"), "--config", g.path("gctld.toml"), "--ready-fd", "3")
	command.Stdout, command.Stderr, command.ExtraFiles = log, log, []*os.File{writer}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	begin := time.Now()
	started, err := startDaemon(command, g.launch)
	_ = writer.Close()
	if err != nil {
		return 0, err
	}
	g.daemons[0] = started
	_ = reader.SetReadDeadline(begin.Add(startPatience))
	word := make([]byte, 16)
	if _, err := reader.Read(word); err != nil {
		return 0, fmt.Errorf("gctld did not say that it is ready: %w%s", err, lastWords(g.path("gctld.log")))
	}
	took := time.Since(begin)
	return took, until(ctx, "gctld to list its jobs", startPatience, 20*time.Millisecond, func() (bool, error) {
		_, err := run(ctx, g, queueVerb, "-h", "-t", "running")
		return err == nil, ctx.Err()
	})
}

// asked is when one request was made and when it was answered.
type asked struct{ begin, end time.Time }

// stallOfSnapshot submits one job after another until a snapshot has been
// written and returns the longest that one had to wait around it, and the
// longest at other times.
func (g *gleaner) stallOfSnapshot(ctx context.Context) (around, elsewhen time.Duration, err error) {
	connection, err := dial.Dial([]string{g.target()}, "")
	if err != nil {
		return 0, 0, err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, snapshotPatience, errors.New("no snapshot was written in time"))
	defer cancel()
	var snapshot asked
	var requests []asked
	submitting, over := context.WithCancel(ctx)
	var group errgroup.Group
	group.Go(func() (err error) {
		defer over()
		snapshot, err = g.awaitSnapshot(ctx)
		time.Sleep(snapshotAftermath)
		return err
	})
	client := pb.NewControllerClient(connection)
	for i := 0; submitting.Err() == nil; i++ {
		one := asked{begin: time.Now()}
		if _, err := client.Submit(ctx, smallJob(load{names: different}, i)); err != nil {
			return 0, 0, errors.Join(err, group.Wait())
		}
		one.end = time.Now()
		requests = append(requests, one)
	}
	if err := group.Wait(); err != nil {
		return 0, 0, err
	}
	for _, one := range requests {
		took := one.end.Sub(one.begin)
		if one.end.Before(snapshot.begin) || one.begin.After(snapshot.end.Add(snapshotAftermath)) {
			elsewhen = max(elsewhen, took)
		} else {
			around = max(around, took)
		}
	}
	return around, elsewhen, nil
}

// awaitSnapshot waits for the beginning and the end of the next snapshot: raft
// writes it under a name that ends in .tmp.
func (g *gleaner) awaitSnapshot(ctx context.Context) (asked, error) {
	var seen asked
	for {
		entries, err := os.ReadDir(g.path("gctld/raft/snapshots"))
		if err != nil {
			return seen, err
		}
		writing := false
		for _, entry := range entries {
			writing = writing || strings.HasSuffix(entry.Name(), ".tmp")
		}
		now := time.Now()
		switch {
		case writing && seen.begin.IsZero():
			seen.begin = now.Add(-5 * time.Millisecond)
		case !writing && !seen.begin.IsZero():
			seen.end = now
			return seen, nil
		}
		select {
		case <-ctx.Done():
			return seen, context.Cause(ctx)
		case <-time.After(2 * time.Millisecond):
		}
	}
}
