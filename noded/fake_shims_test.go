package noded

import (
	"context"
	"sync"
	"testing"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// fakeShims keeps allocations as a disk would: they outlive the agent.
type fakeShims struct {
	t *testing.T

	mu        sync.Mutex
	allocs    map[registry.Key]*fakeShim
	launched  []resources
	hold      chan struct{} // when not nil, launches wait until it is closed
	launchErr error
	leaveDir  bool // a failing launch leaves an allocation on disk
	prepare   func(*fakeShim)
	strays    []*remove.LeftOver
	tryErr    error // of the self-test
	tries     int
}

func newFakeShims(t *testing.T) *fakeShims {
	return &fakeShims{t: t, allocs: map[registry.Key]*fakeShim{}}
}

func (f *fakeShims) Launch(ctx context.Context, r resources, order *pb.StartAlloc) (supervisor, error) {
	f.mu.Lock()
	f.launched = append(f.launched, r)
	hold := f.hold
	f.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.launchErr == nil || f.leaveDir {
		f.allocs[registry.KeyOf(order.Alloc)] = newFakeShim(f, order)
	}
	if f.launchErr != nil {
		return nil, f.launchErr
	}
	return f.allocs[registry.KeyOf(order.Alloc)], nil
}

func (f *fakeShims) List() ([]supervisor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []supervisor
	for _, s := range f.allocs {
		all = append(all, s)
	}
	return all, nil
}

func (f *fakeShims) Sweep(isAlloc func(string) bool) []*remove.LeftOver {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.strays
}

func (f *fakeShims) Try(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries++
	return f.tryErr
}

func (f *fakeShims) launchCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.launched)
}

// get waits for the allocation to be launched.
func (f *fakeShims) get(job, epoch uint32) *fakeShim {
	f.t.Helper()
	var found *fakeShim
	eventually(f.t, "the allocation is launched", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		found = f.allocs[registry.Key{Job: job, Epoch: epoch}]
		return found != nil
	})
	return found
}

func (f *fakeShims) onDisk(job, epoch uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.allocs[registry.Key{Job: job, Epoch: epoch}] != nil
}

// Fits answers what the machine alone tells.
func (s *fakeShims) Fits(ctx context.Context, r resources, order *pb.StartAlloc, facts *checkpoint.Manifest) (bundle.Misfit, error) {
	here := checkpoint.Here{UID: facts.UID, Root: facts.Root, Look: container.Look}
	var err error
	if here.Machine, err = checkpoint.ThisMachine(ctx, &checkpoint.Engine{Version: "4.2"}); err != nil {
		return bundle.Misfit{}, err
	}
	for _, f := range r.files {
		here.Devices = append(here.Devices, checkpoint.Device{Path: f.ContainerPath, Companion: f.Companion})
	}
	for _, m := range facts.Fits(here) {
		return bundle.Misfit{Property: m.Property, Reason: m.String()}, nil
	}
	return bundle.Misfit{}, nil
}
