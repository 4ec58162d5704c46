package noded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/images"
	"github.com/gleaner-hpc/gleaner/noded/output"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/noded/shim/prepare"
	"github.com/gleaner-hpc/gleaner/noded/userpath"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Bounds of the outputs that are read at once: each holds a thread for as long as a file
// server does not answer.
const (
	maxReaders   = 128
	maxReadersOf = 16 // of one user's jobs
)

// readers counts the outputs that are being read, by the number of their user.
type readers struct {
	mu   sync.Mutex
	open map[uint32]int
	all  int
}

func (r *readers) enter(uid uint32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[uid] >= maxReadersOf || r.all >= maxReaders {
		return fmt.Errorf("this node sends %d outputs of jobs, %d of this user's: end a glogs first", r.all, r.open[uid])
	}
	if r.open == nil {
		r.open = make(map[uint32]int)
	}
	r.open[uid]++
	r.all++
	return nil
}

func (r *readers) leave(uid uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	if r.open[uid]--; r.open[uid] == 0 {
		delete(r.open, uid)
	}
}

// sendOutput joins a tunnel and sends the output of a job there. A file server that is away
// may hold it up, so nobody waits for it.
func (a *agent) sendOutput(ctx context.Context, s *session, order *pb.SendOutput) {
	uid := order.GetOwner().GetUid()
	full := a.readers.enter(uid)
	if full != nil && !s.tunnels.TryAcquire(1) {
		return // who asked hears nothing in time
	}
	go func() {
		if full == nil {
			defer a.readers.leave(uid)
		} else {
			defer s.tunnels.Release(1)
		}
		log := a.log.With("job", order.GetAlloc().GetJob(), "epoch", order.GetAlloc().GetEpoch())
		if err := a.serveOutput(ctx, s.target, order, full); err != nil && ctx.Err() == nil {
			log.Debug("the output of a job was not sent", "error", err)
		}
	}()
}

// serveOutput answers in the tunnel what is in the way, too.
func (a *agent) serveOutput(ctx context.Context, controller string, order *pb.SendOutput, refused error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tunnel, end, err := a.openTunnel(ctx, controller, &pb.TunnelOpen{
		Alloc: order.Alloc, FromNode: a.machine.config.Name, Channel: order.Channel, Output: true,
	})
	if err != nil {
		return err
	}
	defer end()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer cancel()
		for {
			if _, err := tunnel.Recv(); err != nil {
				return // the client has left, or has all
			}
		}
	}()
	if refused == nil {
		refused = a.readOutput(ctx, order, tunnel)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if refused != nil {
		why := registry.Words(outputWords(order.GetPath(), refused))
		if err := tunnel.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Refused{Refused: &pb.Refused{Reason: why}}}); err != nil {
			return err
		}
	}
	if err := tunnel.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}}); err != nil {
		return err
	}
	_ = tunnel.CloseSend() // Recv says why, if it fails
	late := time.AfterFunc(refusePatience, cancel)
	defer late.Stop()
	<-gone
	return refused
}

// readOutput sends the file.
func (a *agent) readOutput(ctx context.Context, order *pb.SendOutput, tunnel images.Tunnel) error {
	user, err := prepare.Person(ctx, order.GetOwner(), a.log)
	if err != nil {
		return err
	}
	asked := order.GetRead()
	if len(asked.GetLast()) > output.MaxLast || uint64(len(asked.GetLast())) > asked.GetHad() {
		return errors.New("the request is of no use: it names more of the file than it had")
	}
	config := &a.machine.config
	request := output.Request{
		User: user.Identity(), Path: order.GetPath(), Lines: asked.Lines, Had: asked.GetHad(), Last: asked.GetLast(),
		Hidden: func(place userpath.Place) bool {
			return slices.ContainsFunc(append([]string{config.StateDir}, config.Hide...), func(dir string) bool {
				return place.Path == dir || strings.HasPrefix(place.Path, strings.TrimSuffix(dir, "/")+"/")
			})
		},
	}
	if asked.GetFollow() {
		request.Writes = func() bool { return a.runs(order.GetAlloc()) }
	}
	return output.Send(ctx, request, outputTunnel{tunnel})
}

// runs reports whether something of an allocation may still write.
func (a *agent) runs(id *pb.AllocId) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, there := a.allocs[registry.KeyOf(id)]
	return there && !p.Life.Over()
}

// outputWords says why a file is not sent.
func outputWords(path string, err error) string {
	var errno syscall.Errno
	switch {
	case errors.Is(err, userpath.ErrNotAFile):
		return path + " is no file: what goes to a pipe or a device is kept nowhere"
	case errors.Is(err, userpath.ErrNotOwn):
		return path + " belongs to somebody else, and the job's user may not write to it"
	case errors.Is(err, output.ErrHidden):
		return path + " " + output.ErrHidden.Error()
	case errors.Is(err, syscall.ENOENT):
		return path + " is gone: it was removed or renamed since the job wrote it, or the job never began to write"
	case errors.As(err, &errno):
		return path + ": " + errno.Error()
	}
	return err.Error()
}

// outputTunnel is a tunnel that takes a file's data.
type outputTunnel struct{ tunnel images.Tunnel }

func (t outputTunnel) From(offset uint64, another, renamed bool) error {
	return t.tunnel.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_OutputFrom{OutputFrom: &pb.OutputFrom{Offset: offset, Another: another, Renamed: renamed}}})
}

func (t outputTunnel) Data(data []byte) error {
	return t.tunnel.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: slices.Clone(data)}})
}
