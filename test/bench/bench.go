package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/container"
)

// blockPatience bounds what is measured on one system between its start and
// its end.
const blockPatience = 6 * time.Minute

// bench is one run.
type bench struct {
	options   options
	sizes     sizes
	machine   machine
	table     *table
	directory string         // everything is below it
	shared    string         // seen by every system at the same path
	parent    string         // control group of all jobs
	user      container.User // of the jobs that start
	scripts   scripts
	sides     []side
	slurm     *slurmKit // nil = there is none
	begun     time.Time
	started   int // systems so far; each has a directory of its own
	failures  []error
}

// side is a system that can be started.
type side struct {
	column column
	start  func(ctx context.Context, directory string) (system, error)
}

// scripts are what jobs run.
type scripts struct {
	success string // does nothing
	stamp   string // writes the time into stampFile first
	output  string // work directory of the jobs, in which stampFile is made
}

const stampFile = "stamp"

func newBench(o options, s sizes) (_ *bench, err error) {
	for _, name := range []string{"gctld", "gnoded", "ginit", "gsubmit", "gqueue", "ginfo", "gcontrol", "grun", "gacctmgr", "greclaim", "grelease", "gacct"} {
		if _, err := os.Stat(filepath.Join(o.binaries, name)); err != nil {
			return nil, fmt.Errorf("%w: make build makes it", err)
		}
	}
	b := &bench{options: o, sizes: s, table: newTable(s), parent: fmt.Sprintf("/gleaner-bench-%d", os.Getpid()), begun: time.Now()}
	switch o.only {
	case failoverOnly:
		b.table.rows = severalRows(s)
	case imagesOnly:
		b.table.rows = imageRows(s)
	case savingOnly:
		b.table.rows = savingRows(s)
	case reclaimOnly:
		b.table.rows = reclaimRows(s)
	case cycleOnly:
		b.table.rows = cycleRows(s)
	case stepsOnly:
		b.table.rows = stepRows(s)
	case startsOnly:
		b.table.rows = startRows()
	case networkOnly:
		b.table.rows = networkRows()
	case historyOnly:
		b.table.rows = historyRows(s)
	}
	if b.user, err = jobUser(); err != nil {
		return nil, err
	}
	if b.directory, err = os.MkdirTemp(o.disk, "gleaner-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.remove())
		}
	}()
	b.machine = describe(o, b.directory, s)
	b.shared = filepath.Join(b.directory, "shared")
	if err := b.writeScripts(); err != nil {
		return nil, err
	}
	b.sides = append(b.sides, side{ours, func(ctx context.Context, directory string) (system, error) {
		return ignoreNil(startGleaner(ctx, o.binaries, directory, b.parent, site{policy: gleanerPolicy, memory: "1G"}))
	}})
	kit, err := findSlurm(o.slurm, b.shared)
	if err != nil {
		b.say("without Slurm: %v", err)
		for _, r := range b.table.rows {
			b.table.missing(r.measure, slurmPlain, err.Error())
		}
		return b, nil
	}
	for _, choice := range []struct {
		column   column
		settings string
	}{{slurmPlain, ""}, {slurmTuned, "SchedulerParameters=" + highThroughput + "\n"}} {
		b.sides = append(b.sides, side{choice.column, func(ctx context.Context, directory string) (system, error) {
			return ignoreNil(startSlurm(ctx, kit, b.user, directory, b.shared, choice.settings))
		}})
	}
	b.slurm = kit
	b.machine.Slurm = versionOf("chroot", kit.packages, "/usr/sbin/slurmctld-wlm", "-V")
	return b, nil
}

// ignoreNil keeps a failed start from becoming a system that is not nil.
func ignoreNil[S system](s S, err error) (system, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (b *bench) writeScripts() error {
	b.scripts = scripts{
		success: filepath.Join(b.shared, "success.sh"), stamp: filepath.Join(b.shared, "stamp.sh"),
		output: filepath.Join(b.shared, "output"),
	}
	if err := os.MkdirAll(b.scripts.output, 0o755); err != nil {
		return err
	}
	for _, path := range []string{b.directory, b.shared} {
		if err := os.Chmod(path, 0o755); err != nil { // whatever the umask: jobs are not root's
			return err
		}
	}
	if err := os.Chown(b.scripts.output, int(b.user.UID), int(b.user.GID)); err != nil {
		return err
	}
	for path, text := range map[string]string{
		b.scripts.success: "#!/bin/sh\nexec /bin/true\n",
		b.scripts.stamp:   "#!/bin/bash\necho $EPOCHREALTIME >" + filepath.Join(b.scripts.output, stampFile) + "\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			return err
		}
		if err := os.Chmod(path, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// say tells how far it is.
func (b *bench) say(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "bench %4.0fs  %s\n", time.Since(b.begun).Seconds(), fmt.Sprintf(format, arguments...))
}

// on starts a side afresh, has something measured on it and ends it. What
// fails is noted against the measures.
func (b *bench) on(ctx context.Context, s side, what string, measures []measure, f func(context.Context, system) error) {
	if ctx.Err() != nil {
		return
	}
	b.say("%s: %s", what, s.column)
	b.started++
	directory := filepath.Join(b.directory, fmt.Sprint(b.started))
	limited, cancel := context.WithTimeoutCause(ctx, blockPatience, fmt.Errorf("not done in %v", blockPatience))
	defer cancel()
	var ended error
	running, err := s.start(limited, directory)
	if err != nil {
		err = fmt.Errorf("%w: %w", errStart, err)
	} else {
		err = f(limited, running)
		if cause := context.Cause(limited); cause != nil {
			err = errors.Join(err, cause)
		}
		ended = running.stop()
	}
	if ended = errors.Join(ended, removeTree(directory)); ended != nil {
		b.failures = append(b.failures, fmt.Errorf("clean up after %s: %w", s.column, ended))
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	b.failed(s.column, what, measures, err)
	if errors.Is(err, errStart) && s.column != ours {
		b.sides = slices.DeleteFunc(b.sides, func(other side) bool { return other.column == s.column })
	}
}

// errStart is of a system that does not start, and is not tried again.
var errStart = errors.New("start")

// failed notes why measures have no figure. Only what is Gleaner's own fails
// the run.
func (b *bench) failed(c column, what string, measures []measure, err error) {
	b.say("%s: %s: %v", what, c, err)
	for _, m := range measures {
		b.table.missing(m, c, fmt.Sprintf("%s: %v", what, err))
	}
	if c == ours || c == bareColumn {
		b.failures = append(b.failures, fmt.Errorf("%s: %s: %w", what, c, err))
	}
}

// inTurn are the sides, beginning with another one in each round.
func (b *bench) inTurn(round int) []side {
	first := round % len(b.sides)
	return append(append([]side{}, b.sides[first:]...), b.sides[:first]...)
}

// remove deletes the directory. A delete that crosses a mount cannot be
// undone: it looks first, and stays on one file system.
func (b *bench) remove() error { return removeTree(b.directory) }

func removeTree(directory string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if strings.Contains(string(mounts), " "+directory+"/") || strings.Contains(string(mounts), " "+directory+" ") {
		return fmt.Errorf("something is mounted below %s; it is kept: unmount it and remove the directory", directory)
	}
	output, err := exec.Command("rm", "-rf", "--one-file-system", directory).CombinedOutput()
	if err != nil {
		return fmt.Errorf("remove %s: %w: %s", directory, err, output)
	}
	return nil
}
