// Package passon carries calls of gRPC from one end to another without looking into their
// messages.
//
// Codec takes the place of the usual codec under its name, so that neither end notices;
// with it every message is a *Message. Stream joins a call that came in with one that goes
// out, in both directions, and returns what the far end answered at last, with its details.
// It decides nothing: who may call what, and who the caller is, is for those who use it.
package passon

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// Message is a message that is passed on unchanged.
type Message struct{ Data []byte }

// Codec passes bytes through.
type Codec struct{}

// Name is that of the codec that it replaces.
func (Codec) Name() string { return "proto" }

// Marshal takes a *Message.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*Message)
	if !ok {
		return nil, fmt.Errorf("cannot relay a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(m.Data)}, nil
}

// Unmarshal fills a *Message.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*Message)
	if !ok {
		return fmt.Errorf("cannot relay a %T", v)
	}
	m.Data = data.Materialize()
	return nil
}

// Copy passes messages on until the source ends, which is no error.
func Copy(send, receive func(any) error) error {
	for {
		m := new(Message)
		if err := receive(m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := send(m); err != nil {
			return err
		}
	}
}

// Stream makes the same call of method on conn, with the metadata of ctx, and joins both.
// ctx must end with the incoming call. heard says whether there was any answer.
func Stream(ctx context.Context, conn grpc.ClientConnInterface, method string, incoming grpc.ServerStream) (heard bool, err error) {
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
	err = Copy(incoming.SendMsg, func(m any) error {
		err := outgoing.RecvMsg(m)
		heard = heard || err == nil
		return err
	})
	return heard, err
}
