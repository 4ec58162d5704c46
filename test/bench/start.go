package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stampPatience bounds the wait for a script's first instruction.
const stampPatience = time.Minute

// timeToStamp calls start and returns the milliseconds from there to the
// script's first instruction.
func (b *bench) timeToStamp(ctx context.Context, start func() error) (float64, error) {
	path := filepath.Join(b.scripts.output, stampFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	begin := time.Now()
	if err := start(); err != nil {
		return 0, err
	}
	var stamp float64
	err := until(ctx, "the script's first instruction", stampPatience, time.Millisecond, func() (bool, error) {
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || err == nil && !strings.HasSuffix(string(text), "\n") {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		stamp, err = strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		return err == nil, err
	})
	const microseconds = 1e6
	return (stamp - float64(begin.UnixMicro())/microseconds) * 1000, err
}

// pause waits for a random part of a second, so that no scheduler's rhythm is
// met at the same beat again and again.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(time.Second)):
	}
}

// starts measures from the start of the submit command to the script's first
// instruction, on an idle node.
func (b *bench) starts(ctx context.Context, on system, c column, round int) error {
	for range b.sizes.starts {
		took, err := b.submitted(ctx, on)
		if err != nil {
			return err
		}
		b.table.add(round, startBare, c, took)
		if c != ours {
			continue
		}
		b.table.add(round, startFork, c, took)
		// Beside it, so that both meet the machine in the same mood.
		if took, err = b.submitted(ctx, on, "--network=private"); err != nil {
			return err
		}
		b.table.add(round, startPrivate, c, took)
	}
	return nil
}

func startRows() []row {
	return []row{
		{startBare, "start: first instruction (bare: libcontainer)", "ms", 1},
		{startFork, "start: first instruction (bare: fork/exec)", "ms", 1},
		{startPrivate, "start: with a network of the job's own", "ms", 1},
	}
}

// startsAlone measures nothing else.
func (b *bench) startsAlone(ctx context.Context) {
	for round := range b.sizes.rounds {
		for _, side := range b.inTurn(round) {
			b.on(ctx, side, fmt.Sprintf("starts, round %d of %d", round+1, b.sizes.rounds), []measure{startBare, startFork, startPrivate},
				func(ctx context.Context, on system) error { return b.starts(ctx, on, side.column, round) })
		}
		b.bareStarts(ctx, round)
	}
}

// submitted measures one start of a job submitted with these options, and waits for its end.
func (b *bench) submitted(ctx context.Context, on system, options ...string) (float64, error) {
	pause(ctx)
	took, err := b.timeToStamp(ctx, func() error {
		arguments := append([]string{"-Q", "--uid=" + userName, "-o", "/dev/null", "-D", b.scripts.output}, options...)
		_, err := run(ctx, on, submitVerb, append(arguments, b.scripts.stamp)...)
		return err
	})
	if err != nil {
		return 0, err
	}
	return took, untilEmpty(ctx, on, 50*time.Millisecond)
}

// privateAim is about what a network of the job's own costs at the start.
func (t *table) privateAim() aim {
	const most = 15 // milliseconds
	a := aim{What: fmt.Sprintf("a job with a network of its own starts at most %d ms later", most)}
	if later := t.pairedDifferences(startPrivate, startBare, ours); len(later) > 0 {
		typical := median(later)
		a.Figure, a.Measured, a.Reached = fmt.Sprintf("%.1f ms", typical), true, typical <= most
	}
	return a
}

// bareStarts measures the same script without any scheduler: by libcontainer
// with the settings of Gleaner's jobs, and by fork and exec.
func (b *bench) bareStarts(ctx context.Context, round int) {
	if ctx.Err() != nil {
		return
	}
	what := fmt.Sprintf("bare starts, round %d of %d", round+1, b.sizes.rounds)
	b.say("%s", what)
	if err := b.libcontainerStarts(ctx, round); err != nil && ctx.Err() == nil {
		b.failed(bareColumn, what, []measure{startBare}, err)
	}
	for range b.sizes.starts {
		took, err := b.timeToStamp(ctx, func() error { return b.forkExec() })
		if err != nil {
			if ctx.Err() == nil {
				b.failed(bareColumn, what, []measure{startFork}, err)
			}
			return
		}
		b.table.add(round, startFork, bareColumn, took)
	}
}

func (b *bench) libcontainerStarts(ctx context.Context, round int) (err error) {
	b.started++
	state := filepath.Join(b.directory, fmt.Sprint(b.started))
	runner, err := startBareRunner(b.scripts.stamp, b.scripts.output, state, b.parent)
	if err != nil {
		return err
	}
	kill := context.AfterFunc(ctx, func() { _ = runner.command.Process.Kill() })
	defer func() {
		kill()
		err = errors.Join(err, runner.stop(), removeTree(state))
	}()
	for range b.sizes.starts {
		took, err := b.timeToStamp(ctx, runner.order)
		if err != nil {
			return err
		}
		b.table.add(round, startBare, bareColumn, took)
		if err := runner.over(); err != nil {
			return err
		}
	}
	return nil
}

// forkExec runs the script as its user, and waits for it.
func (b *bench) forkExec() error {
	script := exec.Command(b.scripts.stamp)
	script.Dir = b.scripts.output
	script.Env = plainEnvironment
	script.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: b.user.UID, Gid: b.user.GID}}
	return script.Run()
}
