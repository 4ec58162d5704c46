package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/checkpoint-restore/go-criu/v8/rpc"
)

// Tree is the control group that holds all processes of a container and
// nothing else. The methods are those of a freezer: see cgroup.Group.
type Tree interface {
	// Procs answers the ids of all processes, as the caller sees them.
	Procs() ([]int, error)
	// Freeze freezes all of them and returns when they are frozen.
	Freeze(ctx context.Context) error
	// Frozen says whether all are frozen.
	Frozen() (bool, error)
	// FreezerDirectory is the directory of the freezer's files in the kernel.
	FreezerDirectory() (string, error)
}

// DumpOptions say what is dumped, and where to.
type DumpOptions struct {
	// Images is the directory for CRIU's files, which exists and is empty.
	Images string
	// Log is the directory, outside the image, for CRIU's log, which can be
	// read whatever happens: dump.log.
	Log  string
	Pid  int  // of the container's process 1, as the caller sees it
	Tree Tree // frozen by the caller
	// Pages, if it is not nil, gets what the processes have in memory while CRIU dumps
	// it, in place of files in Images: it is called for one file after the other, and
	// reads the pipe to its end. Its error makes the dump fail. It must not wait for
	// anything that may never come, for the processes are frozen meanwhile.
	Pages func(name string, pipe *os.File) error
	// Linked, if it is not nil, is called if processes have files open by names that were
	// removed while other names of the same files are left. CRIU has made a link for each
	// beside the name that is gone, and a restore finds the file there: what is copied
	// while Linked runs has these links, and what was copied before may lack them. CRIU
	// removes them afterwards. Its error makes the dump fail.
	Linked func() error
	// External are the paths inside at which something is mounted that is not
	// the container's own and is not saved.
	External []string
	// Timeout bounds how long CRIU tries to get hold of the processes, 0 = a
	// minute; the context bounds all.
	Timeout time.Duration
}

// Dumped says what a dump holds.
type Dumped struct {
	Processes int
	Bytes     int64 // of CRIU's files in the directory
	Took      time.Duration
}

// Limits that CRIU would otherwise set lower.
const (
	// ghostLimit is the size of an unlinked file that is still open and can be
	// saved; 32 bits are CRIU's own limit.
	ghostLimit = 1<<32 - 1
	// defaultTimeout is for a tree of very many processes. CRIU's own is 10 s.
	defaultTimeout = time.Minute
	// refreezePatience bounds the wait until what CRIU let go is frozen again.
	refreezePatience = 30 * time.Second
	// logLevel tells what CRIU does; without it a failure has no cause.
	logLevel = 4
)

var (
	// ErrIncomplete is returned, wrapped, by Dump when a process of the tree is
	// not in the image.
	ErrIncomplete = errors.New("the image does not hold every process")
	// ErrReleased is returned, joined with the cause, by Dump when CRIU was killed
	// by somebody else: the tree may have run for a moment, and is frozen again.
	ErrReleased = errors.New("CRIU was killed, and the processes may have run until they were stopped again")
	// ErrUnsettled is returned, wrapped, by Dump for a tree in which a CRIU that
	// was killed has left its traces. They disappear when the tree runs for a moment.
	ErrUnsettled = errors.New("the processes have to run for a moment after the last attempt")
	// ErrBetween is returned, wrapped, by Dump for a tree that was frozen in the
	// middle of something brief that an image cannot hold. It can be dumped after
	// it has run for a moment.
	ErrBetween = errors.New("the processes were stopped in the middle of something")
	// ErrRuns is returned, joined with the cause, by Dump when the tree runs
	// and could not be stopped again.
	ErrRuns = errors.New("the processes run and could not be stopped again")
)

// Dump writes an image of a frozen tree, which stays frozen whatever happens,
// unless the error wraps ErrRuns. After an error the image is not whole. A process 1
// that was stopped runs after the next thaw: continueInit says why. Other stopped
// processes stay stopped.
//
// On control groups v1, CRIU itself thaws a tree while it holds each process
// with ptrace, so the tree runs if CRIU is killed. Dump then freezes it again before
// anything else. And CRIU works inside the processes: if it is killed while it begins
// or ends to work in one, that process may die. So at the context's end, CRIU is first
// made to fail by itself. Memory is written as it is found: each gigabyte takes a
// gigabyte of disk, and one or two seconds.
func (e *Engine) Dump(ctx context.Context, o DumpOptions) (*Dumped, error) {
	begin := time.Now()
	if frozen, err := o.Tree.Frozen(); err != nil || !frozen {
		return nil, errors.Join(errors.New("dump: the tree was not frozen"), err)
	}
	before, err := readTasks(o.Tree)
	if err != nil {
		return nil, err
	}
	if err := checkSettled(o.Tree); err != nil {
		return nil, err
	}
	freezer, err := o.Tree.FreezerDirectory()
	if err != nil {
		return nil, fmt.Errorf("dump: %w", err)
	}
	if err := renewStops(o.Tree, freezer); err != nil {
		return nil, fmt.Errorf("dump: %w", err)
	}
	err = e.dumpPiped(ctx, &o, freezer)
	if err = errors.Join(err, continueInit(o.Pid), o.keepFrozen(err)); err != nil {
		return nil, err
	}
	if err := before.compare(o.Images); err != nil {
		return nil, err
	}
	if err := mendSockets(o.Images); err != nil {
		return nil, err
	}
	if err := errors.Join(rearmTimers(o.Images), restartCalls(o.Images), dropContinues(o.Images), mendTerminals(o.Images), mendSeals(o.Images), undelete(o.Images, o.External), writeClocks(o.Images, o.Pid), writePlaces(o.Images, o.Tree, o.Pid)); err != nil {
		return nil, fmt.Errorf("dump: %w", err)
	}
	bytes, err := sizeOf(o.Images)
	if err != nil {
		return nil, err
	}
	return &Dumped{Processes: len(before), Bytes: bytes, Took: time.Since(begin)}, nil
}

// dumpPiped is dump with somebody who takes the pages.
func (e *Engine) dumpPiped(ctx context.Context, o *DumpOptions, freezer string) error {
	if o.Pages == nil {
		return e.dump(ctx, o, freezer)
	}
	pages, err := newPipedPages(o.Images, o.Pages)
	if err != nil {
		return err
	}
	err = e.dump(ctx, o, freezer)
	if taken := pages.end(); taken != nil {
		// CRIU only says that it cannot write.
		err = errors.Join(fmt.Errorf("dump: %w", taken), err)
	}
	return err
}

// dump has CRIU write the image.
func (e *Engine) dump(ctx context.Context, o *DumpOptions, freezer string) error {
	images, err := os.Open(o.Images)
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	defer images.Close()
	logs, err := os.Open(o.Log)
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	defer logs.Close()
	options := commonOptions(images, logs, dumpLog, o.Timeout)
	options.Pid = set(int32(o.Pid))
	options.LeaveRunning = set(true)
	options.FreezeCgroup = &freezer
	for _, path := range o.External {
		options.ExtMnt = append(options.ExtMnt, &rpc.ExtMountMap{Key: set(path), Val: set(path)})
	}
	owner, err := ownerOf(o.Pid)
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	call := &swrk{
		owner: owner, through: inTimeOf(o.Pid), engine: e, hold: func() { stopNow(freezer) },
		request: &rpc.CriuReq{Type: set(rpc.CriuReqType_DUMP), Opts: options}, notified: o.dumped,
	}
	if err := call.run(ctx); err != nil {
		return failure("dump", filepath.Join(o.Log, dumpLog), err)
	}
	return nil
}

// Names of CRIU's logs.
const (
	dumpLog    = "dump.log"
	restoreLog = "restore.log"
)

// commonOptions are those of dump and restore alike.
func commonOptions(images, logs *os.File, log string, timeout time.Duration) *rpc.CriuOpts {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return &rpc.CriuOpts{
		ImagesDirFd: set(int32(images.Fd())), WorkDirFd: set(int32(logs.Fd())),
		LogFile: set(log), LogLevel: set(int32(logLevel)),
		Timeout: set(uint32(timeout / time.Second)), NotifyScripts: set(true),
		// The container's control group is made and joined by the caller.
		ManageCgroups: set(true), ManageCgroupsMode: set(rpc.CriuCgMode_IGNORE),
		TcpEstablished: set(true), FileLocks: set(true), LinkRemap: set(true),
		GhostLimit: set(uint32(ghostLimit)), OrphanPtsMaster: set(false),
		// A connection that is saved has both ends in the tree, which is frozen.
		NetworkLock: set(rpc.CriuNetworkLockMethod_SKIP),
		// A configuration file of the machine could change these options.
		ConfigFile: set("/dev/null"),
	}
}

func set[T any](v T) *T { return &v }

// keepFrozen makes sure that the tree is frozen, as it was before.
func (o *DumpOptions) keepFrozen(dumped error) error {
	if frozen, err := o.Tree.Frozen(); dumped == nil && frozen && err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), refreezePatience)
	defer cancel()
	if err := o.Tree.Freeze(ctx); err != nil {
		return errors.Join(ErrRuns, err)
	}
	if errors.Is(dumped, errEnded) {
		return ErrReleased
	}
	return nil
}

// stopNow asks the kernel to freeze the tree, and does not wait for that: the kernel
// cannot freeze it before CRIU, which holds it, has ended. From then on the tree is
// frozen without having run.
func stopNow(freezer string) {
	for name, text := range map[string]string{"freezer.state": "FROZEN", "cgroup.freeze": "1"} {
		if file, err := os.OpenFile(filepath.Join(freezer, name), os.O_WRONLY, 0); err == nil {
			_, _ = file.WriteString(text)
			file.Close()
		}
	}
}

// sizeOf adds up the files of a directory.
func sizeOf(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}
