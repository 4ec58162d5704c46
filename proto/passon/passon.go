// Package passon carries calls of gRPC from one end to another without looking into their
// messages.
//
// Codec takes the place of the usual codec under its name, so that neither end notices: a
// *Message is passed on as it came, without a copy, and any other message is treated as
// usual. Stream joins a call that came in with one that goes out, in both directions, and
// returns what the far end answered at last, with its details. It decides nothing: who may
// call what, and who the caller is, is for those who use it.
package passon

import (
	"errors"
	"io"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Message is a message that is passed on unchanged. The memory in which it came is used
// for others once it is sent: it is sent at most once, and not read after that. It is for
// one goroutine at a time.
type Message struct{ data mem.BufferSlice }

// Of makes a message of bytes, which do not change any more.
func Of(data []byte) *Message { return &Message{data: mem.BufferSlice{mem.SliceBuffer(data)}} }

// Len is how many bytes it has.
func (m *Message) Len() int { return m.data.Len() }

// Bytes answers a copy.
func (m *Message) Bytes() []byte { return m.data.Materialize() }

// Head copies its first bytes, as many as there is room for, and answers how many.
func (m *Message) Head(into []byte) int { return m.data.CopyTo(into) }

// Reader answers a reader of its bytes. It takes the message: each piece of memory is used
// for others once it is read.
func (m *Message) Reader() *mem.Reader {
	reader := m.data.Reader()
	m.data.Free() // the reader has its own hold on it
	m.data = nil
	return reader
}

// Codec passes a *Message through.
type Codec struct{}

// usual is what it does with any other message.
var usual = encoding.GetCodecV2(proto.Name)

// Name is that of the codec that it replaces.
func (Codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	m, is := v.(*Message)
	if !is {
		return usual.Marshal(v)
	}
	data := m.data
	m.data = nil // whoever sends it frees it
	return data, nil
}

// Unmarshal implements encoding.CodecV2.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, is := v.(*Message)
	if !is {
		return usual.Unmarshal(data, v)
	}
	data.Ref()
	m.data = data
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
