package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/images"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// savingBed is a node's state directory without a node daemon: the benchmark
// gives supervisors their orders itself.
type savingBed struct {
	b         *bench
	directory string
	settings  bundle.Settings
	jobs      uint32
	parts     []*savedPart
}

// savedPart is a supervisor and its job.
type savedPart struct {
	*client.Handle
	ticks     string
	suspended uint32 // number of the last order
}

func (b *bench) newSavingBed(engine *checkpoint.Engine, directory string) (*savingBed, error) {
	state := filepath.Join(directory, "state")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return nil, err
	}
	if err := errors.Join(os.Mkdir(state, 0o700), client.PrepareStateDir(state)); err != nil {
		return nil, err
	}
	return &savingBed{b: b, directory: directory, settings: bundle.Settings{
		StateDir: state, Node: hostName, InitPath: filepath.Join(b.options.binaries, "ginit"), CgroupParent: b.parent,
		HideDirs:   []string{state},
		Checkpoint: bundle.Checkpoint{Engine: engine, Stores: images.Config{Own: filepath.Join(directory, "images")}},
	}}, nil
}

// start starts a job that holds so much memory, and waits until it does.
func (s *savingBed) start(ctx context.Context, mib, does int) (*savedPart, error) {
	s.jobs++
	script, ticks, err := s.b.writeHolder(fmt.Sprintf("job-%d-%d", s.b.started, s.jobs), mib, does)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(script)
	if err != nil {
		return nil, err
	}
	u := s.b.user
	return s.launch(ctx, ticks, &pb.StartAlloc{
		Alloc: &pb.AllocId{Job: s.jobs, Epoch: 1}, Id: &pb.JobId{Job: s.jobs},
		Spec: &pb.JobSpec{
			Name: "bench", Script: text, WorkDirectory: s.b.scripts.output, Umask: 0o22, Environment: []string{"PATH=/usr/bin:/bin"},
			StandardInput: os.DevNull, StandardOutput: os.DevNull, StandardError: os.DevNull,
		},
		Owner:      &pb.Identity{Uid: u.UID, Gid: u.GID, Groups: u.Groups, User: u.Name, Group: u.Group, Home: u.Home, Shell: u.Shell},
		Allocation: []*pb.NodeAllocation{{Node: hostName, CpuIds: []uint32{0}, MemoryBytes: uint64(mib)<<20*3 + 512<<20}},
		Node:       hostName, BatchHost: hostName, Partition: "main", TimeLimitS: spec.Unlimited, KillWaitS: 2, ClusterName: "bench", LeaseAction: "run-on",
	})
}

// restore lets a job that has ended resume from an image, and waits until it
// does.
func (s *savingBed) restore(ctx context.Context, former *savedPart, image *pb.Image) (*savedPart, error) {
	order := proto.CloneOf(former.Order())
	order.Alloc.Epoch++
	order.Restore = image
	return s.launch(ctx, former.ticks, order)
}

func (s *savingBed) launch(ctx context.Context, ticks string, order *pb.StartAlloc) (*savedPart, error) {
	begin := time.Now()
	handle, err := client.Launch(ctx, filepath.Join(s.b.options.binaries, "gnoded"), s.settings, order)
	if err != nil {
		return nil, err
	}
	part := &savedPart{Handle: handle, ticks: ticks}
	s.parts = append(s.parts, part)
	return part, part.runsSince(ctx, begin)
}

// end ends what is left after a failure, and removes the control group.
func (s *savingBed) end() error {
	var all []error
	for _, part := range s.parts {
		ctx, cancel := context.WithTimeout(context.Background(), startPatience)
		all = append(all, part.end(ctx))
		cancel()
	}
	if group, err := cgroup.Open(s.b.parent); err == nil {
		all = append(all, group.Remove())
	}
	return errors.Join(all...)
}

// runsSince waits until the job has run after a moment, or its part has ended.
func (p *savedPart) runsSince(ctx context.Context, begin time.Time) error {
	_, err := p.longestPause(ctx, begin)
	return err
}

// longestPause waits likewise and returns the longest time that the job was
// stopped.
func (p *savedPart) longestPause(ctx context.Context, begin time.Time) (time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching := background(ctx, func(ctx context.Context) error {
		return until(ctx, "the part to end", runPatience, 50*time.Millisecond, func() (bool, error) {
			result, err := p.Result()
			if err == nil {
				cancel(fmt.Errorf("the part ended %v: %s", result.Cause, result.Detail))
			}
			return err == nil, nil
		})
	})
	last, err := untilRuns(ctx, p.ticks, begin)
	_ = watching() // it was told to end
	return last.longest, err
}

// save orders a save, and waits for the image.
func (p *savedPart) save(ctx context.Context, number uint32, then pb.SaveThen) (*pb.AllocSaved, error) {
	client, err := p.Client()
	if err != nil {
		return nil, err
	}
	if _, err := client.Save(ctx, &pb.SaveAlloc{Alloc: p.Order().Alloc, Number: number, Then: then}); err != nil {
		return nil, err
	}
	var saved *pb.AllocSaved
	err = p.watch(ctx, func(event *pb.ShimEvent) bool {
		saved = event.GetSaved()
		return saved.GetNumber() == number
	})
	if err == nil && saved.Image == nil {
		err = fmt.Errorf("the job was not saved: %s", saved.Error)
	}
	return saved, err
}

// suspend stops the job or lets it continue, and waits until it is so.
func (p *savedPart) suspend(ctx context.Context, stand bool) error {
	client, err := p.Client()
	if err != nil {
		return err
	}
	p.suspended++
	if _, err := client.Suspend(ctx, &pb.SuspendAlloc{Alloc: p.Order().Alloc, Number: p.suspended, Suspended: stand}); err != nil {
		return err
	}
	return p.watch(ctx, func(event *pb.ShimEvent) bool {
		said := event.GetSuspended()
		return said.GetNumber() == p.suspended && said.GetFrozen() == stand
	})
}

// watch waits for an event.
func (p *savedPart) watch(ctx context.Context, wanted func(*pb.ShimEvent) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := p.Client()
	if err != nil {
		return err
	}
	stream, err := client.Watch(ctx, &pb.ShimWatchRequest{})
	for err == nil {
		var event *pb.ShimEvent
		if event, err = stream.Recv(); err == nil && wanted(event) {
			return nil
		}
	}
	return err
}

// peak is the most memory that the supervisor ever had resident.
func (p *savedPart) peak() (bytes int64, err error) {
	pids, err := processes("gnoded", client.Word, p.Dir())
	if err != nil || len(pids) != 1 {
		return 0, errors.Join(fmt.Errorf("the supervisor of %s is not one process: %v", p.Dir(), pids), err)
	}
	return peakBytes(pids[0])
}

// end ends the part, if it has not, and forgets it.
func (p *savedPart) end(ctx context.Context) error {
	if _, err := os.Stat(p.Dir()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if p.Alive() {
		client, err := p.Client()
		if err != nil {
			return err
		}
		if _, err := client.End(ctx, &pb.EndAlloc{Alloc: p.Order().Alloc}); err != nil && p.Alive() {
			return err
		}
	}
	err := until(ctx, "the supervisor to end", startPatience, 5*time.Millisecond, func() (bool, error) { return !p.Alive(), nil })
	if err != nil {
		return err
	}
	if _, err := p.Result(); err != nil {
		if _, err := p.Recover(ctx); err != nil {
			return err
		}
	}
	return p.Forget()
}

// processes are those whose program has a name, and among whose arguments each
// of the words is, or begins one.
func processes(program string, words ...string) (pids []int, err error) {
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		text, _ := os.ReadFile(path) // it has ended
		arguments := strings.Split(string(text), "\x00")
		if filepath.Base(arguments[0]) != program {
			continue
		}
		has := func(word string) bool {
			return slices.ContainsFunc(arguments[1:], func(argument string) bool { return strings.HasPrefix(argument, word) })
		}
		var pid int
		if !slices.ContainsFunc(words, func(word string) bool { return !has(word) }) {
			if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, err
}

// peakBytes is the most memory that a process ever had resident (proc(5),
// VmHWM).
func peakBytes(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	var kib int64
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, err := fmt.Sscan(rest, &kib)
			return kib << 10, err
		}
	}
	return 0, errors.New("the kernel does not say the most memory that process " + fmt.Sprint(pid) + " had")
}
