package api

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/gleaner-hpc/gleaner/ctld/peerlink"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
)

// metadataAnswered is in the trailer of what another controller answered: an
// error without it comes from the connection.
const metadataAnswered = "gleaner-answered"

// answeredHere are the requests that every controller answers for itself.
var answeredHere = map[string]bool{
	pb.Controller_Ping_FullMethodName: true,
}

// bulk are the requests that are passed on over separate connections.
var bulk = map[string]bool{
	pb.NodeLink_Tunnel_FullMethodName:            true,
	pb.Controller_Attach_FullMethodName:          true,
	pb.Controller_SaveSnapshot_FullMethodName:    true,
	pb.Controller_ListRuns_FullMethodName:        true,
	pb.Controller_ListNodeEvents_FullMethodName:  true,
	pb.Controller_RestoreSnapshot_FullMethodName: true,
}

// way is where one request goes.
type way struct {
	conn grpc.ClientConnInterface
	peerlink.Route
}

// wayOf finds the leader for a request; nil: this controller answers it,
// perhaps with a refusal. What another controller passed on is never passed on
// again: two that each take the other for the leader would send it round
// forever.
func (s *core) wayOf(ctx context.Context, method string) (*way, error) {
	if s.peers == nil || answeredHere[method] || fromPeer(ctx) != "" || s.leads() {
		return nil, nil
	}
	lane := peerlink.Control
	if bulk[method] {
		lane = peerlink.Bulk
	}
	conn, route, err := s.peers.Leader(lane)
	switch {
	case err != nil:
		return nil, status.Errorf(codes.Unavailable, "controller %s does not lead and cannot pass the request on: %v", s.cluster.Name(), err)
	case conn == nil:
		return nil, nil
	}
	return &way{conn: conn, Route: route}, nil
}

// fromPeer is the controller at the other end of the connection, "" = none.
func fromPeer(ctx context.Context) string {
	if remote, ok := peer.FromContext(ctx); ok {
		if info, ok := remote.AuthInfo.(linkInfo); ok {
			return info.name
		}
	}
	return ""
}

// forwardUnary passes a request on to the leader.
func (s *core) forwardUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	way, err := s.wayOf(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	if way == nil {
		return handler(ctx, request)
	}
	notePassedOn(ctx, way.Leader)
	return s.call(ctx, way, info.FullMethod, request)
}

func (s *core) call(ctx context.Context, way *way, method string, request any) (any, error) {
	ctx, cancel, err := s.outgoing(ctx, way, formerLimit)
	if err != nil {
		return nil, err
	}
	defer cancel()
	output, err := shapeOf(method)
	if err != nil {
		return nil, err
	}
	answer := output.New().Interface()
	var trailer metadata.MD
	if err := way.conn.Invoke(ctx, method, request, answer, grpc.Trailer(&trailer)); err != nil {
		return nil, s.passedBack(err, trailer, way)
	}
	return answer, nil
}

// formerLimit is how long a leader that was voted out may still answer a
// request: it is often the one that handed the lead over.
const formerLimit = time.Second

// outgoing is the context of a request that is passed on. It ends a while after
// another controller leads; less than 0 = not for that.
func (s *core) outgoing(ctx context.Context, way *way, after time.Duration) (context.Context, context.CancelFunc, error) {
	from, err := s.connection(ctx)
	if err != nil {
		return nil, nil, err
	}
	noteCaller(ctx, from)
	ctx, cancel := context.WithCancel(passOn(ctx, from))
	if after < 0 {
		return ctx, cancel, nil
	}
	stop := context.AfterFunc(way.Over, func() { time.AfterFunc(after, cancel) })
	return ctx, func() { stop(); cancel() }, nil
}

// passedBack is an error in the form that the caller should see.
func (s *core) passedBack(err error, trailer metadata.MD, way *way) error {
	if len(trailer.Get(metadataAnswered)) > 0 {
		return err
	}
	select {
	case <-way.Over.Done():
		return status.Errorf(codes.Unavailable, "controller %s, which led, does not any more: ask again with the same request id", way.Leader)
	default:
	}
	switch said := status.Convert(err); said.Code() {
	case codes.Unavailable, codes.Internal:
		return status.Errorf(codes.Unavailable, "controller %s, which leads, does not answer controller %s: ask again with the same request id (%s)", way.Leader, s.cluster.Name(), said.Message())
	default:
		return err
	}
}

// forwardStream passes a stream on to the leader, both ways.
func (s *core) forwardStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	way, err := s.wayOf(stream.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	if way == nil {
		return handler(server, stream)
	}
	notePassedOn(stream.Context(), way.Leader)
	after := time.Duration(0)
	if info.FullMethod == pb.NodeLink_Tunnel_FullMethodName || info.FullMethod == pb.Controller_Attach_FullMethodName {
		after = -1 // what it carries does not depend on the leader
	}
	ctx, cancel, err := s.outgoing(stream.Context(), way, after)
	if err != nil {
		return err
	}
	defer cancel()
	about := &grpc.StreamDesc{ServerStreams: info.IsServerStream, ClientStreams: info.IsClientStream}
	onward, err := way.conn.NewStream(ctx, about, info.FullMethod, grpc.ForceCodecV2(passon.Codec{}))
	if err != nil {
		return s.passedBack(err, nil, way)
	}
	go func() {
		if err := carryUp(stream, onward, info.IsClientStream); err != nil {
			cancel()
		}
	}()
	err = carryDown(stream, onward)
	trailer := onward.Trailer()
	if err != nil {
		return s.passedBack(err, trailer, way)
	}
	return nil
}

// carryUp passes on what the client sends, up to its half close. An error is
// the client's; carryDown gets the leader's.
func carryUp(stream grpc.ServerStream, onward grpc.ClientStream, many bool) error {
	for {
		message := new(passon.Message)
		err := stream.RecvMsg(message)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if onward.SendMsg(message) != nil {
			return nil
		}
		if !many {
			break
		}
	}
	_ = onward.CloseSend() // carryDown gets its error too
	return nil
}

// carryDown passes on what the leader sends, to its end.
func carryDown(stream grpc.ServerStream, onward grpc.ClientStream) error {
	for {
		message := new(passon.Message)
		err := onward.RecvMsg(message)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.SendMsg(message); err != nil {
			return err
		}
	}
}

// shapes are what each method answers.
var shapes sync.Map

func shapeOf(method string) (protoreflect.MessageType, error) {
	if known, found := shapes.Load(method); found {
		return known.(protoreflect.MessageType), nil
	}
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	about, ok := found.(protoreflect.MethodDescriptor)
	if err != nil || !ok {
		return nil, status.Errorf(codes.Unimplemented, "%s is not known to this controller", method)
	}
	output, err := protoregistry.GlobalTypes.FindMessageByName(about.Output().FullName())
	if err != nil {
		return nil, status.Errorf(codes.Internal, "%s: %v", method, err)
	}
	shapes.Store(method, output)
	return output, nil
}

// answeredUnary marks the answers of this controller to another one.
func (s *core) answeredUnary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	_ = grpc.SetTrailer(ctx, metadata.Pairs(metadataAnswered, s.cluster.Name())) // fails only where there is no request
	return handler(ctx, request)
}

func (s *core) answeredStream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	stream.SetTrailer(metadata.Pairs(metadataAnswered, s.cluster.Name()))
	return handler(server, stream)
}
