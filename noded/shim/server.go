package shim

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/socket"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

const (
	// stopPatience is how long the watchers of an ended allocation get to read its
	// last event.
	stopPatience = time.Second
	// stepPatience bounds one question to process 1.
	stepPatience = 10 * time.Second
)

// service is pb.Shim.
type service struct {
	pb.UnimplementedShimServer
	alloc *alloc
}

func (p *alloc) serve() (*grpc.Server, error) {
	listener, err := socket.Listen(p.dir.Path(bundle.SocketFile), 0, 0)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	pb.RegisterShimServer(server, &service{alloc: p})
	go func() {
		if err := server.Serve(listener); err != nil {
			p.log.Error("the supervisor's socket failed: the node daemon cannot reach this allocation", "error", err)
		}
	}()
	return server, nil
}

func stopServer(server *grpc.Server) {
	stopped := time.AfterFunc(stopPatience, server.Stop)
	defer stopped.Stop()
	server.GracefulStop()
}

// Watch implements pb.ShimServer.
func (s *service) Watch(_ *pb.ShimWatchRequest, stream grpc.ServerStreamingServer[pb.ShimEvent]) error {
	var told supervise.Told
	for {
		s.alloc.mu.Lock()
		ended, changed := s.alloc.ended, s.alloc.changed
		news := told.News(&s.alloc.core, s.alloc.checkpointableNow(), s.alloc.stuck)
		s.alloc.mu.Unlock()
		for _, event := range news {
			if err := stream.Send(event); err != nil {
				return err
			}
		}
		if ended != nil {
			return stream.Send(&pb.ShimEvent{What: &pb.ShimEvent_Ended{Ended: ended}})
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// StartBatch implements pb.ShimServer. It may be called again.
func (s *service) StartBatch(ctx context.Context, order *pb.ReleaseBatch) (*pb.ShimResponse, error) {
	p := s.alloc
	p.mu.Lock()
	ready := p.core.Ready
	p.mu.Unlock()
	if ready {
		if err := p.gang.meet(order.GetNetworkPeers()); err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
	}
	p.mu.Lock()
	asked := p.core.StartBatch()
	if asked == supervise.BatchResume { // the script continues where it was
		p.release()
		p.notify()
	}
	p.mu.Unlock()
	switch asked {
	case supervise.BatchEarly:
		return nil, status.Error(codes.FailedPrecondition, "the container is not up yet")
	case supervise.BatchNothing, supervise.BatchResume:
		return &pb.ShimResponse{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, stepPatience)
	defer cancel()
	if err := p.relay.AskInit(ctx, (*step.Client).StartBatch); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	p.mu.Lock()
	p.release()
	p.mu.Unlock()
	p.poke()
	return &pb.ShimResponse{}, nil
}

// End implements pb.ShimServer.
func (s *service) End(_ context.Context, request *pb.EndAlloc) (*pb.ShimResponse, error) {
	cause := pb.EndCause_END_CAUSE_CANCELLED
	if request.BatchEnded {
		cause = pb.EndCause_END_CAUSE_EXITED
	}
	s.alloc.endWarned(cause, time.Duration(request.TermAgainS)*time.Second, time.Duration(request.GraceS)*time.Second, "")
	return &pb.ShimResponse{}, nil
}

// Signal implements pb.ShimServer.
func (s *service) Signal(ctx context.Context, request *pb.SignalAlloc) (*pb.ShimResponse, error) {
	if request.Signal < 1 || request.Signal > 64 {
		return nil, status.Errorf(codes.InvalidArgument, "signal %d is not between 1 and 64", request.Signal)
	}
	s.alloc.mu.Lock()
	ready, suspended := s.alloc.core.Ready, s.alloc.core.Lease.Suspended
	s.alloc.mu.Unlock()
	switch {
	case !ready:
		return nil, status.Error(codes.FailedPrecondition, "the container is not up yet")
	case suspended: // process 1, which delivers it, is frozen too
		return nil, status.Error(codes.FailedPrecondition, "the job is suspended")
	}
	scope := step.ScopeSteps
	switch {
	case request.Batch:
		scope = step.ScopeBatch
	case request.Full:
		scope = step.ScopeAll
	}
	ctx, cancel := context.WithTimeout(ctx, stepPatience)
	defer cancel()
	err := s.alloc.relay.AskInit(ctx, func(c *step.Client) error { return c.Signal(request.Signal, scope, 0) })
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &pb.ShimResponse{}, nil
}

// JoinTunnel implements pb.ShimServer.
func (s *service) JoinTunnel(ctx context.Context, request *pb.Connect) (*pb.ShimResponse, error) {
	p := s.alloc
	if bundle.ID(request.Alloc) != p.dir.ID() {
		return nil, status.Errorf(codes.NotFound, "this is allocation %s, not %s", p.dir.ID(), bundle.ID(request.Alloc))
	}
	p.mu.Lock()
	ready := p.core.Ready
	p.mu.Unlock()
	if (request.Client || request.NetworkFrom != 0) && !ready {
		return nil, status.Error(codes.Unavailable, "the job's container is not up yet")
	}
	if err := p.relay.Join(ctx, request); err != nil {
		return nil, err
	}
	return &pb.ShimResponse{}, nil
}

// Renew implements pb.ShimServer.
func (s *service) Renew(_ context.Context, renewed *pb.LeaseRenewed) (*pb.ShimResponse, error) {
	s.alloc.renew(renewed)
	return &pb.ShimResponse{}, nil
}

// SetLimit implements pb.ShimServer. It may be called again.
func (s *service) SetLimit(_ context.Context, request *pb.SetTimeLimit) (*pb.ShimResponse, error) {
	if request.TimeLimitS == 0 {
		return nil, status.Error(codes.InvalidArgument, "a time limit of zero is not a limit: send the number of seconds")
	}
	s.alloc.mu.Lock()
	former := s.alloc.limitS
	s.alloc.limitS = request.TimeLimitS
	s.alloc.mu.Unlock()
	if former != request.TimeLimitS {
		s.alloc.log.Info("time limit changed", "seconds", request.TimeLimitS, "formerly", former)
	}
	s.alloc.poke()
	return &pb.ShimResponse{}, nil
}

// Suspend implements pb.ShimServer. It may be called again.
func (s *service) Suspend(_ context.Context, request *pb.SuspendAlloc) (*pb.ShimResponse, error) {
	s.alloc.suspend(request)
	return &pb.ShimResponse{}, nil
}

// Hold implements pb.ShimServer. It may be called again.
func (s *service) Hold(_ context.Context, request *pb.HoldAlloc) (*pb.ShimResponse, error) {
	s.alloc.hold(request)
	return &pb.ShimResponse{}, nil
}

// Save implements pb.ShimServer. It may be called again.
func (s *service) Save(_ context.Context, request *pb.SaveAlloc) (*pb.ShimResponse, error) {
	if bundle.ID(request.Alloc) != s.alloc.dir.ID() || request.Number == 0 {
		return nil, status.Errorf(codes.InvalidArgument, "image %d of allocation %s cannot be made of allocation %s", request.Number, bundle.ID(request.Alloc), s.alloc.dir.ID())
	}
	s.alloc.takeSave(request)
	return &pb.ShimResponse{}, nil
}

// ShowUsage implements pb.ShimServer.
func (s *service) ShowUsage(context.Context, *pb.ShimUsageRequest) (*pb.Usage, error) {
	usage, err := s.alloc.group.Usage()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &pb.Usage{PeakMemoryBytes: usage.PeakMemoryBytes, CpuNs: usage.CPUNs}, nil
}
