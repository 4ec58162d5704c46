package api

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/proto/budget"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/pieces"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file serves calls whose request comes in pieces (proto/pieces): it puts the request
// together within what its user may have under way in bytes, and then makes the call as if
// it had come in one message, with all that is asked, counted and written down of it.

// What is under way in pieces.
const (
	// largeRequestsPerUser is the bytes of one user: two of the largest requests, or four
	// of a script of the largest size.
	largeRequestsPerUser = 2 * spec.MaxMessageBytes
	// largeRequests is the bytes of all users who have some already.
	largeRequests = 16 * spec.MaxMessageBytes
)

// Variables, so that a test need not wait.
var (
	// roomPatience is how long a request waits until there is room for its bytes.
	roomPatience = 10 * time.Second
	// piecesPatience is how long all pieces of a request may take.
	piecesPatience = time.Minute
)

// called is one method that may be called in pieces.
type called struct {
	unary  *grpc.MethodDesc
	stream *grpc.StreamDesc
}

// largeCalls are the calls with one request, by their full names.
var largeCalls = func() map[string]called {
	calls := make(map[string]called)
	service := &pb.Controller_ServiceDesc
	for i := range service.Methods {
		calls[fullMethod(service.Methods[i].MethodName)] = called{unary: &service.Methods[i]}
	}
	for i := range service.Streams {
		if about := &service.Streams[i]; !about.ClientStreams {
			calls[fullMethod(about.StreamName)] = called{stream: about}
		}
	}
	return calls
}()

func fullMethod(name string) string {
	return "/" + pb.Controller_ServiceDesc.ServiceName + "/" + name
}

// inPieces serves calls in pieces by what serves the others.
func (s *Server) inPieces(unary grpc.UnaryServerInterceptor, stream grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	return func(server any, incoming grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if info.FullMethod != pieces.Method {
			return stream(server, incoming, info, handler)
		}
		return s.dropUnread(server, incoming, info, func(server any, incoming grpc.ServerStream) error {
			request, err := s.largeRequest(incoming)
			if err != nil {
				return err
			}
			defer request.share.Release()
			outgoing := &piecedStream{ServerStream: incoming, of: s.core, request: request.data}
			if about := request.call.stream; about != nil {
				return stream(server, outgoing, &grpc.StreamServerInfo{FullMethod: request.method, IsServerStream: true}, about.Handler)
			}
			answer, err := request.call.unary.Handler(server, incoming.Context(), outgoing.read, unary)
			if err != nil {
				return err
			}
			return outgoing.SendMsg(answer)
		})
	}
}

// largeRequest is a request that was put together.
type largeRequest struct {
	method string
	call   called
	data   []byte
	share  *budget.Share
}

// largeRequest puts a request together. What came is held until its share is released.
func (s *Server) largeRequest(incoming grpc.ServerStream) (*largeRequest, error) {
	ctx, cancel := context.WithTimeout(incoming.Context(), piecesPatience)
	defer cancel()
	type result struct {
		request *largeRequest
		err     error
	}
	done := make(chan result, 1)
	go func() { // reading ends with the call, not with a context of ours
		var r result
		defer func() { done <- r }()
		defer s.recovered(pieces.Method, &r.err)
		r.request, r.err = s.readLarge(ctx, incoming)
	}()
	select {
	case r := <-done:
		return r.request, r.err
	case <-ctx.Done():
	}
	// Either the call is over, or it ends with this answer, and the reading with it.
	go func() {
		if r := <-done; r.request != nil {
			r.request.share.Release()
		}
	}()
	return nil, status.Errorf(codes.Unavailable, "the request did not come within %v: send it again", piecesPatience)
}

func (s *Server) readLarge(ctx context.Context, incoming grpc.ServerStream) (*largeRequest, error) {
	receive := func() (*pb.Piece, error) {
		piece := new(pb.Piece)
		return piece, incoming.RecvMsg(piece)
	}
	first, err := receive()
	if err != nil {
		return nil, err
	}
	call, ok := largeCalls[first.GetMethod()]
	if !ok {
		return nil, status.Errorf(codes.Unimplemented, "%.100q is no call that can be made in pieces", first.GetMethod())
	}
	bytes := first.GetRequestBytes()
	if bytes > spec.MaxMessageBytes {
		return nil, pieces.TooLarge(int(bytes))
	}
	share, err := s.roomFor(ctx, personIn(incoming.Context()), int64(bytes))
	if err != nil {
		return nil, err
	}
	data, err := pieces.Request(int(bytes), receive)
	if err != nil {
		share.Release()
		if _, said := status.FromError(err); said {
			return nil, err
		}
		return nil, status.Errorf(codes.InvalidArgument, "the pieces of the request are not what was said: %v", err)
	}
	return &largeRequest{first.GetMethod(), call, data, share}, nil
}

// roomFor takes the bytes of a request from those of its user, and waits for them.
func (s *Server) roomFor(ctx context.Context, user string, bytes int64) (*budget.Share, error) {
	ctx, cancel := context.WithTimeout(ctx, roomPatience)
	defer cancel()
	share, err := s.large.Take(ctx, user, bytes)
	if err == nil {
		return share, nil
	}
	refusals.WithLabelValues(boundBytes).Inc()
	if user == "" {
		user = "whoever has no bounds"
	}
	return nil, status.Errorf(codes.Unavailable, "the controller is busy: %s has requests of %s under way, and this one of %d bytes found no room among them for %v: try again, and send fewer large scripts or environments at a time",
		user, spec.FormatSize(largeRequestsPerUser), bytes, roomPatience)
}

// piecedStream gives the one request, and sends answers in pieces.
type piecedStream struct {
	grpc.ServerStream
	of      *core
	request []byte
	given   bool
}

// read makes the message of the request.
func (p *piecedStream) read(into any) error {
	if raw, is := into.(*passon.Message); is {
		*raw = *passon.Of(p.request)
		return nil
	}
	message, ok := into.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "a request in pieces is no %T", into)
	}
	if err := unmarshal(p.request, message); err != nil {
		return status.Errorf(codes.Internal, "the request cannot be read: %v", err)
	}
	return nil
}

// RecvMsg implements grpc.ServerStream.
func (p *piecedStream) RecvMsg(into any) error {
	if p.given {
		return errors.New("a call in pieces has one request")
	}
	p.given = true
	return p.read(into)
}

// SendMsg implements grpc.ServerStream.
func (p *piecedStream) SendMsg(answer any) error {
	data, err := wireOf(answer)
	if err != nil {
		return err
	}
	if person := personIn(p.Context()); person != "" {
		share, err := p.of.holdBytes(p.Context(), person+" pieces", len(data))
		if err != nil {
			return err
		}
		defer share.Release()
	}
	return pieces.Cut(data, func(piece *pb.Piece) error { return p.ServerStream.SendMsg(piece) })
}

// wireOf are the bytes of an answer.
func wireOf(answer any) ([]byte, error) {
	if raw, is := answer.(*passon.Message); is {
		return raw.Bytes(), nil
	}
	message, ok := answer.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "an answer in pieces is no %T", answer)
	}
	if err := fits(message); err != nil {
		return nil, err
	}
	data, err := proto.Marshal(message)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return data, nil
}

// chainUnary is one interceptor that is many, the first of them outermost.
func chainUnary(all ...grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		for i := len(all) - 1; i >= 0; i-- {
			inner := handler
			handler = func(ctx context.Context, request any) (any, error) { return all[i](ctx, request, info, inner) }
		}
		return handler(ctx, request)
	}
}

// chainStream does the same for streams.
func chainStream(all ...grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		for i := len(all) - 1; i >= 0; i-- {
			inner := handler
			handler = func(server any, stream grpc.ServerStream) error { return all[i](server, stream, info, inner) }
		}
		return handler(server, stream)
	}
}
