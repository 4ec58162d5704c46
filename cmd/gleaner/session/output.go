package session

import (
	"context"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Output is the file that a job's script writes, as its node sends it.
type Output struct {
	From     *pb.Attached
	stream   *sessionStream
	first    *time.Timer // until the node has answered
	answered bool
}

// OpenOutput asks for it.
func OpenOutput(ctx context.Context, c *client.Client, job *pb.JobId, read *pb.ReadOutput) (*Output, error) {
	stream, from, err := openSession(ctx, c, &pb.Attach{Job: job, Output: read})
	if err != nil {
		return nil, err
	}
	if from.GetPath() == "" { // it does not know what was asked, and has joined process 1
		_ = stream.Close()
		return nil, status.Error(codes.Unimplemented, "the controllers are older than this command: upgrade them, or read the file itself")
	}
	return &Output{From: from, stream: stream, first: time.AfterFunc(attachTime, func() { _ = stream.Close() })}, nil
}

// Next is the next OutputFrom or data; io.EOF is its end.
func (o *Output) Next() (*pb.TunnelMessage, error) {
	for {
		message, err := o.stream.Stream.Recv()
		late := !o.answered && !o.first.Stop()
		o.answered = true
		if err != nil && late {
			err = client.Silence(attachTime)
		}
		if err != nil {
			return nil, err
		}
		switch {
		case message.GetRefused() != nil:
			return nil, status.Error(codes.FailedPrecondition, message.GetRefused().GetReason())
		case message.GetHalfClose():
			return nil, io.EOF
		case message.GetOutputFrom() != nil || len(message.GetData()) > 0:
			return message, nil
		}
	}
}

// Close ends it.
func (o *Output) Close() error {
	o.first.Stop()
	return o.stream.Close()
}
