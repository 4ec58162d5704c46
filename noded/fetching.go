package noded

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/checkpoint/store"
	"github.com/gleaner-hpc/gleaner/noded/images"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file copies images of other nodes into this node's own store, when a
// controller says so: an image must not be lost with the node that made it.

const (
	// maxFetches bounds the images that are being copied at once.
	maxFetches = 4
	// mostFetch bounds one copy, whatever the controller says.
	mostFetch = 24 * time.Hour
)

// fetchImage copies an image, and answers how that went.
func (a *agent) fetchImage(ctx context.Context, s *session, order *pb.FetchImage) {
	answer := func(err error) {
		fetched := &pb.ImageFetched{Image: order.Image}
		if err != nil {
			fetched.Error = registry.Words(err.Error())
		}
		a.send(&pb.NodeMessage{What: &pb.NodeMessage_ImageFetched{ImageFetched: fetched}})
	}
	if !a.imaging.fetches.TryAcquire(1) {
		answer(errTooManyFetches)
		return
	}
	a.tending.Go(func() {
		defer a.imaging.fetches.Release(1)
		log := a.log.With("job", order.GetImage().GetAlloc().GetJob(), "image", order.GetImage().GetNumber(), "from", order.GetImage().GetNode())
		limit := min(max(time.Duration(order.TimeoutS)*time.Second, time.Second), mostFetch)
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		begun := time.Now()
		receipt, err := a.copyImage(ctx, s.target, order.GetImage())
		if err != nil {
			log.Warn("an image could not be copied from another node: the controllers try another node", "error", err)
		} else {
			a.listImages(ctx) // told before the answer
			log.Info("keeps a copy of an image of another node", "bytes", receipt.Bytes, "written_bytes", receipt.WrittenBytes, "took", time.Since(begun))
		}
		answer(err)
	})
}

func (a *agent) copyImage(ctx context.Context, controller string, image *pb.Image) (store.Receipt, error) {
	digest, err := images.Digest(image)
	if err != nil {
		return store.Receipt{}, err
	}
	own, err := a.imaging.stores.Open(ctx, "")
	if err != nil {
		return store.Receipt{}, err
	}
	name := a.machine.config.Name
	dialer := a.dialer(controller, &pb.TunnelOpen{Alloc: image.Alloc, FromNode: name, TargetNode: image.Node, Image: image, Copy: true})
	dialer.Direct = a.machine.config.Checkpoint.MayDial
	remote := store.NewRemote(dialer.Dial)
	a.noteFetch(digest)
	receipt, err := own.Fetch(ctx, sameOnly{remote, image}, digest)
	if err == nil {
		a.noteFetch(digest)
	}
	return receipt, err
}

// noteFetch keeps an order to keep images, which was sent before this copy was known,
// from deleting it.
func (a *agent) noteFetch(digest checkpoint.Digest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.registry.Fetches(string(digest[:]), timeNow())
}

// sameOnly opens an image of another node only if it is the one that the controllers
// mean.
type sameOnly struct {
	*store.Remote
	image *pb.Image
}

// Open implements store.Reader.
func (s sameOnly) Open(ctx context.Context, digest checkpoint.Digest) (store.Image, error) {
	opened, err := s.Remote.Open(ctx, digest)
	if err != nil {
		return nil, err
	}
	if err := images.Same(opened.Manifest(), s.image); err != nil {
		opened.Close() // it has nothing of its own to say
		return nil, err
	}
	return opened, nil
}
