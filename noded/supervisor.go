package noded

import (
	"context"
	"errors"
	"sync"

	"github.com/gleaner-hpc/gleaner/noded/shim"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// supervisor is what the agent needs of a part's shim. See shim.Handle for
// what each method promises.
type supervisor interface {
	Order() *pb.StartPart
	Client() (pb.ShimClient, error)
	Alive() bool
	Stands() (bool, error)
	Result() (*pb.PartEnded, error)
	Saved() *pb.PartSaved
	Kill() error
	Recover(ctx context.Context) (*pb.PartEnded, error)
	Forget() error
}

// supervisors starts shims and finds them.
type supervisors interface {
	// Launch starts one and waits until it answers. For a part that is on disk
	// already it answers that one.
	Launch(ctx context.Context, r resources, order *pb.StartPart) (supervisor, error)
	// List answers the parts that are on disk. The error tells of those whose
	// files cannot be used: they are listed too, and can only be ended.
	List() ([]supervisor, error)
	// Sweep removes what belongs to no part, and answers what else is there
	// and stays. isPart says whether a name, JOB.EPOCH, is of a part.
	Sweep(isPart func(name string) bool) []*shim.LeftOver
}

// shims is the real thing.
type shims struct {
	config     Config
	checkpoint shim.Checkpoint
	executable string
	// Held for reading by Launch and for writing by List, which removes what
	// looks like half of a launch.
	launching sync.RWMutex
}

func (s *shims) Launch(ctx context.Context, r resources, order *pb.StartPart) (supervisor, error) {
	s.launching.RLock()
	defer s.launching.RUnlock()
	handle, err := shim.Launch(ctx, s.executable, s.settings(r), order)
	if err != nil {
		return nil, err
	}
	return handle, nil
}

func (s *shims) List() ([]supervisor, error) {
	s.launching.Lock()
	defer s.launching.Unlock()
	handles, damaged, err := shim.List(s.config.StateDir, s.config.CgroupParent)
	all := make([]supervisor, 0, len(handles)+len(damaged))
	for _, handle := range handles {
		all = append(all, handle)
	}
	failures := []error{err}
	for _, d := range damaged {
		all = append(all, damagedPart{d})
		failures = append(failures, d)
	}
	return all, errors.Join(failures...)
}

func (s *shims) Sweep(isPart func(name string) bool) []*shim.LeftOver {
	s.launching.Lock()
	defer s.launching.Unlock()
	return shim.Sweep(s.config.StateDir, s.config.CgroupParent, isPart)
}

// damagedPart is a part whose supervisor, if it has one, is not listened to.
type damagedPart struct{ *shim.Damaged }

func (damagedPart) Client() (pb.ShimClient, error) { return nil, shim.ErrDamaged }
func (damagedPart) Alive() bool                    { return false }
func (damagedPart) Result() (*pb.PartEnded, error) { return nil, shim.ErrNoResult }
func (damagedPart) Stands() (bool, error)          { return true, nil } // it is ended
func (damagedPart) Kill() error                    { return nil }
func (damagedPart) Saved() *pb.PartSaved           { return nil }

func (s *shims) settings(r resources) shim.Settings {
	settings := shim.Settings{
		StateDir:     s.config.StateDir,
		Node:         s.config.Name,
		InitPath:     s.config.Init,
		CgroupParent: s.config.CgroupParent,
		Controllers:  s.config.Controllers,
		TLSDir:       s.config.TLSDir,
		RealCPUs:     r.cpus,
		Binds:        s.config.Bind,
		HideDirs:     s.config.Hide,
		MaxProcesses: s.config.MaxProcesses,
		LogFormat:    s.config.LogFormat,
		Checkpoint:   s.checkpoint,
	}
	for _, f := range r.files {
		settings.DeviceFiles = append(settings.DeviceFiles, shim.DeviceFile{
			Path: f.Path, ContainerPath: f.ContainerPath, Type: 'c', Major: f.Major, Minor: f.Minor, Access: "rw",
		})
	}
	return settings
}
