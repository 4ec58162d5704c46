package noded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/checkpoint/store"
	"github.com/gleaner-hpc/gleaner/noded/images"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
)

const (
	// maxAsks and maxSends bound the questions about images that are being
	// answered, and the images that are being sent, at once.
	maxAsks  = 16
	maxSends = 8
	// storePatience bounds a look into all stores.
	storePatience = 30 * time.Second
	// maxImages is how many images a node speaks of; a store with more is kept
	// from growing by its limit.
	maxImages = 4096
)

// imagesEvery is how often the stores are looked into without a reason, and
// askPatience bounds one question about an image. Variables for tests.
var (
	imagesEvery = time.Minute
	askPatience = time.Minute
)

// imaging is what the agent does with images: it knows which are in the stores
// that this node reaches, deletes those that no job needs, sends one to a node
// that restores it, and says whether a job could resume here.
type imaging struct {
	stores *images.Stores
	pace   *images.Pace
	asks   *semaphore.Weighted
	sends  *semaphore.Weighted
	// fetches are copies of other nodes' images, and slow is the pace of what leaves for
	// such copies.
	fetches *semaphore.Weighted
	slow    *images.Pace
	look    chan struct{}       // asks for a look into the stores
	keep    chan *registry.Keep // the latest

	staged atomic.Pointer[map[uint32]bool] // jobs whose disks are needed; nil = nobody has said

	mu   sync.Mutex
	held *pb.ImagesHeld // as found last
}

func newImaging(m *machine) *imaging {
	c := &m.config
	return &imaging{
		stores: images.New(c.stores()), pace: images.NewPace(int64(c.Checkpoint.Rate)),
		asks: semaphore.NewWeighted(maxAsks), sends: semaphore.NewWeighted(maxSends),
		fetches: semaphore.NewWeighted(maxFetches), slow: images.NewPace(int64(c.Checkpoint.CopyRate)),
		look: make(chan struct{}, 1), keep: make(chan *registry.Keep, 1),
	}
}

// lookAtImages has the stores looked into soon.
func (a *agent) lookAtImages() {
	select {
	case a.imaging.look <- struct{}{}:
	default:
	}
}

// keepImages has what no job needs deleted soon. Only the latest order counts.
func (a *agent) keepImages(images *pb.KeepImages) {
	a.needStaged(images.GetStagedJobs())
	order := registry.NewKeep(images, a.machine.config.Name, timeNow())
	for {
		select {
		case a.imaging.keep <- order:
			return
		default:
		}
		select {
		case <-a.imaging.keep:
		default:
		}
	}
}

// tendImages looks into the stores until ctx ends. Nothing else waits for it.
func (a *agent) tendImages(ctx context.Context) {
	tick := time.NewTicker(imagesEvery)
	defer tick.Stop()
	for {
		a.listImages(ctx)
		a.tidyStaged()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-a.imaging.look:
		case order := <-a.imaging.keep:
			a.deleteImages(ctx, order)
		}
	}
}

// listImages tells the controller when what lies in the stores has changed. A
// store that does not answer is left out meanwhile.
func (a *agent) listImages(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	now := &pb.ImagesHeld{LimitBytes: a.machine.config.Checkpoint.Limit}
	for _, name := range a.imaging.stores.Names() {
		a.tidyStore(ctx, name)
		if err := a.listStore(ctx, name, now); err != nil && ctx.Err() == nil {
			a.log.Warn("cannot look into a store of images: jobs are not saved to it, and not restored from it", "store", name, "error", err)
		}
	}
	now.Images = now.Images[:min(len(now.Images), maxImages)]
	a.imaging.mu.Lock()
	changed := !proto.Equal(a.imaging.held, now)
	a.imaging.held = now
	a.imaging.mu.Unlock()
	if changed {
		a.send(&pb.NodeMessage{What: &pb.NodeMessage_ImagesHeld{ImagesHeld: now}})
	}
}

// tidyStore removes what is left of saves that did not come to their end, so that
// its room comes back though nobody saves anything here again.
func (a *agent) tidyStore(ctx context.Context, name string) {
	if name == "" && a.machine.config.Checkpoint.Store == "" {
		return
	}
	s, err := a.imaging.stores.Open(ctx, name)
	if err != nil {
		return // told by listStore
	}
	switch removed, err := s.Tidy(ctx); {
	case err != nil && ctx.Err() == nil:
		a.log.Warn("cannot remove what is left of saves that were broken off: see whether the disk is sound", "store", name, "error", err)
	case removed > 0:
		a.log.Info("removed what was left of saves that were broken off", "store", name, "count", removed)
	}
}

func (a *agent) listStore(ctx context.Context, name string, into *pb.ImagesHeld) error {
	if name == "" && a.machine.config.Checkpoint.Store == "" {
		return nil
	}
	s, err := a.imaging.stores.Open(ctx, name)
	if err != nil {
		return err
	}
	found, err := s.List(ctx)
	if err != nil {
		return err
	}
	for _, about := range found {
		into.Images = append(into.Images, images.Message(about, name))
	}
	if name != "" {
		return nil
	}
	usage, err := s.Usage(ctx)
	into.UsedBytes = uint64(max(usage.Used, 0))
	return err
}

// heldImages are the images that this node can reach by itself, as found last.
func (a *agent) heldImages() []*pb.Image {
	a.imaging.mu.Lock()
	defer a.imaging.mu.Unlock()
	return a.imaging.held.GetImages()
}

// deleteImages deletes what this node made or copied and no job needs.
func (a *agent) deleteImages(ctx context.Context, order *registry.Keep) {
	if order.Late(timeNow()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	for _, name := range a.imaging.stores.Names() {
		s, err := a.imaging.stores.Open(ctx, name)
		if err != nil {
			continue // told by listImages
		}
		deleted, err := store.Keep(ctx, s, func(about store.About) bool { return a.keeps(order, about, name) })
		for _, about := range deleted {
			a.log.Info("deleted an image that no job needs", "job", about.Job, "image", about.Number, "store", name)
		}
		if err != nil && ctx.Err() == nil {
			a.log.Warn("cannot delete the images that no job needs: see whether the disk is sound", "store", name, "error", err)
		}
	}
}

// keeps says whether an image in a store stays.
func (a *agent) keeps(order *registry.Keep, about store.About, store string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.registry.Keeps(order, registry.Image{Job: about.Job, Number: about.Number, Digest: string(about.Digest[:]), Node: about.Node, Own: store == ""})
}

// sendImage joins a tunnel and serves an image there, to a node that restores
// it.
func (a *agent) sendImage(ctx context.Context, s *session, order *pb.SendImage) {
	if !a.imaging.sends.TryAcquire(1) {
		a.log.Warn("too many images are being sent at once: this one is refused, and asked for again", "most", maxSends)
		return
	}
	a.tending.Go(func() {
		defer a.imaging.sends.Release(1)
		log := a.log.With("job", order.GetImage().GetAlloc().GetJob(), "image", order.GetImage().GetNumber())
		begun := time.Now()
		if err := a.serveImage(ctx, cmp.Or(order.Controller, s.target), order); err != nil && ctx.Err() == nil {
			log.Warn("an image could not be sent: whoever restores it asks again", "error", err)
			return
		}
		log.Info("sent an image to another node", "took", time.Since(begun))
	})
}

func (a *agent) serveImage(ctx context.Context, controller string, order *pb.SendImage) error {
	digest, err := images.Digest(order.GetImage())
	if err != nil {
		return err
	}
	// Also of an image that is not here: so the other end hears of it at once.
	s, err := a.imaging.stores.Open(ctx, order.Image.Store)
	if err != nil {
		return err
	}
	// The controller knows by whom this job's images may be had, and the digest
	// says nothing of the job. One that is not there is told by Serve.
	about, err := s.List(ctx)
	if err != nil {
		return err
	}
	for i := range about {
		if about[i].Digest == digest && about[i].Job != order.Image.GetAlloc().GetJob() {
			return fmt.Errorf("image %s is of job %d, and one of job %d is asked for", digest, about[i].Job, order.Image.GetAlloc().GetJob())
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tunnel, end, err := a.openTunnel(ctx, controller, &pb.TunnelOpen{
		Alloc: order.Image.Alloc, FromNode: a.machine.config.Name, Channel: order.Channel, Image: order.Image, Facts: order.Facts,
	})
	if err != nil {
		return err
	}
	through := images.Stream(ctx, tunnel, a.imaging.pace, end)
	defer through.Close()
	if order.Facts {
		return store.ServeFacts(ctx, through, s, digest)
	}
	serve := func(stream io.ReadWriteCloser) error {
		if order.Background {
			stream = images.Slowed(ctx, stream, a.imaging.slow)
		}
		return store.Serve(ctx, stream, s, digest)
	}
	if len(order.Direct) == 0 {
		return serve(through)
	}
	return images.Offer(ctx, images.Offered{Ports: a.machine.config.Checkpoint.Direct, Sum: order.Direct, Pace: a.imaging.pace, Log: a.log}, tunnel, through, serve)
}

// openTunnel opens a tunnel for an image.
func (a *agent) openTunnel(ctx context.Context, controller string, open *pb.TunnelOpen) (_ images.Tunnel, end func(), err error) {
	connection, err := dial.Dial([]string{controller}, a.machine.config.TLSDir)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	end = func() {
		cancel()
		connection.Close()
	}
	tunnel, err := pb.NewNodeLinkClient(connection).Tunnel(ctx, grpc.ForceCodecV2(passon.Codec{}))
	if err == nil {
		err = tunnel.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: open}})
	}
	if err != nil && !errors.Is(err, io.EOF) { // EOF: why comes with Recv
		end()
		return nil, nil, fmt.Errorf("open a tunnel: %s", status.Convert(err).Message())
	}
	return tunnel, end, nil
}

// dialer opens streams to the node that has an image.
func (a *agent) dialer(controller string, open *pb.TunnelOpen) *images.Dialer {
	return &images.Dialer{Pace: a.imaging.pace, Log: a.log, Tunnel: func(ctx context.Context, sum []byte) (images.Tunnel, func(), error) {
		open := proto.CloneOf(open)
		open.Direct = sum
		return a.openTunnel(ctx, controller, open)
	}}
}

// askRestore answers whether this node could resume an image.
func (a *agent) askRestore(ctx context.Context, s *session, order *pb.AskRestore) {
	answer := func(property, reason string) {
		a.send(&pb.NodeMessage{What: &pb.NodeMessage_RestoreAnswer{RestoreAnswer: &pb.RestoreAnswer{
			Token: order.Token, Can: property == "", Property: registry.Words(property), Reason: registry.Words(reason),
		}}})
	}
	if !a.imaging.asks.TryAcquire(1) {
		answer("load", "this node answers too many such questions at once: ask again")
		return
	}
	a.tending.Go(func() {
		defer a.imaging.asks.Release(1)
		ctx, cancel := context.WithTimeout(ctx, askPatience)
		defer cancel()
		answer(a.misfit(ctx, s.target, order))
	})
}

// misfit answers the property that keeps this node from resuming an
// image, and why in a sentence; "" = it can. The image comes first: a node that has it is
// asked whether it still has, though it may not be able to restore any.
func (a *agent) misfit(ctx context.Context, controller string, order *pb.AskRestore) (property, reason string) {
	digest, err := images.Digest(order.GetImage())
	if err != nil {
		return "image", err.Error()
	}
	if err := a.checkOrder(order.Start); err != nil {
		return "node", err.Error()
	}
	name := a.machine.config.Name
	manifest, err := a.imaging.stores.Facts(ctx, order.Image, digest, name, a.dialer(controller, &pb.TunnelOpen{
		Alloc: order.Image.Alloc, FromNode: name, TargetNode: order.Image.Node, Image: order.Image, Facts: true,
	}).Dial)
	if err == nil {
		err = images.Same(manifest, order.Image)
	}
	switch {
	case errors.Is(err, images.ErrClosed), store.Away(err) && !errors.Is(err, store.ErrBroken), err != nil && ctx.Err() != nil:
		return "store", err.Error() // of the image itself this says nothing
	case err != nil:
		return "image", err.Error()
	}
	if a.machine.saving.GetCriu() == "" {
		return "CRIU", a.machine.saving.GetWhyNot()
	}
	if model := a.lackingModel(order.DeviceModels); model != "" {
		return "GPU", fmt.Sprintf("the job had %d GPUs, and this node has not as many of model %s", len(order.DeviceModels), model)
	}
	found, err := a.machine.fits(ctx, manifest, order, a.supervisors.Fits)
	if err != nil {
		return "node", err.Error()
	}
	return found.Property, found.Reason
}

// lackingModel answers a model of GPU of which this node has fewer than wanted;
// "" = none.
func (a *agent) lackingModel(wanted []string) string {
	devices, err := a.machine.devices()
	if err != nil {
		devices = nil
	}
	for _, model := range slices.Compact(slices.Sorted(slices.Values(wanted))) {
		have, want := 0, 0
		for _, d := range devices {
			if d.Model == model {
				have++
			}
		}
		for _, m := range wanted {
			if m == model {
				want++
			}
		}
		if have < want {
			return model
		}
	}
	return ""
}
