package api

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// DefaultUnreadLimit is how long an answer may stay unread. Flow control keeps
// it small meanwhile, but it holds the state of the moment of the request. A
// pager whose user keeps reading is served; one left open over lunch is not.
const DefaultUnreadLimit = 5 * time.Minute

// unreadStream notices a client that does not read.
type unreadStream struct {
	grpc.ServerStream
	limit   time.Duration
	once    sync.Once
	stalled chan struct{} // closed when a message was not taken in time
}

func (u *unreadStream) SendMsg(message any) error {
	if err := fits(message); err != nil {
		return err
	}
	timer := time.AfterFunc(u.limit, func() { u.once.Do(func() { close(u.stalled) }) })
	defer timer.Stop()
	return u.ServerStream.SendMsg(message)
}

// dropUnread ends a stream whose client does not read, and its connection:
// otherwise the stream would keep what it holds as long as the connection. A
// node's connection that serves a whole job stays, and a tunnel may wait for as
// long as the program behind it does.
func (s *core) dropUnread(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	if info.FullMethod == pb.NodeLink_Tunnel_FullMethodName {
		defer s.recovered(info.FullMethod, &err)
		return handler(server, stream)
	}
	limit := s.options.UnreadLimit
	watched := &unreadStream{ServerStream: stream, limit: limit, stalled: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		defer s.recovered(info.FullMethod, &err)
		err = handler(server, watched)
	}()
	select {
	case err := <-done:
		return err
	case <-watched.stalled:
		refusals.WithLabelValues(boundUnread).Inc()
		from, _ := s.who(stream.Context())
		s.log.Info("a client does not read its answer and is cut off", "method", info.FullMethod, "client", from.String(), "limit", limit)
		if from == nil || from.owner == nil {
			hangUp(stream.Context())
		}
		return status.Errorf(codes.DeadlineExceeded, "the answer was not read for %v: ask again", limit)
	}
}

// hangUp closes the connection of a request.
func hangUp(ctx context.Context) {
	if remote, ok := peer.FromContext(ctx); ok {
		if info, ok := remote.AuthInfo.(interface{ close() }); ok {
			info.close()
		}
	}
}
