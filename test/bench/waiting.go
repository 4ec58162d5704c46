package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"time"
)

// waiting measures what a queue of waiting jobs costs: memory, alike and not,
// and time to list them. measures are the four rows, in that order.
func (b *bench) waiting(ctx context.Context, s side, round, jobs int, measures []measure) {
	what := fmt.Sprintf("%s waiting jobs", thousands(float64(jobs), 0))
	for i, names := range []names{alike, different} {
		b.on(ctx, s, what+", names "+string(names), measures, func(ctx context.Context, on system) error {
			l := load{jobs: jobs, clients: b.sizes.loaders, names: names}
			bytesEach, _, err := b.fill(ctx, on, l)
			if err != nil {
				return err
			}
			b.table.add(round, measures[i], s.column, bytesEach)
			if names != alike {
				return nil
			}
			for range b.sizes.lists {
				first, whole, err := list(ctx, on, jobs)
				if err != nil {
					return err
				}
				b.table.add(round, measures[2], s.column, milliseconds(first))
				b.table.add(round, measures[3], s.column, milliseconds(whole))
			}
			return nil
		})
	}
}

// million measures an array of a million tasks next to one job.
func (b *bench) million(ctx context.Context, s side, round int) {
	for _, kind := range []struct {
		tasks        int
		time, memory measure
	}{{0, oneTime, oneMemory}, {b.sizes.hugeArrayTask, millionTime, millionMemory}} {
		what := "single jobs"
		if kind.tasks > 0 {
			what = "arrays of a million tasks"
		}
		b.on(ctx, s, what, []measure{kind.time, kind.memory}, func(ctx context.Context, on system) error {
			bytesEach, took, err := b.fill(ctx, on, load{jobs: b.sizes.records, clients: 1, names: alike, tasks: kind.tasks})
			if err != nil {
				return err
			}
			b.table.add(round, kind.memory, s.column, bytesEach)
			b.table.add(round, kind.time, s.column, milliseconds(took)/float64(b.sizes.records))
			return nil
		})
	}
}

// fill submits jobs that have to wait and returns how much larger the
// controller became for each and how long the submission took.
func (b *bench) fill(ctx context.Context, on system, l load) (bytesEach float64, took time.Duration, err error) {
	if err := drain(ctx, on); err != nil {
		return 0, 0, err
	}
	before, err := settledBytes(ctx, on.controller())
	if err != nil {
		return 0, 0, err
	}
	if took, err = on.submitMany(ctx, l); err != nil {
		return 0, 0, err
	}
	after, err := settledBytes(ctx, on.controller())
	return (after - before) / float64(l.jobs), took, err
}

// settledBytes is the memory of a process once it has not changed for a
// while, or at the latest after a longer one.
func settledBytes(ctx context.Context, pid int) (float64, error) {
	const (
		every    = 250 * time.Millisecond
		quiet    = 6  // looks without a change
		atMost   = 16 // looks
		changing = 0.002
	)
	last, same := 0.0, 0
	for range atMost {
		now, err := residentBytes(pid)
		if err != nil {
			return 0, err
		}
		if same++; math.Abs(now-last) > changing*now {
			same = 0
		}
		if last = now; same >= quiet {
			break
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(every):
		}
	}
	return last, nil
}

// list runs gqueue or squeue and returns when its first line and its last were
// there. jobs lines have to come.
func list(ctx context.Context, on system, jobs int) (first, whole time.Duration, err error) {
	command := on.program(queueVerb, "-h")
	var complaint bytes.Buffer
	command.Stderr = &complaint
	pipe, err := command.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if err := on.launch(command); err != nil {
		return 0, 0, err
	}
	reader := bufio.NewReaderSize(pipe, 1<<16)
	lines := 0
	if _, err := reader.ReadSlice('\n'); err == nil {
		lines++
	}
	first = time.Since(begin)
	buffer := make([]byte, 1<<16)
	for {
		n, err := reader.Read(buffer)
		lines += bytes.Count(buffer[:n], []byte{'\n'})
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, 0, err
		}
	}
	err = wait(ctx, command)
	whole = time.Since(begin)
	if err != nil {
		return 0, 0, fmt.Errorf("list the queue: %w: %s", err, bytes.TrimSpace(complaint.Bytes()))
	}
	if lines != jobs {
		return 0, 0, fmt.Errorf("the queue has %d jobs, and %d lines were printed", jobs, lines)
	}
	return first, whole, nil
}
