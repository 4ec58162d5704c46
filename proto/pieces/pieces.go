// Package pieces makes calls whose request or answers are larger than one message of a
// user's program may be (spec.MaxPieceBytes).
//
// Contract: the first piece names the call and says how many bytes its request has, so that
// who serves it can refuse before any of them is there, or wait until there is room. What
// comes is never more than was said. Each answer ends with a piece that says so. It is for
// calls with one request; those with a stream of them send small messages.
package pieces

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Method is that of the call which carries the others.
const Method = pb.Controller_InPieces_FullMethodName

// errMore is returned when more comes than was said.
var errMore = errors.New("there is more than was said")

// Cut sends data in pieces, the last of which is the end.
func Cut(data []byte, send func(*pb.Piece) error) error {
	for {
		n := min(len(data), spec.PieceBytes)
		if err := send(&pb.Piece{Data: data[:n:n], End: n == len(data)}); err != nil || n == len(data) {
			return err
		}
		data = data[n:]
	}
}

// Join receives pieces up to the end. All are at most limit bytes together.
func Join(limit int, receive func() (*pb.Piece, error)) ([]byte, error) {
	var data []byte
	for {
		piece, err := receive()
		if err != nil {
			return nil, err
		}
		if len(data)+len(piece.GetData()) > limit {
			return nil, errMore
		}
		data = append(data, piece.GetData()...)
		switch {
		case piece.GetEnd():
			return data, nil
		case len(piece.GetData()) == 0:
			return nil, errors.New("a piece is empty and is not the end")
		}
	}
}

// Request receives the pieces of a request of exactly so many bytes, after the first.
func Request(bytes int, receive func() (*pb.Piece, error)) ([]byte, error) {
	data, err := Join(bytes, receive)
	if err == nil && len(data) != bytes {
		err = fmt.Errorf("%d bytes were said, and %d came", bytes, len(data))
	}
	return data, err
}

// Open makes a call of method with a request that it sends in pieces. open makes the call
// that carries it.
func Open(ctx context.Context, method string, request proto.Message, open func(context.Context, *grpc.StreamDesc, string) (grpc.ClientStream, error)) (*Stream, error) {
	data, err := proto.Marshal(request)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if len(data) > spec.MaxMessageBytes {
		return nil, TooLarge(len(data))
	}
	stream, err := open(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, Method)
	if err != nil {
		return nil, err
	}
	err = stream.SendMsg(&pb.Piece{Method: method, RequestBytes: uint32(len(data))})
	if err == nil {
		err = Cut(data, func(piece *pb.Piece) error { return stream.SendMsg(piece) })
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err != nil && !errors.Is(err, io.EOF) { // EOF: it has been answered, which says why
		return nil, err
	}
	return &Stream{stream}, nil
}

// TooLarge refuses a request that is too large even in pieces.
func TooLarge(bytes int) error {
	return status.Errorf(codes.ResourceExhausted, "the request has %d bytes and is larger than the %s that one may have: send or ask for less at once; "+
		"a script may have %s, and large data belongs into files that it reads", bytes,
		spec.FormatSize(spec.MaxMessageBytes), spec.FormatSize(spec.MaxScriptBytes))
}

// Stream is a call whose request was sent in pieces.
type Stream struct{ grpc.ClientStream }

// SendMsg implements grpc.ClientStream. The one request was sent.
func (s *Stream) SendMsg(any) error {
	return status.Error(codes.Internal, "a call in pieces has one request")
}

// CloseSend implements grpc.ClientStream; it is done.
func (s *Stream) CloseSend() error { return nil }

// RecvMsg implements grpc.ClientStream: it puts an answer together.
func (s *Stream) RecvMsg(answer any) error {
	message, ok := answer.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "an answer in pieces is no %T", answer)
	}
	data, err := Join(spec.MaxMessageBytes, func() (*pb.Piece, error) {
		piece := new(pb.Piece)
		return piece, s.ClientStream.RecvMsg(piece)
	})
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, errMore):
		return status.Errorf(codes.ResourceExhausted, "an answer is larger than %s: ask for less at once", spec.FormatSize(spec.MaxMessageBytes))
	case err != nil:
		return err
	}
	if err := proto.Unmarshal(data, message); err != nil {
		return status.Errorf(codes.Internal, "the answer cannot be read: %v", err)
	}
	return nil
}
