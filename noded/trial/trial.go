// Package trial runs a job of nobody's, by the very code that runs jobs, and
// says how it ended. gdoctor looks at a machine with it, and gnoded at its own
// node when a job could not start there.
//
// What it promises: it changes nothing that stays. The job's allocation lies in a
// directory that the caller made for it, and its group below one that is made
// and removed here. It asks for no GPU, has no file of any user's, and runs
// beside all jobs. Whatever it has begun is over when Run returns, also when
// ctx ends before.
//
// What it needs: root, and this program's executable, which it starts as
// "gnoded shim".
package trial

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

const (
	// MaxProcesses, tmpBytes and memoryBytes are what the job may have.
	MaxProcesses = 64
	tmpBytes     = 16 << 20
	memoryBytes  = 128 << 20
	// nobodyID is the number of nobody, and of its group, on all systems.
	nobodyID = 65534
	// endPatience bounds the end of a job that did not end by itself.
	endPatience = 5 * time.Second
)

// DirectoryPrefix begins the names of directories for trials: gdoctor finds those
// that a process left which was killed.
const DirectoryPrefix = "gleaner-doctor-"

// Setup is where the job runs.
type Setup struct {
	Executable string // of gnoded
	Directory  string // empty, on the file system of state_dir; the caller removes it
	Group      string // a control group that is not there yet
	Node       string
	Init       string // ginit
	Binds      []string
	Hide       []string
	// TmpUnbounded: jobs on this node may fill its disk.
	TmpUnbounded bool
}

// Run starts /bin/true as nobody in a container, waits for its end and removes
// what it left. An error says that nothing could be found out about its end:
// it did not start, or did not end in time.
func Run(ctx context.Context, s Setup) (_ *pb.AllocEnded, err error) {
	if err := client.PrepareStateDir(s.Directory); err != nil {
		return nil, err
	}
	if _, err := cgroup.Prepare(s.Group); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cgroup.New(s.Group, cgroup.Limits{}).Remove()) }()
	handle, err := client.Launch(ctx, s.Executable, bundle.Settings{
		StateDir: s.Directory, Node: s.Node, InitPath: s.Init, CgroupParent: s.Group,
		Binds: s.Binds, HideDirs: s.Hide, MaxProcesses: MaxProcesses, TmpPerCPU: tmpBytes, TmpUnbounded: s.TmpUnbounded,
	}, s.order())
	if err != nil {
		return nil, err
	}
	ended, err := awaitResult(ctx, handle)
	if err != nil {
		// Recover needs the supervisor gone, and cleans up after it.
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
		defer cancel()
		err = errors.Join(err, handle.Kill())
		_ = waitUntil(limited, func() bool { return !handle.Alive() })
		_, recovering := handle.Recover(limited)
		err = errors.Join(err, recovering)
	}
	return ended, errors.Join(err, handle.Forget())
}

// Judge says what was wrong with the end of the job; nil = nothing.
func Judge(ended *pb.AllocEnded) error {
	if ended.GetCause() == pb.EndCause_END_CAUSE_EXITED && ended.GetExitCode() == 0 && ended.GetExitSignal() == 0 {
		return nil
	}
	cause := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(ended.GetCause().String(), "END_CAUSE_")), "_", " ")
	text := fmt.Sprintf("/bin/true as nobody ended with code %d, signal %d (%s)", ended.GetExitCode(), ended.GetExitSignal(), cause)
	if ended.GetDetail() != "" {
		text += ": " + ended.GetDetail()
	}
	return errors.New(text)
}

func (s *Setup) order() *pb.StartAlloc {
	alloc := &pb.AllocId{Job: 1, Epoch: 1}
	return &pb.StartAlloc{
		Alloc: alloc, Id: &pb.JobId{Job: alloc.Job},
		Spec: &pb.JobSpec{
			Name: "doctor", Script: []byte("#!/bin/sh\nexec /bin/true\n"), WorkDirectory: "/", Umask: 0o22,
			StandardOutput: "/dev/null", StandardInput: "/dev/null", Environment: []string{"PATH=/usr/bin:/bin"},
		},
		Owner:      nobody(),
		Allocation: []*pb.NodeAllocation{{Node: s.Node, CpuIds: []uint32{0}, MemoryBytes: memoryBytes}},
		Node:       s.Node, BatchHost: s.Node, Partition: "doctor", TimeLimitS: spec.Unlimited, KillWaitS: 1,
		ClusterName: "doctor", LeaseAction: "run-on",
	}
}

// nobody is named as this machine names it: its group is nogroup on Debian, and
// nobody elsewhere.
func nobody() *pb.Identity {
	id := strconv.Itoa(nobodyID)
	identity := &pb.Identity{Uid: nobodyID, Gid: nobodyID, User: "nobody", Group: "nogroup", Home: "/nonexistent", Shell: "/bin/sh"}
	if found, err := user.LookupId(id); err == nil {
		identity.User = found.Username
	}
	if found, err := user.LookupGroupId(id); err == nil {
		identity.Group = found.Name
	}
	return identity
}

// awaitResult waits until the supervisor has written the allocation's end and is gone.
func awaitResult(ctx context.Context, handle *client.Handle) (ended *pb.AllocEnded, err error) {
	waited := waitUntil(ctx, func() bool {
		alive := handle.Alive() // asked first: it writes its result, and goes
		ended, err = handle.Result()
		return !alive || err != nil && !errors.Is(err, bundle.ErrNoResult)
	})
	if waited != nil {
		return nil, fmt.Errorf("a job of one program did not end: %w", waited)
	}
	if err != nil {
		return nil, fmt.Errorf("the supervisor of a job ended without a result: %w", err)
	}
	return ended, nil
}

func waitUntil(ctx context.Context, condition func() bool) error {
	for !condition() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}
