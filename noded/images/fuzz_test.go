package images

import (
	"bytes"
	"context"
	"io"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// scripted is a tunnel whose other end sends these messages.
type scripted struct{ messages [][]byte }

func (s *scripted) Send(*pb.TunnelMessage) error { return nil }
func (s *scripted) CloseSend() error             { return nil }
func (s *scripted) Recv() (*pb.TunnelMessage, error) {
	for len(s.messages) > 0 {
		message := new(pb.TunnelMessage)
		err := proto.Unmarshal(s.messages[0], message)
		s.messages = s.messages[1:]
		if err == nil {
			return message, nil // what is none does not come through gRPC
		}
	}
	return nil, io.EOF
}

func (s *scripted) RecvMsg(into any) error {
	for len(s.messages) > 0 {
		raw := s.messages[0]
		s.messages = s.messages[1:]
		if proto.Unmarshal(raw, new(pb.TunnelMessage)) == nil {
			return passon.Codec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, into)
		}
	}
	return io.EOF
}

// FuzzStream: whatever the other end of a tunnel sends, what is read is the data
// of its messages in order, up to the first that ends them, and then nothing.
func FuzzStream(f *testing.F) {
	data := func(text string) []byte {
		return prototest.Marshal(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: []byte(text)}})
	}
	end := prototest.Marshal(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}})
	open := prototest.Marshal(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: &pb.TunnelOpen{FromNode: "n1"}}})
	for _, messages := range [][][]byte{{data("a"), data(""), data("bc"), end, data("d")}, {open, data("x")}, {end}, {}, {[]byte("\xff"), data("y")}} {
		var all []byte
		for _, message := range messages {
			all = protowire.AppendBytes(all, message)
		}
		f.Add(all, 3)
	}
	f.Fuzz(func(t *testing.T, all []byte, size int) {
		var messages [][]byte
		for len(all) > 0 {
			message, n := protowire.ConsumeBytes(all)
			if n < 0 {
				break
			}
			messages, all = append(messages, message), all[n:]
		}
		var want []byte
		for other := (&scripted{messages}); ; {
			message, err := other.Recv()
			if err != nil {
				break
			}
			want = append(want, message.GetData()...)
			if message.GetHalfClose() {
				break
			}
		}
		closed := 0
		s := Stream(context.Background(), &scripted{messages}, nil, func() { closed++ })
		var got []byte
		for into := make([]byte, 1+max(size, -size)&0xff); ; {
			n, err := s.Read(into)
			got = append(got, into[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("read %q and not %q", got, want)
		}
		for range 2 {
			if err := s.Close(); err != nil || closed != 1 {
				t.Fatalf("closed %d times, %v", closed, err)
			}
		}
	})
}
