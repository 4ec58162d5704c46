package api

import (
	"bytes"
	"context"
	"io"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// rawEnd is an end of a tunnel that says what it is given, and keeps what it hears.
type rawEnd struct {
	says  [][]byte
	heard []*pb.TunnelMessage
}

func (e *rawEnd) Context() context.Context { return context.Background() }

func (e *rawEnd) RecvMsg(message any) error {
	if len(e.says) == 0 {
		return io.EOF
	}
	data := e.says[0]
	e.says = e.says[1:]
	return passon.Codec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, message)
}

func (e *rawEnd) SendMsg(message any) error {
	data, err := passon.Codec{}.Marshal(message)
	if err != nil {
		return err
	}
	heard := new(pb.TunnelMessage)
	e.heard = append(e.heard, heard)
	return proto.Unmarshal(data.Materialize(), heard)
}

// TestCarry: what is carried is what was said, up to the half close; an end that opens a
// tunnel once more, in whatever it hides that, says too much at once or no message at all
// is refused, and nothing of that message arrives.
func TestCarry(t *testing.T) {
	say := func(message *pb.TunnelMessage) []byte { return prototest.Marshal(message) }
	data := func(n int) []byte {
		return say(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: bytes.Repeat([]byte{7}, n)}})
	}
	half := say(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}})
	attached := say(&pb.TunnelMessage{What: &pb.TunnelMessage_Attached{Attached: &pb.Attached{Node: "x"}}})
	open := say(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: &pb.TunnelOpen{FromNode: "x"}}})
	offer := say(&pb.TunnelMessage{What: &pb.TunnelMessage_Direct{Direct: &pb.Direct{Address: "a"}}})
	for name, row := range map[string]struct {
		says    [][]byte
		arrives int // messages
		code    codes.Code
	}{
		"bytes and an end":         {[][]byte{data(3), data(maxTunnelBytes), half}, 3, codes.OK},
		"nothing after its end":    {[][]byte{half, data(3)}, 1, codes.OK},
		"an end without a word":    {[][]byte{offer, data(0)}, 3, codes.OK}, // and the half close
		"too many bytes":           {[][]byte{data(1), data(maxTunnelBytes + 1)}, 1, codes.InvalidArgument},
		"too much of other things": {[][]byte{append(bytes.Repeat(half, maxTunnelBytes), half...)}, 0, codes.InvalidArgument},
		"opened twice":             {[][]byte{open}, 0, codes.InvalidArgument},
		"opened behind bytes":      {[][]byte{append(data(5), open...)}, 0, codes.InvalidArgument},
		"a controller's word":      {[][]byte{append(data(5), attached...)}, 0, codes.InvalidArgument},
		"bytes behind such a word": {[][]byte{append(append([]byte(nil), attached...), data(5)...), half}, 2, codes.OK}, // it is none any more
		"no message":               {[][]byte{{0xff}}, 0, codes.InvalidArgument},
		"a piece of one":           {[][]byte{data(5)[:4]}, 0, codes.InvalidArgument},
	} {
		from, to := &rawEnd{says: row.says}, new(rawEnd)
		err := carry(to, from)
		if status.Code(err) != row.code || len(to.heard) != row.arrives {
			t.Errorf("%s: %v, and %d messages arrive", name, err, len(to.heard))
		}
		for i, heard := range to.heard {
			said := &pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}}
			if i < len(row.says) {
				said = new(pb.TunnelMessage)
				if err := proto.Unmarshal(row.says[i], said); err != nil {
					t.Fatal(err)
				}
			}
			if !proto.Equal(heard, said) || heard.GetAttached() != nil || heard.GetOpen() != nil {
				t.Errorf("%s: it said %v, and %v arrives", name, said, heard)
			}
		}
	}
}
