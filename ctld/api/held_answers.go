package api

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/proto/budget"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file bounds the answers that users have asked for and do not read. gRPC takes one
// message of any size for each stream and lets go of the request; the message stays until it
// is read, or the connection is gone. So an answer is counted for its user from before it is
// made until its memory is given back.

// What is held of answers that nobody has read.
const (
	heldAnswersPerUser = 2 * spec.MaxMessageBytes // of lists, of sessions, and of other answers
	heldAnswers        = 16 * spec.MaxMessageBytes
)

// answerPatience is how long an answer waits until others of its user have been read.
var answerPatience = 10 * time.Second

// personKey is the key of the user that a request counts for.
type personKey struct{}

// personIn is the user that a request counts for, as admit found it; "" = nobody with bounds.
func personIn(ctx context.Context) string {
	person, _ := ctx.Value(personKey{}).(string)
	return person
}

// heldAnswer is an answer that is counted.
type heldAnswer struct {
	message proto.Message
	size    int
	share   *budget.Share
}

// holdUnary counts the answer of a request.
func (s *core) holdUnary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	answer, err := handler(ctx, request)
	person := personIn(ctx)
	if err != nil || person == "" {
		return answer, err
	}
	return s.hold(ctx, person, answer)
}

// holdStream counts the answers of a stream.
func (s *core) holdStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	person := personIn(stream.Context())
	if person == "" {
		return handler(server, stream)
	}
	// Lists have room of their own: one that a pager shows does not keep the same user's
	// other commands from their answers. So have sessions, whose terminals may stand still.
	kind := " lists"
	if info.FullMethod == pb.Controller_Attach_FullMethodName {
		kind = " sessions"
	}
	return handler(server, &heldStream{stream, s, person + kind})
}

type heldStream struct {
	grpc.ServerStream
	of  *core
	who string
}

// SendMsg implements grpc.ServerStream.
func (h *heldStream) SendMsg(answer any) error {
	held, err := h.of.hold(h.Context(), h.who, answer)
	if err != nil {
		return err
	}
	return h.ServerStream.SendMsg(held)
}

// hold takes the bytes of an answer from those of its user, and waits for them. What it
// answers is sent, or forgotten: it gives them back in either case.
func (s *core) hold(ctx context.Context, who string, answer any) (any, error) {
	switch answer := answer.(type) {
	case *passon.Message:
		share, err := s.holdBytes(ctx, who, answer.Len())
		if err == nil {
			answer.WhenGone(share.Release)
		}
		return answer, err
	case proto.Message:
		size := proto.Size(answer)
		share, err := s.holdBytes(ctx, who, size)
		return &heldAnswer{answer, size, share}, err
	}
	return answer, nil
}

func (s *core) holdBytes(ctx context.Context, who string, bytes int) (*budget.Share, error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	share, err := s.answers.Take(ctx, who, int64(max(bytes, passon.LeastHeld)))
	if err != nil {
		refusals.WithLabelValues(boundBytes).Inc()
		return nil, status.Errorf(codes.Unavailable, "the controller is busy: it holds answers of up to %s that were not read, and this one of %d bytes found no room among them for %v: read or end the requests that are open, and try again",
			spec.FormatSize(heldAnswersPerUser), bytes, answerPatience)
	}
	return share, nil
}

// Marshal implements encoding.CodecV2: the bytes of an answer that is counted say when they
// are given back.
func (c partsCodec) Marshal(v any) (mem.BufferSlice, error) {
	held, is := v.(*heldAnswer)
	if !is {
		return c.Codec.Marshal(v)
	}
	data, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 0, passon.Capacity(held.size)), held.message)
	if err != nil {
		held.share.Release()
		return nil, err
	}
	return passon.Kept(data, held.share.Release), nil
}
