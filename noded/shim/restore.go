package shim

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/checkpoint/store"
	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/images"
	"github.com/gleaner-hpc/gleaner/noded/shim/imagedir"
	"github.com/gleaner-hpc/gleaner/noded/shim/prepare"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// errImageAway is returned, wrapped, for an image that did not arrive, which says
// nothing about the image itself.
var errImageAway = errors.New("the image did not come")

// arrival is the image from which an allocation resumes, on its way here. nil is that of
// an allocation that begins.
type arrival struct {
	manifest *checkpoint.Manifest
	spare    map[string]bool // parts that are not needed here
	cancel   context.CancelFunc
	done     chan struct{}
	err      error // once it is done: whether the image is at fault, too
}

// arrive opens the image from which the allocation resumes, and brings it into its
// directory while other things are made ready. Every byte of it is checked before anybody
// reads it.
func (p *alloc) arrive(ctx context.Context) (*arrival, error) {
	go checkpoint.LookAhead()
	ctx, cancel := context.WithCancel(ctx)
	opened, open, err := p.openImage(ctx)
	if err != nil {
		cancel()
		return nil, awayOrNot(err)
	}
	a := &arrival{manifest: opened.Manifest(), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.spare = container.Spare(a.manifest, p.settings.InitPath)
		p.image, a.err = imagedir.Open(ctx, p.dir, p.settings.StateDir, opened, open, imagedir.NewWays(a.spare), p.log)
		if a.err == nil {
			a.err = p.gpus.Plan(ctx, p.image.Path, a.manifest)
		}
		a.err = awayOrNot(a.err)
	}()
	return a, nil
}

// wait waits until the image is here.
func (a *arrival) wait() error {
	if a == nil {
		return nil
	}
	<-a.done
	return a.err
}

// drop gives up what is still on its way, and what came.
func (p *alloc) drop(a *arrival) {
	if a == nil {
		return
	}
	a.cancel()
	<-a.done
	p.image.Drop()
}

// awayOrNot says of an error whether the image is at fault.
func awayOrNot(err error) error {
	if store.Away(err) || errors.Is(err, images.ErrClosed) {
		err = fmt.Errorf("%w: %w", errImageAway, err)
	}
	return err
}

// openImage opens the image, and answers what opens it once more.
func (p *alloc) openImage(ctx context.Context) (store.Image, func() (store.Image, error), error) {
	image := p.order.Restore
	if p.settings.Checkpoint.Engine == nil {
		return nil, nil, fmt.Errorf("CRIU: %s", p.settings.Checkpoint.WhyNot)
	}
	digest, err := images.Digest(image)
	if err != nil {
		return nil, nil, fmt.Errorf("image: %w", err)
	}
	reader, err := p.stores.Reader(ctx, image, p.settings.Node, p.imageDialer().Dial)
	if err != nil {
		return nil, nil, fmt.Errorf("store: %w: %w", images.ErrClosed, err)
	}
	open := func() (store.Image, error) { return reader.Open(ctx, digest) }
	opened, err := open()
	if err != nil {
		return nil, nil, fmt.Errorf("image: %w", err)
	}
	if err := images.Same(opened.Manifest(), image); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("image: %w", err), opened.Close())
	}
	if err := p.mayHave(opened.Manifest()); err != nil {
		return nil, nil, errors.Join(err, opened.Close())
	}
	return opened, open, nil
}

// restore resumes the allocation from its image. If it fails, nothing of the allocation
// has run.
func (p *alloc) restore(spec *container.Spec, from *arrival) (*container.Container, error) {
	log, err := p.dir.MakeLogDir()
	if err != nil {
		return nil, err
	}
	image := container.Image{Dir: p.image.Path, Manifest: from.manifest, Spare: from.spare, AsSaved: p.order.AsSaved, Log: log, MayRun: p.mayBegin, Stopped: p.gpus.IsParked()}
	running, err := container.Restore(p.startContext, spec, p.settings.Checkpoint.Engine, image)
	if err != nil {
		if cause := p.image.Whole(); cause != nil {
			err = awayOrNot(fmt.Errorf("image: %w: %w", cause, err))
		}
		return nil, err
	}
	if err := errors.Join(p.image.Stop(), image.Discard()); err != nil {
		p.log.Warn("the files of a restore are not removed from the disk: that is tried again at the job's end", "error", err)
	}
	return running, nil
}

// mayBegin is asked when the job is there and has not run. One allocation of several waits
// until all are there: either they all resume, or none does.
func (p *alloc) mayBegin() error {
	if err := errors.Join(p.image.Whole(), p.gpus.Find()); err != nil {
		return err
	}
	if p.order.Gang {
		p.awaitOthers()
	}
	switch {
	case p.endAsked():
		return supervise.ErrEnding
	case !p.mayRun():
		return supervise.ErrLeaseEnded
	}
	// The connections of all allocations are there: before, the kernel of one would have
	// refused what another one sends.
	return p.gang.open()
}

// awaitOthers tells that this allocation is there, and returns when it may run or must
// end. If it is suspended meanwhile, it stays frozen here, and says so.
func (p *alloc) awaitOthers() {
	p.mu.Lock()
	p.core.Await()
	p.notify()
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.core.Awaits = false
		p.mu.Unlock()
	}()
	p.log.Info("the allocation is restored, and stays frozen until those on the other nodes are")
	for {
		p.mu.Lock()
		mayRun, changed := p.core.Awaited(), p.changed
		p.mu.Unlock()
		if mayRun {
			return
		}
		select {
		case <-changed:
		case <-p.startContext.Done():
			return
		}
	}
}

// begin makes the allocation's container run: from the start, or from its image.
func (p *alloc) begin(spec *container.Spec, from *arrival) (*container.Container, error) {
	if from != nil {
		return p.restore(spec, from)
	}
	running, err := container.Start(p.startContext, spec)
	var chosen *container.ChosenError
	if err != nil && spec.Root != nil && !errors.Is(err, container.ErrMemory) && !errors.As(err, &chosen) {
		// Whoever made the image may have put anything where something is mounted.
		err = prepare.BadRequest("nothing can be started in container image %s on node %s: %v", p.order.Spec.Image, p.settings.Node, err)
	}
	return running, err
}

// imageDialer opens streams to the node that has the image.
func (p *alloc) imageDialer() *images.Dialer {
	return &images.Dialer{Direct: p.settings.Checkpoint.MayDial, Log: p.log, Tunnel: func(ctx context.Context, sum []byte) (images.Tunnel, func(), error) {
		ctx, cancel := context.WithCancel(ctx)
		tunnel, err := p.relay.OpenTunnel(ctx, &pb.TunnelOpen{TargetNode: p.order.Restore.Node, Image: p.order.Restore, Direct: sum})
		if err != nil {
			cancel()
			return nil, nil, fmt.Errorf("reach node %s, which has the image: %s", p.order.Restore.Node, status.Convert(err).Message())
		}
		return tunnel, cancel, nil
	}}
}
