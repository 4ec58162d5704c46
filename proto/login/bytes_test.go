package login

import (
	"context"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

const mib = 1 << 20

func stalled(t *testing.T, socket string) *prototest.Stalled {
	return prototest.NewStalled(t, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	})
}

// TestBytesOfOneUser: whatever a user begins to send and does not end, or asks for and does not
// read, the agent of the host holds little of it.
func TestBytesOfOneUser(t *testing.T) {
	patience := answerPatience
	answerPatience = 200 * time.Millisecond
	t.Cleanup(func() { answerPatience = patience })
	c, agent, socket := startedAgent(t)
	c.listed = prototest.Marshal(&pb.ListJobsResponse{Jobs: []*pb.Job{{Spec: &pb.JobSpec{Script: make([]byte, 9*mib)}}}}) // all calls have the same memory
	before := prototest.Heap()
	attacker := stalled(t, socket)
	for range 20 {
		select {
		case code := <-attacker.Promise(pb.Controller_Submit_FullMethodName, 15*mib):
			if code != "8" {
				t.Errorf("a message of 15 MiB ends with %q", code)
			}
		case <-time.After(prototest.Patience):
			t.Fatal("a message of 15 MiB is not refused")
		}
	}
	attacker = stalled(t, socket) // the former was told to calm down
	for range maxCalls / 2 {
		attacker.Promise(pb.Controller_Submit_FullMethodName, spec.MaxPieceBytes)
	}
	reader := stalled(t, socket)
	for range maxCalls / 4 {
		reader.Ask(pb.Controller_ListJobs_FullMethodName, &pb.ListJobsRequest{})
	}
	prototest.Eventually(t, "answers are held", func() bool { return agent.answers.Held() > heldAnswers-spec.MaxMessageBytes })
	held := prototest.Heap() - before
	if t.Logf("%d MiB held", held/mib); held > 3*heldAnswers {
		t.Errorf("%d MiB are held", held/mib)
	}
	mine := pb.NewControllerClient(client(t, socket))
	if _, err := mine.Ping(prototest.Soon(t), &pb.PingRequest{}); err != nil {
		t.Errorf("another command meanwhile: %v", err)
	}
	list, err := mine.ListJobs(prototest.Soon(t), &pb.ListJobsRequest{})
	if err == nil {
		_, err = list.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("one more list: %v", err)
	}
	// Another user has room, whatever this one holds.
	share, err := agent.answers.Take(prototest.Soon(t), strconv.Itoa(os.Geteuid()+1), spec.MaxMessageBytes)
	if err != nil {
		t.Errorf("another user: %v", err)
	} else {
		share.Release()
	}
	reader.Leave()
	prototest.Eventually(t, "all is given back", func() bool {
		_ = prototest.Heap() // what was on connections that are gone
		return agent.answers.Held() == 0
	})
}
