// Package dev runs a whole cluster on this machine in the foreground: the
// real daemons as child processes, each with its own configuration under one
// directory.
//
// Contract: when the command returns, whatever the reason, every child and every job
// it started has ended and no process, mount, namespace, cgroup or device
// file of the cluster is left; logs, configurations and the controllers'
// state stay in the directory. The nodes share one machine: they may promise
// more CPUs than there are, and where no NVIDIA driver is present their GPUs
// are stand-ins, character devices to which the kernel applies the same rules.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// clusterOptions say what cluster to run. Every count is per cluster unless its name
// says otherwise.
type clusterOptions struct {
	Directory   string // made if it is missing
	Controllers int
	Nodes       int
	GPUsPerNode int
	UnlikeGPUs  bool // they have other names, and another order, on each node
	CPUsPerNode int
	Direct      bool   // images go straight from node to node
	Binaries    string // directory of gctld, gnoded and ginit
	LogLevel    string // of the daemons
}

// Limits of one machine pretending to be a cluster.
const (
	maxNodes       = 64
	maxGPUsPerNode = 16
	maxCPUsPerNode = 1024
	// A unix socket's path has 108 bytes (unix(7)); the longest one the
	// cluster makes is nodes/nNN/jobs/NNNNNNNNNN.NNN/run/step.sock below the
	// directory.
	maxDirectoryBytes = 108 - 48
)

// errNotRoot is returned when the caller may not create containers.
var errNotRoot = errors.New("a cluster needs root for its containers and cgroups: run it with sudo")

func (o *clusterOptions) check() error {
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	absolute, err := filepath.Abs(o.Directory)
	if err != nil {
		return err
	}
	switch {
	case o.Directory == "":
		return errors.New("--dir is empty: name a directory, or leave it out")
	case strings.ContainsFunc(absolute, func(letter rune) bool { return letter == utf8.RuneError || unicode.IsControl(letter) }):
		return fmt.Errorf("directory %q holds a control character or is not UTF-8, which no configuration can name: choose another --dir", absolute)
	case len(absolute) > maxDirectoryBytes:
		return fmt.Errorf("directory %s is too long by %d bytes for the sockets below it: choose a shorter --dir", absolute, len(absolute)-maxDirectoryBytes)
	case o.Controllers != 1 && o.Controllers != 3 && o.Controllers != 5:
		return fmt.Errorf("--controllers=%d: 1, 3 or 5, so that a majority of them continues without the others", o.Controllers)
	case o.Nodes < 1 || o.Nodes > maxNodes:
		return fmt.Errorf("--nodes=%d: between 1 and %d nodes fit on one machine", o.Nodes, maxNodes)
	case o.GPUsPerNode < 0 || o.GPUsPerNode > maxGPUsPerNode:
		return fmt.Errorf("--gpus-per-node=%d: between 0 and %d", o.GPUsPerNode, maxGPUsPerNode)
	case o.CPUsPerNode < 1 || o.CPUsPerNode > maxCPUsPerNode:
		return fmt.Errorf("--cpus-per-node=%d: between 1 and %d", o.CPUsPerNode, maxCPUsPerNode)
	}
	if o.LogLevel != "" && !slices.Contains([]string{"debug", "info", "warn", "error"}, o.LogLevel) {
		return fmt.Errorf("--log-level=%s: use debug, info, warn or error", o.LogLevel)
	}
	o.Directory = absolute
	for _, name := range []string{"gctld", "gnoded", "ginit"} {
		if _, err := os.Stat(filepath.Join(o.Binaries, name)); err != nil {
			return fmt.Errorf("%w: build it first (make build)", err)
		}
	}
	return nil
}

// runCluster starts the cluster, prints "ready" with what to type next, and keeps it
// until ctx ends or a daemon dies. Progress and hints go to out.
func runCluster(ctx context.Context, options clusterOptions, out io.Writer) (err error) {
	if err := options.check(); err != nil {
		return err
	}
	if err := os.MkdirAll(options.Directory, 0o755); err != nil {
		return fmt.Errorf("%w: choose another --dir", err)
	}
	unlock, err := lock(options.Directory)
	if err != nil {
		return err
	}
	defer unlock()

	c := &cluster{options: options, out: out}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.start(ctx); err != nil {
		return err
	}
	c.greet()
	return c.watch(ctx)
}

// lock makes sure that one cluster lives in the directory.
func lock(directory string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(directory, "lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("another cluster runs in %s: stop it first, or choose another --dir", directory)
	}
	return func() { file.Close() }, nil
}

// Deadlines of the steps of a start and a stop.
const (
	controllerDeadline = 2 * time.Minute
	nodesDeadline      = 2 * time.Minute
	stopDeadline       = 10 * time.Second
	endJobsDeadline    = 30 * time.Second
)
