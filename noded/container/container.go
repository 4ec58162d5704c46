// Package container runs process 1 of one allocation of a job in its own
// container, made with runc's libcontainer.
//
// What it promises. Inside, the job is its own user with all groups and no
// capability, under no_new_privs and a seccomp filter. It sees the host's own
// root through an overlay, so that what it writes there is its own and
// vanishes; a private /tmp, /var/tmp, /run and /dev/shm; its home and work
// directory; and only those devices of the host that Spec names and a few that
// every program needs. It does not see the host's processes. See DESIGN.md.
//
// All mounts are made in the mount namespace of the caller, which must not be
// that of the host: they vanish with the caller. Start must be called from
// the main goroutine, which this package locks to the main thread, because
// the container is killed when the thread that started it ends.
//
// What it needs: root, Linux 5.19 or later, seccomp compiled in (-tags
// seccomp), and that the program's main starts with this package imported,
// because libcontainer executes the program again under the word "init".
package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/runc/libcontainer"
	_ "github.com/opencontainers/runc/libcontainer/nsenter" // joins namespaces before Go's runtime starts
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

var (
	// ErrNoSeccomp is returned by CompileFilter when the program was built
	// without libseccomp.
	ErrNoSeccomp = errors.New("this program was built without seccomp: build it with -tags seccomp and libseccomp-dev installed")
	// ErrUser is returned, wrapped, by Start when the user cannot be mapped.
	ErrUser = errors.New("this user cannot have a container")
	// ErrDeleted is returned, wrapped, by Start when a directory or a file of
	// the job was deleted after it was opened.
	ErrDeleted = errors.New("was deleted while the job was starting")
	// ErrMemory is returned, wrapped, by Start when the memory that the control
	// group may have is too little for process 1.
	ErrMemory = errors.New("the job's memory is too little to start a process in")
	// ErrNoFilter is returned, wrapped, by Start when process 1 does not have
	// the system-call filter.
	ErrNoFilter = errors.New("the container has no system-call filter")
)

func init() {
	runtime.LockOSThread()
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case "init":
		runtime.GOMAXPROCS(1)
		libcontainer.Init() // does not return
	case filterWord:
		wearFilter(os.Args[2:]) // does not return
	case probeWord:
		openEach(os.Args[2:]) // does not return
	}
}

// readyTimeout bounds the time process 1 may take to answer.
const readyTimeout = 30 * time.Second

// initPath is where process 1's program is seen inside.
const initPath = pid1.Dir + "/ginit"

// User is the person a container runs as. Numbers mean the same inside and
// outside.
type User struct {
	UID, GID uint32
	Groups   []uint32 // supplementary
	Name     string
	Group    string // name of GID
	Home     string
	Shell    string
}

// Identity is the person as an owner of files.
func (u User) Identity() userpath.Identity {
	return userpath.Identity{UID: u.UID, GID: u.GID, Groups: u.Groups}
}

// File is an opened file or directory and the path inside at which to bind it.
type File struct {
	File   *os.File // may be opened with O_PATH
	Target string
}

// Spec says what to run. The caller keeps its Files and closes them after
// Start.
type Spec struct {
	ID             string // letters, digits and "."
	Dir            string // the allocation's directory
	LayerDir       string // in it, mounted there: a Disk; upper, work, tmp and var-tmp are made in it
	User           User
	HostName       string
	PrivateNetwork bool
	Peers          []netip.Prefix // of a private network: addresses of others that are saved and restored at the same instant
	Network        Network        // of a private network: its way out; nil = it has none
	Resolver       []byte         // /etc/resolv.conf inside; nil = the host's
	ResetsOutside  bool           // a save does not mind connections that lead out of a private network
	RunDir         string         // host directory bound at /run/gleaner, owned by the user
	InitPath       string         // host path of ginit
	WorkDir        *userpath.Directory
	Root           *Root                 // in place of the host's; nil = the host's
	Dirs           []*userpath.Directory // other directories of the user's, so that what is written there is kept
	Files          []File
	Binds          []string // host directories bound at the same path
	SlurmDir       string   // likewise, with the commands under Slurm's names; "" = the job is not to have those
	CommandsDir    string   // of the host, visible to the job: its commands are linked in commandsDir; "" = they are there
	Hosts          []Host   // in /etc/hosts inside, in addition to the host's
	HideDirs       []string // directories of the host that look empty inside
	Devices        []Device
	OtherDevices   []string // the node's other device files: a restore checks that they cannot be opened
	Cgroup         *cgroups.Cgroup
	Keep           []string // paths the caller still uses; the staging area must not hide them
	Nested         bool     // containers may be made inside: see nested.go
	Filter         []byte   // what CompileFilter(Nests()) answered
	Orders         *pid1.Config
	Log            *slog.Logger // nil = nothing is told
}

func (s *Spec) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

// Network links the network namespace of a container with the node, see package network.
type Network interface {
	// Join is called when process 1 is there and nothing of the job has run.
	Join(pid int, restored bool) error
}

// Container is a running container.
type Container struct {
	library *libcontainer.Container // nil when it was restored
	process processOne
	stage   *stage
	spec    Spec              // without its Files
	sources map[string]source // of a restore, by the paths inside
}

// processOne is process 1 of a container that was started, or restored.
type processOne interface {
	Pid() (int, error)
	Signal(os.Signal) error
	Wait() (*os.ProcessState, error)
}

// kept is the part of a Spec that stays true after Start.
func (s *Spec) kept() Spec {
	kept := *s
	kept.Files, kept.WorkDir, kept.Filter, kept.Orders = nil, nil, nil, nil
	return kept
}

// Start makes the container and returns when its process 1 answers. After a
// failure, only what Dir holds is left of it.
func Start(ctx context.Context, spec *Spec) (_ *Container, err error) {
	if _, err := pid1.DecodeFilter(spec.Filter); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoFilter, err)
	}
	stage, err := newStage(spec)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stage.close())
		}
	}()
	config, err := newConfig(spec, stage)
	if err != nil {
		return nil, err
	}
	library, err := libcontainer.Create(stage.states(), spec.ID, config)
	if err != nil {
		return nil, fmt.Errorf("create container: %w", err)
	}
	c := &Container{library: library, stage: stage, spec: spec.kept()}
	if err := c.run(ctx, spec); err != nil {
		if c.lacksMemory(err) {
			err = fmt.Errorf("%w: %w", ErrMemory, err)
		}
		_ = library.Signal(unix.SIGKILL)
		if c.process != nil {
			_, _ = c.process.Wait()
		}
		return nil, errors.Join(err, library.Destroy())
	}
	return c, nil
}

// run starts process 1 and waits until it answers.
func (c *Container) run(ctx context.Context, spec *Spec) error {
	ready, theirs, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer ready.Close()
	orders, ours, err := os.Pipe()
	if err != nil {
		theirs.Close()
		return fmt.Errorf("make a pipe: %w", err)
	}
	process := newProcess(spec, initPath)
	process.ExtraFiles = []*os.File{theirs, orders} // pid1.ReadyFd, pid1.OrdersFd
	err = c.library.Run(process)
	theirs.Close()
	orders.Close()
	if err != nil {
		ours.Close()
		return fmt.Errorf("start container: %w", err)
	}
	c.process = process
	if spec.Network != nil {
		if err := spec.Network.Join(c.Pid(), false); err != nil {
			ours.Close()
			return err
		}
	}
	go func() {
		// If process 1 ends before it has read them, it says why, or its end says
		// enough.
		_ = pid1.WriteOrders(ours, spec.Filter, spec.Orders)
		ours.Close()
	}()
	stop := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = ready.SetReadDeadline(time.Now().Add(readyTimeout))
	said, err := io.ReadAll(io.LimitReader(ready, 4096))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(said) == 1 && said[0] == pid1.ReadyByte {
		return checkFilter(c.Pid())
	}
	if len(said) > 0 {
		return errors.New(string(said))
	}
	return fmt.Errorf("process 1 ended before it was ready: %w", errors.Join(err, io.ErrUnexpectedEOF))
}

// newProcess is process 1 of the container.
func newProcess(spec *Spec, argv ...string) *libcontainer.Process {
	process := &libcontainer.Process{
		Init: true, Args: argv, Cwd: "/",
		Env: []string{"PATH=/usr/bin:/bin", "HOME=/"},
		UID: int(spec.User.UID), GID: int(spec.User.GID),
	}
	for _, group := range spec.User.Groups {
		process.AdditionalGroups = append(process.AdditionalGroups, int(group))
	}
	return process
}

// checkFilter makes sure that a process has a filter, whatever it says itself.
func checkFilter(pid int) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil // it has ended already, and all that it started with it
	}
	if want := fmt.Sprintf("\nSeccomp:\t%d\n", unix.SECCOMP_MODE_FILTER); !strings.Contains(string(status), want) {
		return ErrNoFilter
	}
	return nil
}

// Pid answers process 1's id as the caller sees it.
func (c *Container) Pid() int {
	pid, err := c.process.Pid()
	if err != nil {
		return 0
	}
	return pid
}

// Wait waits for the end of process 1, and so of every process inside, and
// answers its exit code, or the signal that ended it.
func (c *Container) Wait() (code int, signal unix.Signal, err error) {
	state, err := c.process.Wait()
	if state == nil {
		return 0, 0, fmt.Errorf("wait for process 1: %w", err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 0, status.Signal(), nil
	}
	return state.ExitCode(), 0, nil
}

// Signal signals process 1; SIGKILL ends everything inside. It also thaws what is
// frozen, which then no longer runs.
func (c *Container) Signal(signal unix.Signal) error {
	if signal == unix.SIGKILL {
		// It kills all of them: between the thaw and the death of process 1, the others
		// would run for a moment.
		if group, err := cgroup.Open(c.spec.Cgroup.Path); err == nil {
			_ = group.Signal(unix.SIGKILL)
		}
	}
	if c.library == nil {
		return c.signalRestored(signal)
	}
	err := c.library.Signal(signal)
	if signal == unix.SIGKILL && errors.Is(err, libcontainer.ErrNotRunning) {
		return nil // the first signal was enough
	}
	return err
}

// Destroy removes the container after Wait: its control group, its state and
// its mounts. It fails when something is still mounted.
func (c *Container) Destroy() error {
	if c.library == nil {
		return errors.Join(c.removeGroups(), c.stage.close())
	}
	return errors.Join(c.library.Destroy(), c.stage.close())
}
