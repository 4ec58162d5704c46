package noded

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/prepare"
	"github.com/gleaner-hpc/gleaner/oci/ref"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const (
	// pullPatience is how long a question whether a job could resume here waits for the
	// job's container image; controllers ask again.
	pullPatience = 10 * time.Second
	// maxPulls bounds how many come at once for such questions.
	maxPulls = 4
)

// pulls are container images that come before a job does, because a node that lacks one
// cannot resume it at once.
type pulls struct {
	mu  sync.Mutex
	now map[string]*ahead
}

// ahead is one that comes.
type ahead struct {
	done chan struct{}
	err  error
}

// await says why the order's container image is not here, after it has waited for it a
// moment. It goes on coming.
func (p *pulls) await(ctx context.Context, s *bundle.Settings, order *pb.StartAlloc) bundle.Misfit {
	image := order.GetSpec().GetImage()
	if image == "" {
		return bundle.Misfit{}
	}
	const property = "container image"
	pull := p.start(s, order)
	if pull == nil {
		return bundle.Misfit{Property: property, Reason: "this node pulls others at this moment: ask again"}
	}
	select {
	case <-pull.done:
		if pull.err != nil {
			return bundle.Misfit{Property: property, Reason: pull.err.Error()}
		}
		return bundle.Misfit{}
	case <-time.After(pullPatience):
	case <-ctx.Done():
	}
	return bundle.Misfit{Property: property, Reason: fmt.Sprintf("%s is being pulled: ask again in some minutes", image)}
}

// start pulls an image for its user, unless that is being done; nil if too many are.
func (p *pulls) start(s *bundle.Settings, order *pb.StartAlloc) *ahead {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := fmt.Sprintf("%d %s", order.GetOwner().GetUid(), order.GetSpec().GetImage())
	if pull := p.now[key]; pull != nil {
		return pull
	}
	if len(p.now) >= maxPulls {
		return nil
	}
	if p.now == nil {
		p.now = map[string]*ahead{}
	}
	pull := &ahead{done: make(chan struct{})}
	p.now[key] = pull
	go func() {
		pull.err = pullAhead(s, order)
		p.mu.Lock()
		delete(p.now, key)
		p.mu.Unlock()
		close(pull.done)
	}()
	return pull
}

func pullAhead(s *bundle.Settings, order *pb.StartAlloc) error {
	named, err := ref.ParsePinned(order.Spec.Image)
	if err != nil {
		return err
	}
	cache := prepare.Roots(s)
	cache.Log = slog.Default()
	root, err := cache.Root(context.Background(), prepare.RootUser(order), named, func(string) {})
	if err != nil {
		return err
	}
	defer root.Close()
	return cache.Lease(root)
}
