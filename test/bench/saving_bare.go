package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bareSaved has CRIU alone dump a program like the job, without a container,
// writes as many bytes once more as it wrote and syncs them, and has CRIU
// restore the program. It returns how long the three took.
func (b *bench) bareSaved(ctx context.Context, bed *savingBed, mib, round int) (_ time.Duration, err error) {
	script, ticks, err := b.writeHolder(fmt.Sprintf("bare-%d", b.started), mib, idle)
	if err != nil {
		return 0, err
	}
	files := filepath.Join(bed.directory, "bare")
	if err := os.Mkdir(files, 0o700); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, removeTree(files)) }()
	program := exec.CommandContext(ctx, script)
	program.Dir = "/"
	program.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	begin := time.Now()
	if err := program.Start(); err != nil {
		return 0, err
	}
	pid := program.Process.Pid
	gone := func() { _ = program.Process.Kill(); _ = program.Wait() }
	if _, err := untilRuns(ctx, ticks, begin); err != nil {
		gone()
		return 0, err
	}
	criu := bed.settings.Checkpoint.Engine.Path
	begin = time.Now()
	said, err := exec.CommandContext(ctx, criu, "dump", "-t", strconv.Itoa(pid), "-D", files, "--leave-running").CombinedOutput()
	dumped := time.Since(begin)
	gone()
	if err != nil {
		return 0, fmt.Errorf("criu dump: %w: %s", err, said)
	}
	written, err := writeAgain(files, filepath.Join(bed.directory, "written"))
	if err != nil {
		return 0, err
	}
	restored, err := bareRestore(ctx, criu, files, pid, ticks)
	if err != nil {
		return 0, err
	}
	if err := forgetFiles(files); err != nil {
		return 0, err
	}
	cold, err := bareRestore(ctx, criu, files, pid, ticks)
	if err != nil {
		return 0, err
	}
	b.table.add(round, restoreCold(mib), bareColumn, milliseconds(cold))
	b.table.add(round, saveWhole(mib), bareColumn, milliseconds(dumped+written))
	b.table.add(round, saveStood(mib), bareColumn, milliseconds(dumped))
	b.table.add(round, restoreRun(mib), bareColumn, milliseconds(restored))
	return dumped + written + restored, nil
}

// bareRestore measures until the program runs, and ends it.
func bareRestore(ctx context.Context, criu, files string, pid int, ticks string) (time.Duration, error) {
	command := exec.CommandContext(ctx, criu, "restore", "-D", files)
	begin := time.Now()
	if err := command.Start(); err != nil {
		return 0, err
	}
	_, err := untilRuns(ctx, ticks, begin)
	took := time.Since(begin)
	if err != nil {
		_ = command.Process.Kill()
	}
	if ended := unix.Kill(pid, unix.SIGKILL); err == nil && ended != nil {
		err = fmt.Errorf("end the restored program: %w", ended)
	}
	_ = command.Wait() // it ends as the program does: killed
	if err != nil {
		return 0, fmt.Errorf("criu restore: %w", err)
	}
	return took, nil
}

// forgetFiles writes a directory's files to the disk and takes them out of the page cache,
// as they are wherever a job resumes that was saved elsewhere, or some time ago.
func forgetFiles(directory string) error {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		file, err := os.Open(filepath.Join(directory, entry.Name()))
		if err != nil {
			return err
		}
		err = errors.Join(file.Sync(), unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED))
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("forget %s: %w", file.Name(), err)
		}
	}
	return nil
}

// writeAgain writes the bytes of a directory's files into one file and syncs
// it and returns how long that took, without reading them.
func writeAgain(files, name string) (took time.Duration, err error) {
	entries, err := os.ReadDir(files)
	if err != nil {
		return 0, err
	}
	out, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close(), os.Remove(name)) }()
	piece := make([]byte, 1<<20)
	timed := func(f func() error) error {
		begin := time.Now()
		defer func() { took += time.Since(begin) }()
		return f()
	}
	for _, entry := range entries {
		in, err := os.Open(filepath.Join(files, entry.Name()))
		if err != nil {
			return 0, err
		}
		for n := 1; n > 0; {
			n, _ = in.Read(piece) // its end, or a file that is short: the same here
			if err = timed(func() error { _, err := out.Write(piece[:n]); return err }); err != nil {
				break
			}
		}
		if err := errors.Join(err, in.Close()); err != nil {
			return 0, err
		}
	}
	return took, timed(out.Sync)
}
