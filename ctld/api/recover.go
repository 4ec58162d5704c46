package api

import (
	"context"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func (s *core) recoverUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	defer s.recovered(info.FullMethod, &err)
	if answer, err = handler(ctx, request); err == nil {
		err = fits(answer)
	}
	return answer, err
}

// recovered turns a panic of a handler into an error of its request. It must
// be deferred itself.
func (s *core) recovered(method string, err *error) {
	if fault := recover(); fault != nil {
		s.log.Error("a request made the controller panic; report this as a fault of gctld", "method", method, "panic", fault, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "internal error of the controller: its log says more")
	}
}
