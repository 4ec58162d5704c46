package tunneldata

import (
	"bytes"
	"io"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// cut is a message in pieces of so many bytes, as it comes from a connection.
func cut(data []byte, size int) *passon.Message {
	var pieces mem.BufferSlice
	for len(data) > 0 {
		n := min(size, len(data))
		pieces = append(pieces, mem.Copy(data[:n], mem.DefaultBufferPool()))
		data = data[n:]
	}
	m := new(passon.Message)
	if err := (passon.Codec{}).Unmarshal(pieces, m); err != nil {
		panic(err)
	}
	pieces.Free()
	return m
}

func check(t *testing.T, data []byte, size int) (is bool) {
	t.Helper()
	usual := new(pb.TunnelMessage)
	err := proto.Unmarshal(data, usual)
	n, is := Of(cut(data, size))
	reader := Reader(cut(data, size))
	if is != (reader != nil) {
		t.Fatalf("%x: it is data: %v, and there is a reader: %v", data, is, reader != nil)
	}
	if !is {
		if m := cut(data, size); Reader(m) != nil || !bytes.Equal(m.Bytes(), data) {
			t.Fatalf("%x is not as it came", data)
		}
		return false
	}
	got, readErr := io.ReadAll(reader)
	if _, only := usual.GetWhat().(*pb.TunnelMessage_Data); err != nil || readErr != nil || !only || n != len(got) || !bytes.Equal(got, usual.GetData()) || len(usual.ProtoReflect().GetUnknown()) > 0 {
		t.Fatalf("%x has %d bytes, %x, and is %v (%v, %v)", data, n, got, usual, err, readErr)
	}
	return true
}

// TestData: the bytes of a message of a tunnel are those that everybody reads in it,
// however it was cut on its way; a message with anything else is left to the caller.
func TestData(t *testing.T) {
	data := func(n int) []byte {
		return prototest.Marshal(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: bytes.Repeat([]byte("ab"), n)}})
	}
	half := prototest.Marshal(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}})
	for _, size := range []int{1, 3, 4096, 1 << 20} {
		for _, n := range []int{0, 1, 63, 64, 8191, 8192, 128 << 10} {
			if 2*n/size > 1<<15 {
				continue // so many pieces say nothing more
			}
			if !check(t, data(n), size) {
				t.Errorf("%d bytes are no data", 2*n)
			}
		}
		for name, other := range map[string][]byte{
			"nothing": nil, "a half close": half, "data and more": append(data(9), half...), "more and data": append(half, data(9)...),
			"data twice": append(data(1), data(2)...), "cut off": data(100)[:50], "a tag alone": data(1)[:1],
		} {
			if check(t, other, size) {
				t.Errorf("%s is data", name)
			}
		}
	}
}

// FuzzData: what is taken for data is what the usual way of reading finds.
func FuzzData(f *testing.F) {
	f.Add(prototest.Marshal(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: []byte("abc")}}), 2)
	for _, data := range prototest.Spoiled(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: []byte("abc")}}) {
		f.Add(data, 3)
	}
	f.Fuzz(func(t *testing.T, data []byte, size int) { check(t, data, max(size, 1)) })
}
