package api

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// fits refuses an answer that the client would not take.
func fits(answer any) error {
	message, ok := answer.(proto.Message)
	if !ok {
		return nil
	}
	if size := proto.Size(message); size > spec.MaxMessageBytes {
		return status.Errorf(codes.ResourceExhausted, "the answer has %d bytes, and a message at most %s: ask for less at once", size, spec.FormatSize(spec.MaxMessageBytes))
	}
	return nil
}
