package api

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/gleaner-hpc/gleaner/proto/passon"
)

// A message has a bound in bytes, and one more: two bytes can name a message within
// it, which takes a hundred in memory. So 16 MiB of these would take a gigabyte, in
// each of the requests that one user may have under way.
const (
	// maxParts bounds the texts and messages within one message: all jobs, tasks,
	// variables and arguments that a request may name, and as much again.
	maxParts = 1 << 18
	// manyBytes is from what size on parts are counted: below it they take little.
	manyBytes = 64 << 10
	// maxDepth bounds messages within messages. Ours have fewer than ten levels.
	maxDepth = 32
)

// partsCodec is the codec of servers: it counts the parts of a large message before it
// makes them. A message that is passed on is not taken apart.
type partsCodec struct{ passon.Codec }

// Unmarshal implements encoding.CodecV2.
func (c partsCodec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(protobuf.Message)
	if !ok || data.Len() <= manyBytes {
		return c.Codec.Unmarshal(data, v)
	}
	bytes := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer bytes.Free()
	return unmarshal(bytes.ReadOnlyData(), message)
}

// unmarshal makes a message, unless it has too many parts.
func unmarshal(data []byte, message protobuf.Message) error {
	left := maxParts
	if !countParts(data, message.ProtoReflect().Descriptor(), maxDepth, &left) {
		return fmt.Errorf("it holds more than %d texts and messages: ask for less at once", maxParts)
	}
	return protobuf.Unmarshal(data, message)
}

// countParts takes the parts of a message from what is left, and reports whether that was
// enough. What is no message is left to Unmarshal.
func countParts(data []byte, about protoreflect.MessageDescriptor, depth int, left *int) bool {
	if depth == 0 {
		return false
	}
	for len(data) > 0 && *left >= 0 {
		number, kind, size := protowire.ConsumeTag(data)
		if size < 0 {
			return true
		}
		data = data[size:]
		if size = protowire.ConsumeFieldValue(number, kind, data); size < 0 {
			return true
		}
		value := data[:size]
		data = data[size:]
		if kind != protowire.BytesType {
			continue
		}
		*left--
		field := about.Fields().ByNumber(number)
		if field == nil {
			continue
		}
		inside, _ := protowire.ConsumeBytes(value)
		switch {
		case field.Message() != nil:
			if !countParts(inside, field.Message(), depth-1, left) {
				return false
			}
		case field.IsList() && field.IsPacked():
			*left -= len(inside) / 4 // each byte can be a number, of four or eight
		}
	}
	return *left >= 0
}
