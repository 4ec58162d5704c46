package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/memory"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Measures of saved jobs have the job's memory in their names.
func saveWhole(mib int) measure    { return measure(fmt.Sprintf("save.%d", mib)) }
func saveStood(mib int) measure    { return measure(fmt.Sprintf("save.stood.%d", mib)) }
func saveAgain(mib int) measure    { return measure(fmt.Sprintf("save.again.%d", mib)) }
func saveWritten(mib int) measure  { return measure(fmt.Sprintf("save.again.written.%d", mib)) }
func restoreRun(mib int) measure   { return measure(fmt.Sprintf("restore.%d", mib)) }
func restoreCold(mib int) measure  { return measure(fmt.Sprintf("restore.cold.%d", mib)) }
func saveRestore(mib int) measure  { return measure(fmt.Sprintf("save.restore.%d", mib)) }
func shimPeak(mib int) measure     { return measure(fmt.Sprintf("save.memory.%d", mib)) }
func freezeTime(mib int) measure   { return measure(fmt.Sprintf("freeze.%d", mib)) }
func moveTime(mib int) measure     { return measure(fmt.Sprintf("move.%d", mib)) }
func straightTime(mib int) measure { return measure(fmt.Sprintf("move.straight.%d", mib)) }
func freshTime(mib int) measure    { return measure(fmt.Sprintf("fresh.%d", mib)) }
func nodedPeak(mib int) measure    { return measure(fmt.Sprintf("move.memory.%d", mib)) }

// roomTimes is how many times its memory a measured job takes on the disk:
// CRIU's files, an image, the files of a restore, and what is written
// meanwhile.
const roomTimes = 4

// savedPatience bounds what is measured on one job: gigabytes go to the disk and
// back, on one that others may use too.
const savedPatience = 20 * time.Minute

// saving measures what it takes to stop a job, to save it, to resume it and
// to move it, all the way through supervisors and daemons.
func (b *bench) saving(ctx context.Context) {
	engine, rejected := checkpoint.Find(ctx, checkpoint.Programs(""))
	if engine == nil {
		b.unmeasured(fmt.Errorf("no CRIU works here: %v", rejected))
		return
	}
	if _, err := os.Stat(perl); err != nil {
		b.unmeasured(fmt.Errorf("the job that is saved is a program for it: %w", err))
		return
	}
	for _, mib := range b.sizes.frozenMiB {
		b.saved(ctx, engine, fmt.Sprintf("stop a job of %d MiB", mib), mib, []measure{freezeTime(mib)}, b.freezes)
	}
	for round := range b.sizes.savedRounds {
		for _, mib := range b.sizes.savedMiB {
			measures := []measure{saveWhole(mib), saveStood(mib), saveAgain(mib), saveWritten(mib), restoreRun(mib), saveRestore(mib), shimPeak(mib)}
			what := fmt.Sprintf("save a job of %d MiB, round %d of %d", mib, round+1, b.sizes.savedRounds)
			b.saved(ctx, engine, what, mib, measures, func(ctx context.Context, bed *savingBed, mib int) error {
				return b.savedRound(ctx, bed, mib, round)
			})
		}
	}
	for _, mib := range b.sizes.savedMiB {
		b.moved(ctx, mib, moveTime(mib))
		b.moved(ctx, mib, straightTime(mib), "--direct")
	}
}

func (b *bench) unmeasured(err error) {
	for _, r := range savingRows(b.sizes) {
		b.table.missing(r.measure, ours, err.Error())
	}
}

// saved has something measured with a directory of its own, if there is room.
func (b *bench) saved(ctx context.Context, engine *checkpoint.Engine, what string, mib int, measures []measure, f func(context.Context, *savingBed, int) error) {
	if ctx.Err() != nil {
		return
	}
	b.say("%s", what)
	if err := b.roomFor(mib); err != nil {
		b.failed(ours, what, measures, err)
		return
	}
	b.started++
	limited, cancel := context.WithTimeoutCause(ctx, savedPatience, fmt.Errorf("not done in %v", savedPatience))
	defer cancel()
	bed, err := b.newSavingBed(engine, filepath.Join(b.directory, fmt.Sprint(b.started)))
	if err == nil {
		err = f(limited, bed, mib)
		if ended := errors.Join(bed.end(), removeTree(bed.directory)); ended != nil {
			b.failures = append(b.failures, fmt.Errorf("clean up after %s: %w", what, ended))
		}
	}
	if err != nil && ctx.Err() == nil {
		b.failed(ours, what, measures, err)
	}
}

// roomFor refuses to fill the disk or the memory of the machine.
func (b *bench) roomFor(mib int) error {
	var disk unix.Statfs_t
	total, err := memory.Total()
	if err := errors.Join(unix.Statfs(b.directory, &disk), err); err != nil {
		return err
	}
	needed := int64(mib) << 20
	if free := int64(disk.Bavail) * disk.Bsize; free < roomTimes*needed+1<<30 {
		return fmt.Errorf("%s has %d MiB free, and a job of %d MiB needs %d times as much and 1 GiB", b.directory, free>>20, mib, roomTimes)
	}
	if total := int64(total); total < 3*needed {
		return fmt.Errorf("the machine has %d MiB of memory, and a job of %d MiB is to take a third at most", total>>20, mib)
	}
	return nil
}

// freezes stops a job that keeps writing to its memory, and lets it continue,
// again and again: from the order until every process is stopped.
func (b *bench) freezes(ctx context.Context, bed *savingBed, mib int) error {
	job, err := bed.start(ctx, mib, busy)
	if err != nil {
		return err
	}
	for range b.sizes.freezes {
		begin := time.Now()
		if err := job.suspend(ctx, true); err != nil {
			return err
		}
		b.table.add(0, freezeTime(mib), ours, milliseconds(time.Since(begin)))
		if err := job.suspend(ctx, false); err != nil {
			return err
		}
		if err := job.runsSince(ctx, time.Now()); err != nil {
			return err
		}
	}
	f := b.table.figures(freezeTime(mib), ours)
	b.say("stopped %d times: p50 %.1f ms, p99 %.1f ms, longest %.1f ms", f.Runs, f.Median, quantile(f.Values, 0.99), f.Max)
	return nil
}

// savedRound saves a job that continues, saves it again as a move does, restores
// it, and does the same with CRIU alone; in every other round that comes first.
func (b *bench) savedRound(ctx context.Context, bed *savingBed, mib, round int) error {
	fresh, err := takeMemory(mib)
	if err != nil {
		return err
	}
	b.table.add(round, freshTime(mib), bareColumn, milliseconds(fresh))
	halves := []func(context.Context, *savingBed, int, int) (time.Duration, error){b.oursSaved, b.bareSaved}
	took := [2]time.Duration{}
	for i := range halves {
		which := (i + round) % len(halves)
		unix.Sync() // what others have left to write is not this one's
		if took[which], err = halves[which](ctx, bed, mib, round); err != nil {
			return err
		}
	}
	b.table.add(round, saveRestore(mib), ours, milliseconds(took[0]))
	b.table.add(round, saveRestore(mib), bareColumn, milliseconds(took[1]))
	return nil
}

// takeMemory takes memory that no process has, writes to each page of it, and gives it
// back: every restore has to do that, and machines differ much in how long it takes.
func takeMemory(mib int) (time.Duration, error) {
	begin := time.Now()
	memory, err := unix.Mmap(-1, 0, mib<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0, fmt.Errorf("take %d MiB of memory: %w", mib, err)
	}
	for at := 0; at < len(memory); at += os.Getpagesize() {
		memory[at] = 1
	}
	took := time.Since(begin)
	return took, unix.Munmap(memory)
}

func (b *bench) oursSaved(ctx context.Context, bed *savingBed, mib, round int) (took time.Duration, err error) {
	job, err := bed.start(ctx, mib, idle)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if _, err := job.save(ctx, 1, pb.SaveThen_SAVE_THEN_RESUME); err != nil {
		return 0, err
	}
	took = time.Since(begin)
	b.table.add(round, saveWhole(mib), ours, milliseconds(took))
	stood, err := job.longestPause(ctx, begin)
	if err != nil {
		return 0, err
	}
	b.table.add(round, saveStood(mib), ours, milliseconds(stood))
	begin = time.Now()
	again, err := job.save(ctx, 2, pb.SaveThen_SAVE_THEN_FREEZE)
	if err != nil {
		return 0, err
	}
	b.table.add(round, saveAgain(mib), ours, milliseconds(time.Since(begin)))
	b.table.add(round, saveWritten(mib), ours, 100*float64(again.WrittenBytes)/float64(again.Image.Bytes))
	saver, err := job.peak()
	if err != nil {
		return 0, err
	}
	if err := job.end(ctx); err != nil {
		return 0, err
	}
	begin = time.Now()
	next, err := bed.restore(ctx, job, again.Image)
	if err != nil {
		return 0, err
	}
	b.table.add(round, restoreRun(mib), ours, milliseconds(time.Since(begin)))
	took += time.Since(begin)
	restorer, err := next.peak()
	b.table.add(round, shimPeak(mib), ours, float64(max(saver, restorer))/(1<<20))
	return took, errors.Join(err, next.end(ctx))
}
