package logs

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestMain(m *testing.M) {
	lookEvery, sayAfter = 10*time.Millisecond, 0
	clienttest.Patient(m)
}

var stage = clienttest.Of(Command())

func TestDialogues(t *testing.T) { stage.Dialogues(t) }

func attached() *pb.TunnelMessage {
	return &pb.TunnelMessage{What: &pb.TunnelMessage_Attached{Attached: &pb.Attached{Node: "n1", Path: "/w/slurm-7.out"}}}
}

func from(offset uint64, another, renamed bool) *pb.TunnelMessage {
	return &pb.TunnelMessage{What: &pb.TunnelMessage_OutputFrom{OutputFrom: &pb.OutputFrom{Offset: offset, Another: another, Renamed: renamed}}}
}

func data(text string) *pb.TunnelMessage {
	return &pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: []byte(text)}}
}

func refused(text string) *pb.TunnelMessage {
	return &pb.TunnelMessage{What: &pb.TunnelMessage_Refused{Refused: &pb.Refused{Reason: text}}}
}

func messages(m ...*pb.TunnelMessage) []*pb.TunnelMessage { return m }

// become changes the job in the stub.
func become(state pb.JobState, restarts uint32) func(*clienttest.StubController) {
	return func(s *clienttest.StubController) {
		s.Jobs = []*pb.Job{{Id: &pb.JobId{Job: 7}, Spec: &pb.JobSpec{}, State: state, RestartCount: restarts, Reason: "Resources"}}
	}
}

// play types a command against a controller that plays visits, and tells what was asked
// in each.
func play(t *testing.T, line string, first pb.JobState, visits ...clienttest.OutputVisit) (clienttest.Outcome, string) {
	t.Helper()
	stub := &clienttest.StubController{Outputs: visits}
	become(first, 0)(stub)
	clienttest.ServeStub(t, stub)
	got := stage.Command(t, os.Getenv("GLEANER_CONTROLLER"), "", nil, strings.Fields(line)...)
	if len(stub.Outputs) > 0 {
		t.Errorf("%s: %d visits were not made", line, len(stub.Outputs))
	}
	var asked []string
	for _, written := range stub.Writes {
		read := written.(*pb.Attach).GetOutput()
		text := fmt.Sprintf("%d %q", read.GetHad(), read.GetLast())
		if read.Lines != nil {
			text += fmt.Sprintf(" lines %d", read.GetLines())
		}
		if read.GetFollow() {
			text += " follow"
		}
		asked = append(asked, text)
	}
	return got, strings.Join(asked, "; ")
}

// TestGoesOn: a connection that broke is made again, from where it was.
func TestGoesOn(t *testing.T) {
	got, asked := play(t, "glogs -n 2 7", pb.JobState_JOB_STATE_RUNNING,
		clienttest.OutputVisit{Send: messages(attached(), from(10, false, false), data("ab")), End: status.Error(codes.Unavailable, "gone")},
		clienttest.OutputVisit{Send: messages(attached(), from(12, false, false), data("c"))})
	if got.Status != 0 || got.Stdout != "abc" || asked != `0 "" lines 2; 12 "ab"` {
		t.Errorf("%+v, asked %s", got, asked)
	}
}

// TestFollows: a job is followed while it waits, runs, is requeued and until it is over, and
// what a renamed file has does not count.
func TestFollows(t *testing.T) {
	got, asked := play(t, "glogs -f 7", pb.JobState_JOB_STATE_RUNNING,
		clienttest.OutputVisit{Send: messages(attached(), from(0, false, false), data("one"), from(0, true, false), from(3, false, true), data("two"), from(0, false, false), data("t")),
			Then: become(pb.JobState_JOB_STATE_RUNNING, 1)},
		clienttest.OutputVisit{End: status.Error(codes.FailedPrecondition, "node n1 is away"), Then: become(pb.JobState_JOB_STATE_RUNNING, 1)},
		clienttest.OutputVisit{Send: messages(attached(), from(1, false, false), data("hree")), Then: become(pb.JobState_JOB_STATE_COMPLETED, 1)},
		clienttest.OutputVisit{Send: messages(attached(), from(5, false, false), data("!"))})
	if got.Status != 0 || got.Stdout != "onetwothree!" || asked != `0 "" follow; 1 "t" follow; 1 "t" follow; 5 "three"` {
		t.Errorf("%+v, asked %s", got, asked)
	}
	if want := "glogs: /w/slurm-7.out on n1 is another file now, or was begun again\nglogs: node n1 is away\n"; got.Stderr != want {
		t.Errorf("said %q, want %q", got.Stderr, want)
	}
}

// TestGoneAfterwards: a file that was read to its end, and removed as the job ended, is no
// error.
func TestGoneAfterwards(t *testing.T) {
	got, asked := play(t, "glogs -q -f 7", pb.JobState_JOB_STATE_RUNNING,
		clienttest.OutputVisit{Send: messages(attached(), from(0, false, false), data("all")), Then: become(pb.JobState_JOB_STATE_FAILED, 0)},
		clienttest.OutputVisit{Send: messages(attached(), refused("it is gone"))})
	if got.Status != 0 || got.Stdout != "all" || got.Stderr != "" || asked != `0 "" follow; 3 "all"` {
		t.Errorf("%+v, asked %s", got, asked)
	}
}

// TestCannot: what cannot be printed is an error that says why.
func TestCannot(t *testing.T) {
	for want, visit := range map[string]clienttest.OutputVisit{
		"glogs: error: it is gone\n": {Send: messages(attached(), refused("it is gone"))},
		"glogs: error: not yours\n":  {End: status.Error(codes.PermissionDenied, "not yours")},
		"glogs: error: the controllers are older than this command: upgrade them, or read the file itself\n": {
			Send: messages(&pb.TunnelMessage{What: &pb.TunnelMessage_Attached{Attached: &pb.Attached{Node: "n1"}}})},
	} {
		if got, _ := play(t, "glogs 7", pb.JobState_JOB_STATE_COMPLETED, visit); got.Status != 1 || got.Stderr != want || got.Stdout != "" {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}
