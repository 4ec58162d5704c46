package noded

import (
	"context"
	"errors"
	"sync"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// supervisor is what the agent needs of an allocation's shim. See client.Handle for
// what each method promises.
type supervisor interface {
	Order() *pb.StartAlloc
	Client() (pb.ShimClient, error)
	Alive() bool
	Frozen() (bool, error)
	Result() (*pb.AllocEnded, error)
	Saved() *pb.AllocSaved
	Kill() error
	Recover(ctx context.Context) (*pb.AllocEnded, error)
	Forget() error
}

// supervisors starts shims and finds them.
type supervisors interface {
	// Launch starts one and waits until it answers. For an allocation that is on disk
	// already it answers that one.
	Launch(ctx context.Context, r resources, order *pb.StartAlloc) (supervisor, error)
	// Fits answers whether an allocation could resume here from an image: see client.Fits.
	Fits(ctx context.Context, r resources, order *pb.StartAlloc, facts *checkpoint.Manifest) (bundle.Misfit, error)
	// List answers the allocations that are on disk. The error tells of those whose
	// files cannot be used: they are listed too, and can only be ended.
	List() ([]supervisor, error)
	// Sweep removes what belongs to no allocation, and answers what else is there
	// and stays. isAlloc says whether a name, JOB.EPOCH, is of an allocation.
	Sweep(isAlloc func(name string) bool) []*remove.LeftOver
	// Try runs a job of nobody's, and answers what was wrong with it.
	Try(ctx context.Context) error
}

// shims is the real thing.
type shims struct {
	config     Config
	checkpoint bundle.Checkpoint
	network    bundle.Network
	executable string
	nodeCPUs   int
	tmp        tmpDisk
	ports      portBlocks
	// Held for reading by Launch and for writing by List, which removes what
	// looks like half of a launch.
	launching sync.RWMutex
	ahead     pulls
}

func (s *shims) Launch(ctx context.Context, r resources, order *pb.StartAlloc) (supervisor, error) {
	s.launching.RLock()
	defer s.launching.RUnlock()
	settings := s.settings(r)
	var done func()
	settings.StepPort, done = s.ports.take(s.config.StepPorts, s.config.StateDir)
	defer done()
	handle, err := client.Launch(ctx, s.executable, settings, order)
	if err != nil {
		return nil, err
	}
	return handle, nil
}

func (s *shims) Fits(ctx context.Context, r resources, order *pb.StartAlloc, facts *checkpoint.Manifest) (bundle.Misfit, error) {
	settings := s.settings(r)
	if found := s.ahead.await(ctx, &settings, order); found.Property != "" {
		return found, nil
	}
	return client.Fits(ctx, s.executable, settings, order, facts)
}

func (s *shims) List() ([]supervisor, error) {
	s.launching.Lock()
	defer s.launching.Unlock()
	handles, damaged, err := client.List(s.config.StateDir, s.config.CgroupParent)
	all := make([]supervisor, 0, len(handles)+len(damaged))
	for _, handle := range handles {
		all = append(all, handle)
	}
	failures := []error{err}
	for _, d := range damaged {
		all = append(all, damagedAlloc{d})
		failures = append(failures, d)
	}
	return all, errors.Join(failures...)
}

func (s *shims) Sweep(isAlloc func(name string) bool) []*remove.LeftOver {
	s.launching.Lock()
	defer s.launching.Unlock()
	return client.Sweep(s.config.StateDir, s.config.CgroupParent, isAlloc)
}

// damagedAlloc is an allocation whose supervisor, if it has one, is not listened to.
type damagedAlloc struct{ *client.Damaged }

func (damagedAlloc) Client() (pb.ShimClient, error)  { return nil, bundle.ErrDamaged }
func (damagedAlloc) Alive() bool                     { return false }
func (damagedAlloc) Result() (*pb.AllocEnded, error) { return nil, bundle.ErrNoResult }
func (damagedAlloc) Frozen() (bool, error)           { return true, nil } // it is ended
func (damagedAlloc) Kill() error                     { return nil }
func (damagedAlloc) Saved() *pb.AllocSaved           { return nil }

func (s *shims) settings(r resources) bundle.Settings {
	settings := bundle.Settings{
		StateDir:     s.config.StateDir,
		Node:         s.config.Name,
		InitPath:     s.config.Init,
		CgroupParent: s.config.CgroupParent,
		Controllers:  s.config.Controllers,
		TLSDir:       s.config.TLSDir,
		RealCPUs:     r.cpus,
		Binds:        s.config.Bind,
		HideDirs:     s.config.Hide,
		CommandsDir:  s.config.CommandsDir,
		SlurmDir:     s.config.SlurmDir,
		MaxProcesses: s.config.MaxProcesses,
		LogFormat:    s.config.LogFormat,
		Checkpoint:   s.checkpoint,
		Network:      s.network,
		Roots:        bundle.Roots{Dir: s.config.Roots.Dir, Program: s.config.Roots.Program, LimitBytes: s.config.Roots.limit()},
		OtherDevices: r.others,
		Driver:       r.driver,

		MaxTotalProcesses: s.config.MaxTotalProcesses,
		NodeCPUs:          s.nodeCPUs,
		TmpPerCPU:         s.tmp.perCPU,
		TmpBytes:          s.tmp.bytes,
		TmpUnbounded:      s.tmp.unbounded,
	}
	for _, f := range r.files {
		settings.DeviceFiles = append(settings.DeviceFiles, bundle.DeviceFile{
			Path: f.Path, ContainerPath: f.ContainerPath, Type: 'c', Major: f.Major, Minor: f.Minor, Access: "rw", Companion: f.Companion,
		})
	}
	return settings
}
