package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stepRows are those of steps of one job, one after the other. Bare is fork and exec of
// the same program by the same shell.
func stepRows(s sizes) []row {
	return []row{{stepTime, fmt.Sprintf("step: each of %s, one by one (bare: fork/exec)", thousands(float64(s.steps), 0)), "ms", 1}}
}

// stepAims judge the row.
func (t *table) stepAims() []aim {
	const most = 15 // milliseconds
	own, bare := t.figures(stepTime, ours), t.figures(stepTime, bareColumn)
	cost := aim{What: fmt.Sprintf("a step at most %d ms beside fork/exec", most)}
	if own != nil && bare != nil {
		cost.Figure, cost.Measured = fmt.Sprintf("%.1f ms", own.Median-bare.Median), true
		cost.Reached = own.Median-bare.Median <= most
	}
	x := t.ratio(stepTime, slurmTuned)
	return []aim{cost, {"steps of a job at least as fast as tuned Slurm's", fmt.Sprintf("%.3g x", x), x > 0 && x <= 1, x > 0}}
}

// stepPatience bounds the job.
const stepPatience = 5 * time.Minute

// stepsFile is where the job writes when it began and ended.
const stepsFile = "steps"

// steps measures steps on each side, and fork and exec.
func (b *bench) steps(ctx context.Context) {
	measures := []measure{stepTime}
	script, program := filepath.Join(b.shared, "steps.sh"), filepath.Join(b.scripts.output, "grun") // a job sees its work directory
	text := `#!/bin/bash
begin=$EPOCHREALTIME
for ((i = 0; i < $2; i++)); do $1 /bin/true || exit; done
echo "$begin $EPOCHREALTIME" >` + filepath.Join(b.scripts.output, stepsFile) + "\n"
	if err := errors.Join(writeProgram(script, strings.NewReader(text)), copyProgram(program, filepath.Join(b.options.binaries, "grun"))); err != nil {
		b.failed(ours, "steps", measures, err)
		return
	}
	for round := range b.sizes.stepRounds {
		what := fmt.Sprintf("steps, round %d of %d", round+1, b.sizes.stepRounds)
		for _, side := range b.inTurn(round) {
			by := program + " -n1"
			if side.column != ours {
				by = "srun -n1"
			}
			b.on(ctx, side, what, measures, func(ctx context.Context, on system) error {
				return b.stepsOf(ctx, round, side.column, func() error {
					_, err := run(ctx, on, submitVerb, "-Q", "--uid="+userName, "-o", "/dev/null", "-D", b.scripts.output, script, by, strconv.Itoa(b.sizes.steps))
					return err
				})
			})
		}
		err := b.stepsOf(ctx, round, bareColumn, func() error {
			command := exec.CommandContext(ctx, script, "", strconv.Itoa(b.sizes.steps))
			command.Env = plainEnvironment
			command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: b.user.UID, Gid: b.user.GID}}
			return command.Run()
		})
		if err != nil && ctx.Err() == nil {
			b.failed(bareColumn, what, measures, err)
		}
	}
}

// stepsOf starts the script and notes how long a step took by its own words.
func (b *bench) stepsOf(ctx context.Context, round int, c column, start func() error) error {
	path := filepath.Join(b.scripts.output, stepsFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := start(); err != nil {
		return err
	}
	return until(ctx, "the steps of a job", stepPatience, 20*time.Millisecond, func() (bool, error) {
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || err == nil && !strings.HasSuffix(string(text), "\n") {
			return false, nil
		}
		var begin, end float64
		if _, scanned := fmt.Sscan(string(text), &begin, &end); err != nil || scanned != nil {
			return false, errors.Join(err, scanned)
		}
		b.table.add(round, stepTime, c, (end-begin)*1000/float64(b.sizes.steps))
		return true, nil
	})
}

// copyProgram copies a program to where jobs of every user find it.
func copyProgram(to, from string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	return writeProgram(to, file)
}

func writeProgram(path string, text io.Reader) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, text)
	return errors.Join(err, file.Chmod(0o755), file.Close())
}
