package shim

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

const (
	// stopPatience is how long the watchers of an ended part get to read its
	// last event.
	stopPatience = time.Second
	// stepPatience bounds one question to process 1.
	stepPatience = 10 * time.Second
)

// service is pb.Shim.
type service struct {
	pb.UnimplementedShimServer
	part *part
}

func (p *part) serve() (*grpc.Server, error) {
	listener, err := listen(p.dir.path(socketFile), 0, 0)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	pb.RegisterShimServer(server, &service{part: p})
	go func() {
		if err := server.Serve(listener); err != nil {
			p.log.Error("the supervisor's socket failed: the node daemon cannot reach this part", "error", err)
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
	toldReady := false
	var toldStuck *pb.LeftOver
	toldLease, toldFrozen := false, false
	var toldSuspended *pb.PartSuspended
	var toldSaved *pb.PartSaved
	var toldGrade *pb.PartGrade
	for {
		s.part.mu.Lock()
		ready, ended, stuck, changed := s.part.ready, s.part.ended, s.part.stuck, s.part.changed
		held, suspended := s.part.lease, s.part.suspension()
		saved, grade := s.part.saves.last, s.part.gradeNow()
		s.part.mu.Unlock()
		// One that is suspended stands for that, whatever its lease.
		if frozen := ready && !held.Runs && !held.Suspended; held.Fence && (!toldLease || toldFrozen != frozen) {
			event := &pb.ShimEvent{What: &pb.ShimEvent_Lease{Lease: &pb.ShimLease{EndBoottimeNs: int64(held.End), Frozen: frozen}}}
			if err := stream.Send(event); err != nil {
				return err
			}
			toldLease, toldFrozen = true, frozen
		}
		if !proto.Equal(suspended, toldSuspended) {
			if err := stream.Send(&pb.ShimEvent{What: &pb.ShimEvent_Suspended{Suspended: suspended}}); err != nil {
				return err
			}
			toldSuspended = suspended
		}
		if ready && !toldReady {
			toldReady = true
			event := &pb.ShimEvent{What: &pb.ShimEvent_Ready{Ready: &pb.PartReady{Part: s.part.order.Part}}}
			if err := stream.Send(event); err != nil {
				return err
			}
		}
		if stuck != toldStuck {
			toldStuck = stuck
			event := &pb.ShimEvent{What: &pb.ShimEvent_Stuck{Stuck: cmp.Or(stuck, &pb.LeftOver{})}}
			if err := stream.Send(event); err != nil {
				return err
			}
		}
		if !proto.Equal(grade, toldGrade) {
			toldGrade = grade
			if err := stream.Send(&pb.ShimEvent{What: &pb.ShimEvent_Grade{Grade: grade}}); err != nil {
				return err
			}
		}
		if saved != toldSaved {
			toldSaved = saved
			if err := stream.Send(&pb.ShimEvent{What: &pb.ShimEvent_Saved{Saved: saved}}); err != nil {
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
func (s *service) StartBatch(ctx context.Context, _ *pb.ReleaseBatch) (*pb.ShimResponse, error) {
	p := s.part
	p.mu.Lock()
	ready, released := p.ready, p.released
	p.mu.Unlock()
	if !ready {
		return nil, status.Error(codes.FailedPrecondition, "the container is not up yet")
	}
	restored := p.order.Restore != nil
	if released || !p.batch && !restored || p.endAsked() {
		return &pb.ShimResponse{}, nil
	}
	if restored { // the script goes on where it was
		p.mu.Lock()
		defer p.mu.Unlock()
		p.release()
		p.notify()
		return &pb.ShimResponse{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, stepPatience)
	defer cancel()
	if err := p.askStep(ctx, (*step.Client).StartBatch); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	p.mu.Lock()
	p.release()
	p.mu.Unlock()
	p.poke()
	return &pb.ShimResponse{}, nil
}

// End implements pb.ShimServer.
func (s *service) End(_ context.Context, request *pb.EndPart) (*pb.ShimResponse, error) {
	cause := pb.EndCause_END_CAUSE_CANCELLED
	if request.BatchEnded {
		cause = pb.EndCause_END_CAUSE_EXITED
	}
	s.part.endWarned(cause, time.Duration(request.TermAgainS)*time.Second, time.Duration(request.GraceS)*time.Second, "")
	return &pb.ShimResponse{}, nil
}

// Signal implements pb.ShimServer.
func (s *service) Signal(ctx context.Context, request *pb.SignalPart) (*pb.ShimResponse, error) {
	if request.Signal < 1 || request.Signal > 64 {
		return nil, status.Errorf(codes.InvalidArgument, "signal %d is not between 1 and 64", request.Signal)
	}
	s.part.mu.Lock()
	ready, suspended := s.part.ready, s.part.lease.Suspended
	s.part.mu.Unlock()
	switch {
	case !ready:
		return nil, status.Error(codes.FailedPrecondition, "the container is not up yet")
	case suspended: // process 1, which delivers it, stands still too
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
	err := s.part.askStep(ctx, func(c *step.Client) error { return c.Signal(request.Signal, scope, 0) })
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &pb.ShimResponse{}, nil
}

// JoinTunnel implements pb.ShimServer.
func (s *service) JoinTunnel(ctx context.Context, request *pb.Connect) (*pb.ShimResponse, error) {
	if err := s.part.joinTunnel(ctx, request); err != nil {
		return nil, err
	}
	return &pb.ShimResponse{}, nil
}

// Renew implements pb.ShimServer.
func (s *service) Renew(_ context.Context, renewed *pb.LeaseRenewed) (*pb.ShimResponse, error) {
	s.part.renew(renewed)
	return &pb.ShimResponse{}, nil
}

// SetLimit implements pb.ShimServer. It may be called again.
func (s *service) SetLimit(_ context.Context, request *pb.SetTimeLimit) (*pb.ShimResponse, error) {
	if request.TimeLimitS == 0 {
		return nil, status.Error(codes.InvalidArgument, "a time limit of nothing is none")
	}
	s.part.mu.Lock()
	former := s.part.limitS
	s.part.limitS = request.TimeLimitS
	s.part.mu.Unlock()
	if former != request.TimeLimitS {
		s.part.log.Info("time limit changed", "seconds", request.TimeLimitS, "formerly", former)
	}
	s.part.poke()
	return &pb.ShimResponse{}, nil
}

// Suspend implements pb.ShimServer. It may be called again.
func (s *service) Suspend(_ context.Context, request *pb.SuspendPart) (*pb.ShimResponse, error) {
	s.part.suspend(request)
	return &pb.ShimResponse{}, nil
}

// Save implements pb.ShimServer. It may be called again.
func (s *service) Save(_ context.Context, request *pb.SavePart) (*pb.ShimResponse, error) {
	if partID(request.Part) != s.part.dir.id() || request.Number == 0 {
		return nil, status.Errorf(codes.InvalidArgument, "image %d of part %s cannot be made of part %s", request.Number, partID(request.Part), s.part.dir.id())
	}
	s.part.takeSave(request)
	return &pb.ShimResponse{}, nil
}

// ShowUsage implements pb.ShimServer.
func (s *service) ShowUsage(context.Context, *pb.ShimUsageRequest) (*pb.Usage, error) {
	usage, err := s.part.group.Usage()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &pb.Usage{PeakMemoryBytes: usage.PeakMemoryBytes, CpuNs: usage.CPUNs}, nil
}
