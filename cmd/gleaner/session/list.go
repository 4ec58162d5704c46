package session

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// Sessions asks which the job has, until a controller answers.
func (s *Client) Sessions() (sessions []step.SessionInfo, err error) {
	c, err := client.Connect(s.inv)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	later := (*refusedError)(nil)
	begun := time.Now()
	for pace := client.RetryPace(); ; {
		err = c.Persist(s.inv.Context, c.Limits.Question, func(ctx context.Context, _ time.Duration) error {
			stream, _, err := openSession(ctx, c, &pb.Attach{Job: s.job})
			if err != nil {
				return err
			}
			defer stream.Close()
			late := time.AfterFunc(attachTime, func() { _ = stream.Close() })
			defer late.Stop()
			sessions, err = step.NewAttachment(stream).List()
			if errors.Is(err, io.EOF) {
				return status.Error(codes.Unimplemented, "process 1 of the job is older than the node's gnoded, and knows no sessions")
			}
			return err
		})
		if !errors.As(err, &later) || !later.later || time.Since(begun) > client.ContactTime {
			break
		}
		client.Sleep(s.inv.Context, pace)
	}
	if err != nil {
		return nil, s.cannot(client.Describe(err))
	}
	return sessions, nil
}
