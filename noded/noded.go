// Package noded is the node daemon: it tells the controllers what this node
// has, starts a supervisor for each allocation of a job that they order, and tells
// them how it ended.
//
// What it promises:
//   - It dials out; nothing listens. It tries for ever to replace a lost connection,
//     with a capped pause, at the next controller in turn.
//   - Jobs do not depend on it. A supervisor (noded/shim) outlives the daemon;
//     a new daemon finds all allocations on disk and reports their ends as if
//     nothing had happened.
//   - Everything may arrive twice. An allocation that is known is not started again,
//     an end is reported until it is acknowledged, and only then forgotten.
//   - What cannot be cleaned up is reported, and tried again for ever.
//   - One daemon for a state directory.
//
// What it needs: root, control groups, a supervisor's program (this same
// executable, as "gnoded shim DIR") and ginit. Of the controllers it knows
// only proto.
//
// An allocation's life is the table in noded/job; agent.go holds the allocations, allocation.go
// tends one and calls.go speaks to its supervisor, session.go is the connection,
// orders.go what arrives on it, and settings.go what a supervisor is told.
package noded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/shim/client"
)

var (
	// ErrNotRoot is returned when the caller is not root.
	ErrNotRoot = errors.New("gnoded must be root, to make containers and control groups: start it with sudo or from systemd")
	// ErrLocked is returned when another daemon uses the state directory.
	ErrLocked = errors.New("another gnoded uses this state directory: stop it, or give each node a state_dir of its own")
)

// Run is the node daemon. It returns nil when ctx ends; jobs continue. Where ctx ends
// because the machine is switched off, they leave it first, as far as there is time.
// executable is the program that can be started as "executable shim DIR".
func Run(ctx context.Context, config Config, executable string, log *slog.Logger) error {
	if os.Geteuid() != 0 {
		return ErrNotRoot
	}
	log = log.With("node", config.Name)
	unlock, err := lockState(config.StateDir)
	if err != nil {
		return err
	}
	defer unlock()
	// What is mounted is known by its path without links.
	if config.StateDir, err = filepath.EvalSymlinks(config.StateDir); err != nil {
		return fmt.Errorf("find state_dir: %w", err)
	}
	if err := checkExecutable(config.Init); err != nil {
		return err
	}
	if err := client.PrepareStateDir(config.StateDir); err != nil {
		return err
	}
	source, err := openGPUs(config, log)
	if err != nil {
		return err
	}
	defer source.Close()
	machine, err := lookAround(config, source)
	if err != nil {
		return err
	}
	if err := machine.prepareGroups(); err != nil {
		return err
	}
	if machine.pretending() {
		log.Warn("this node offers more CPUs than exist, and does not pin jobs to CPUs: for trying things out only",
			"cpus", machine.cpus(), "real_cpus", len(machine.realCPUs))
	}
	machine.parks = readParkTimes(config.StateDir, log)
	machine.power = readGuestPower(source, config.StateDir, log)
	machine.use = newGPUUse(source, config.CgroupParent, log)
	saving := machine.findEngine(ctx, log)
	machine.wayOut = tellNetwork(&config.Network, log)
	agent := newAgent(machine, &shims{config: config, executable: executable, checkpoint: saving, network: machine.wayOut, nodeCPUs: machine.cpus(), tmp: machine.tmp}, uuid.NewString(), log)
	agent.checkRoom()
	agent.adoptOwned(config.StateDir)
	agent.adopt(ctx)
	agent.socket = config.Socket
	agent.serveInOrder(ctx)
	return nil
}

// lockPatience is how long lockState waits for a lock that is held.
const lockPatience = time.Second

// lockState makes the state directory and takes its lock, which the kernel
// gives back when the process ends, however it ends.
func lockState(directory string) (unlock func(), err error) {
	// Containers bind directories below it; nobody else has to list it.
	if err := os.MkdirAll(directory, 0o711); err != nil {
		return nil, fmt.Errorf("make state_dir: %w", err)
	}
	name := filepath.Join(directory, "noded.lock")
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	// A daemon that was killed while it started a supervisor leaves the lock to
	// that child until it executes its program: a moment, unless there is a
	// daemon.
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	for deadline := time.Now().Add(lockPatience); errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(deadline); {
		time.Sleep(lockPatience / 20)
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", directory, ErrLocked)
		}
		return nil, &os.PathError{Op: "flock", Path: name, Err: err}
	}
	return func() { unix.Close(fd) }, nil
}

func checkExecutable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("ginit, process 1 of containers: %w: set ginit in the configuration to where it is installed", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("ginit, process 1 of containers: %s is not a program: set ginit in the configuration to where it is installed", path)
	}
	return nil
}
