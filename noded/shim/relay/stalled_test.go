package relay

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/socket"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

const mib = 1 << 20

func stalled(t *testing.T, r *Relay) *prototest.Stalled {
	return prototest.NewStalled(t, func(ctx context.Context) (net.Conn, error) {
		return socket.Dial(ctx, r.Dir.Path(bundle.RunDir, bundle.JobSocket))
	})
}

// TestStalledRequests: however many requests a job begins and does not end, and whatever size
// it says that they have, its supervisor holds little of them, and answers the others.
func TestStalledRequests(t *testing.T) {
	r, _, conn := relayed(t, uint32(os.Getuid()))
	before := prototest.Heap()
	attacker, methods := stalled(t, r), []string{pb.Controller_Submit_FullMethodName, pb.Controller_Attach_FullMethodName, pb.Controller_InPieces_FullMethodName}
	for i := range 40 {
		select {
		case code := <-attacker.Promise(methods[i%len(methods)], 15*mib):
			if code != "8" {
				t.Errorf("a message of 15 MiB ends with %q", code)
			}
		case <-time.After(prototest.Patience):
			t.Fatal("a message of 15 MiB is not refused")
		}
	}
	attacker = stalled(t, r) // the former was told to calm down
	for i := range maxCalls - 4 {
		attacker.Promise(methods[i%len(methods)], spec.MaxPieceBytes)
	}
	prototest.Eventually(t, "the stalled calls are open", func() bool { return len(r.calls) == maxCalls-4 })
	if held := prototest.Heap() - before; held > 48*mib {
		t.Errorf("%d MiB are held", held/mib)
	}
	if _, err := pb.NewControllerClient(conn).Submit(deadline(t), &pb.SubmitRequest{Spec: &pb.JobSpec{Script: make([]byte, spec.PieceBytes)}}); err != nil {
		t.Errorf("an honest call meanwhile: %v", err)
	}
}

// TestUnreadAnswers: however many large answers a job asks for and does not read, also when
// the calls are over, they are held within the bound; other commands are answered.
func TestUnreadAnswers(t *testing.T) {
	r, c, conn := relayed(t, uint32(os.Getuid()))
	c.listed = prototest.Marshal(&pb.ListJobsResponse{Jobs: []*pb.Job{{Spec: &pb.JobSpec{Script: make([]byte, 9*mib)}}}}) // all calls have the same memory
	patience := answerPatience
	answerPatience = 200 * time.Millisecond
	t.Cleanup(func() { answerPatience = patience })
	before, most := prototest.Heap(), int64(0)
	attacker := stalled(t, r)
	for range 40 {
		attacker.Ask(pb.Controller_ListJobs_FullMethodName, &pb.ListJobsRequest{})
	}
	prototest.Eventually(t, "answers are held", func() bool {
		most = max(most, r.answers.Held())
		return r.answers.Held() > heldAnswers-spec.MaxMessageBytes
	})
	if held := prototest.Heap() - before; held > 2*heldAnswers {
		t.Errorf("%d MiB are held", held/mib)
	}
	if most > heldAnswers {
		t.Errorf("%d bytes were counted", most)
	}
	if _, err := pb.NewControllerClient(conn).Submit(deadline(t), &pb.SubmitRequest{}); err != nil {
		t.Errorf("another command meanwhile: %v", err)
	}
	list, err := pb.NewControllerClient(conn).ListJobs(deadline(t), &pb.ListJobsRequest{}, grpc.MaxCallRecvMsgSize(16*mib))
	if err == nil {
		_, err = list.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("one more list: %v", err)
	}
	attacker.Leave()
	prototest.Eventually(t, "all is given back", func() bool {
		_ = prototest.Heap() // what was on connections that are gone
		return r.answers.Held() == 0 && len(r.calls) == 0
	})
}

// TestLongAnswers: whatever a program in the place of process 1 answers, little of it is held.
func TestLongAnswers(t *testing.T) {
	r, _, _ := relayed(t, uint32(os.Getuid()))
	listener, err := socket.Listen(r.Dir.Path(bundle.RunDir, pid1.StepSocket), os.Getuid(), os.Getgid())
	must(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = step.Write(conn, &step.Failed{Text: strings.Repeat("x", mib)})
			conn.Close()
		}
	}()
	err = r.AskInit(deadline(t), func(c *step.Client) error { return c.Signal(10, step.ScopeAll, 0) })
	if !errors.Is(err, step.ErrTooLong) {
		t.Errorf("a long answer: %v", err)
	}
}
