package passon

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/proto/budget"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// LeastHeld is what a small answer counts, in bytes: a stream has a cost beyond it.
const LeastHeld = 4 << 10

// Room bounds the bytes of answers that are held for those who asked: they are counted from
// before they come until they are written to whoever reads them. Requests need none: their
// messages are small.
type Room struct {
	Budget   *budget.Budget
	Who      string        // for whom they are held
	Patience time.Duration // how long an answer waits for room
}

// Stream makes the same call of method on conn, with the metadata of ctx, and joins both.
// ctx must end with the incoming call. heard says whether there was any answer.
func Stream(ctx context.Context, conn grpc.ClientConnInterface, method string, incoming grpc.ServerStream, room Room) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	about := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	outgoing, err := conn.NewStream(ctx, about, method, grpc.ForceCodecV2(Codec{}))
	if err != nil {
		return false, err
	}
	go func() {
		err := Copy(outgoing.SendMsg, incoming.RecvMsg)
		switch {
		case err == nil:
			_ = outgoing.CloseSend()
		case !errors.Is(err, io.EOF): // EOF: the far end has answered early
			cancel()
		}
	}()
	if lists[method] {
		room.Who += " lists"
	}
	if !staysOpen[method] {
		// Headers come with the first answer: until then nothing is held.
		if _, err := outgoing.Header(); err != nil {
			return false, err
		}
	}
	for {
		m, err := room.receive(ctx, outgoing, staysOpen[method])
		if errors.Is(err, io.EOF) {
			return heard, nil
		}
		if err != nil {
			return heard, err
		}
		heard = true
		if err := incoming.SendMsg(m); err != nil {
			return heard, err
		}
	}
}

// lists are the calls with many answers. They have room of their own, so that one which nobody
// reads, because a pager shows it, does not keep the same user's other commands from theirs.
var lists = func() map[string]bool {
	service, many := &pb.Controller_ServiceDesc, make(map[string]bool)
	for _, about := range service.Streams {
		many["/"+service.ServiceName+"/"+about.StreamName] = true
	}
	return many
}()

// staysOpen are the calls whose answers come now and then, for hours, and are small.
var staysOpen = func() map[string]bool {
	service := &pb.Controller_ServiceDesc
	open := map[string]bool{pb.Controller_Follow_FullMethodName: true}
	for _, about := range service.Streams {
		if about.ClientStreams && about.ServerStreams {
			open["/"+service.ServiceName+"/"+about.StreamName] = true
		}
	}
	return open
}()

// receive receives one answer. How large it will be is not known before it comes, so that
// there must be room for the largest, and what is not needed is given back. A call that stays
// open cannot have that for as long as it waits; its answers are small.
func (r Room) receive(ctx context.Context, outgoing grpc.ClientStream, small bool) (_ *Message, err error) {
	var share *budget.Share
	if !small {
		if share, err = r.take(ctx, spec.MaxMessageBytes); err != nil {
			return nil, err
		}
	}
	m := new(Message)
	if err := outgoing.RecvMsg(m); err != nil {
		if share != nil {
			share.Release()
		}
		return nil, err
	}
	if small {
		if share, err = r.take(ctx, max(int64(m.Len()), LeastHeld)); err != nil {
			m.data.Free()
			return nil, err
		}
	}
	share.Shrink(max(int64(m.Len()), LeastHeld))
	m.WhenGone(share.Release)
	return m, nil
}

func (r Room) take(ctx context.Context, bytes int64) (*budget.Share, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	share, err := r.Budget.Take(ctx, r.Who, bytes)
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "busy: answers of up to %s are held here that nobody reads, and this one found no room among them for %v: read or end the requests that are open, and try again",
			spec.FormatSize(uint64(r.Budget.Each)), r.Patience)
	}
	return share, nil
}
