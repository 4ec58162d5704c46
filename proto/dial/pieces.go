package dial

import (
	"context"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/proto/pieces"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

const controllerPrefix = "/gleaner.v1.Controller/"

// inPieces says whether a request is too large for one message.
func inPieces(method string, request any) (message proto.Message, is bool) {
	message, ok := request.(proto.Message)
	return message, ok && strings.HasPrefix(method, controllerPrefix) && proto.Size(message) > spec.PieceBytes
}

// callInPieces makes a call with a large request, and one answer.
func callInPieces(ctx context.Context, method string, request proto.Message, answer any, open func(context.Context, *grpc.StreamDesc, string) (grpc.ClientStream, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pieces.Open(ctx, method, request, open)
	if err != nil {
		return err
	}
	if err := stream.RecvMsg(answer); err != nil {
		if errors.Is(err, io.EOF) {
			return status.Error(codes.Internal, "the controller sent no answer")
		}
		return err
	}
	// Up to the end, which is when the call's headers and trailers are known.
	if err := stream.RecvMsg(answer); !errors.Is(err, io.EOF) {
		if err == nil {
			err = status.Error(codes.Internal, "the controller sent more than one answer")
		}
		return err
	}
	return nil
}

// oneRequest is a call with one request and many answers. It is opened with the request,
// whose size says how.
type oneRequest struct {
	grpc.ClientStream // nil before the request
	method            string
	open              func(request any) (grpc.ClientStream, error)
}

// SendMsg implements grpc.ClientStream.
func (o *oneRequest) SendMsg(request any) (err error) {
	if o.ClientStream != nil {
		return status.Errorf(codes.Internal, "%s has one request", o.method)
	}
	o.ClientStream, err = o.open(request)
	return err
}
