package dial

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/proto/pieces"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// explainSize puts what to do in place of gRPC's words for a message over the
// limit, here or at the other end.
func explainSize(err error) error {
	said := status.Convert(err)
	if said.Code() != codes.ResourceExhausted || !strings.Contains(said.Message(), "larger than max") {
		return err
	}
	what := "the request is"
	if strings.Contains(said.Message(), "received message") {
		what = "a message between this program and the controller is"
	}
	return status.Errorf(codes.ResourceExhausted, "%s larger than the %s that a message may have: send or ask for less at once; "+
		"a script may have %s, and large data belongs into files that it reads", what,
		spec.FormatSize(spec.MaxMessageBytes), spec.FormatSize(spec.MaxScriptBytes))
}

func explainCall(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if message, is := inPieces(method, request); is {
		return explainSize(callInPieces(ctx, method, message, answer, func(ctx context.Context, about *grpc.StreamDesc, carrier string) (grpc.ClientStream, error) {
			return conn.NewStream(ctx, about, carrier, options...)
		}))
	}
	return explainSize(invoke(ctx, method, request, answer, conn, options...))
}

func explainStream(ctx context.Context, about *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if !about.ClientStreams && strings.HasPrefix(method, controllerPrefix) {
		return explainedStream{&oneRequest{method: method, open: func(request any) (grpc.ClientStream, error) {
			if message, is := inPieces(method, request); is {
				return pieces.Open(ctx, method, message, func(ctx context.Context, about *grpc.StreamDesc, carrier string) (grpc.ClientStream, error) {
					return open(ctx, about, conn, carrier, options...)
				})
			}
			stream, err := open(ctx, about, conn, method, options...)
			if err != nil {
				return nil, err
			}
			if err := stream.SendMsg(request); err != nil {
				return nil, err
			}
			return stream, nil
		}}}, nil
	}
	stream, err := open(ctx, about, conn, method, options...)
	if err != nil {
		return nil, explainSize(err)
	}
	return explainedStream{stream}, nil
}

type explainedStream struct {
	grpc.ClientStream
}

func (e explainedStream) SendMsg(message any) error {
	return explainSize(e.ClientStream.SendMsg(message))
}
func (e explainedStream) RecvMsg(message any) error {
	return explainSize(e.ClientStream.RecvMsg(message))
}
