package shim

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/images"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// fetch brings the image that the part goes on from into its directory, with
// every byte checked, and answers its manifest.
func (p *part) fetch(ctx context.Context) (*checkpoint.Manifest, error) {
	image := p.order.Restore
	if p.settings.Checkpoint.Engine == nil {
		return nil, fmt.Errorf("CRIU: %s", p.settings.Checkpoint.WhyNot)
	}
	digest, err := images.Digest(image)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	reader, err := p.stores.Reader(ctx, image, p.settings.Node, p.dialImage)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	manifest, err := reader.Manifest(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	if m := manifest; m.Job != p.order.Part.Job || m.Epoch >= p.order.Part.Epoch || m.UID != p.user.UID {
		return nil, fmt.Errorf("image: it is of run %d of job %d of user %d, and this is run %d of job %d of user %d",
			m.Epoch, m.Job, m.UID, p.order.Part.Epoch, p.order.Part.Job, p.user.UID)
	}
	if err := p.makeImageDir(manifest); err != nil {
		return nil, err
	}
	if err := reader.Get(ctx, digest, p.image.path); err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	return manifest, nil
}

// restore lets the part go on from its image. When it fails nothing of the part
// has run.
func (p *part) restore(spec *container.Spec, manifest *checkpoint.Manifest) (*container.Container, error) {
	log, err := p.dir.makeLogDir()
	if err != nil {
		return nil, err
	}
	image := container.Image{Dir: p.image.path, Manifest: manifest, Log: log, MayRun: p.mayBegin, Stopped: p.gpus.isParked()}
	running, err := container.Restore(p.startContext, spec, p.settings.Checkpoint.Engine, image)
	if err != nil {
		return nil, err
	}
	if err := image.Discard(); err != nil {
		p.log.Warn("what a restore needed on the disk is not removed: that is tried again at the job's end", "error", err)
	}
	return running, nil
}

// mayBegin is asked when the job is there and has not run. A part of several waits
// until all are there: they go on together, or none does.
func (p *part) mayBegin() error {
	if err := p.findParked(); err != nil {
		return err
	}
	if p.order.Gang {
		p.awaitOthers()
	}
	switch {
	case p.endAsked():
		return errEnding
	case !p.mayRun():
		return errSaveLease
	}
	return nil
}

// awaitOthers tells that this part is there, and returns when it may run, or is to
// end. One that is suspended meanwhile stands here, and says so.
func (p *part) awaitOthers() {
	p.mu.Lock()
	p.ready, p.awaits = true, true
	p.notify()
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.awaits = false
		p.mu.Unlock()
	}()
	p.log.Info("the part is restored, and stands until those on the other nodes are")
	for {
		p.mu.Lock()
		goesOn, changed := p.released && !p.lease.Suspended, p.changed
		p.mu.Unlock()
		if goesOn {
			return
		}
		select {
		case <-changed:
		case <-p.startContext.Done():
			return
		}
	}
}

// begin makes the part's container run: from the start, or from its image.
func (p *part) begin(spec *container.Spec, manifest *checkpoint.Manifest) (*container.Container, error) {
	if manifest == nil {
		return container.Start(p.startContext, spec)
	}
	return p.restore(spec, manifest)
}

// dialImage opens a stream to the node that has the image.
func (p *part) dialImage(ctx context.Context) (io.ReadWriteCloser, error) {
	conn, err := p.relay.controller()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(p.relay.vouch(ctx))
	tunnel, err := pb.NewNodeLinkClient(conn).Tunnel(ctx)
	if err == nil {
		err = tunnel.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: &pb.TunnelOpen{
			Part: p.order.Part, FromNode: p.order.Node, TargetNode: p.order.Restore.Node, Image: p.order.Restore,
		}}})
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("reach node %s, which has the image: %s", p.order.Restore.Node, status.Convert(err).Message())
	}
	return images.Stream(ctx, tunnel, nil, cancel), nil
}
