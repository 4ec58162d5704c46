package cancel

import (
	"os"
	"os/user"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// knowEverybody makes every name one of a user, but "nobodyhere".
func knowEverybody(t *testing.T) {
	before := userName
	userName = func(word string) (string, error) {
		switch word {
		case "0":
			return "root", nil
		case "nobodyhere", "4294967294":
			return "", user.UnknownUserError(word)
		}
		return word, nil
	}
	t.Cleanup(func() { userName = before })
}

func TestCancelRequests(t *testing.T) {
	knowEverybody(t)
	one := uint32(1)
	ranges := func(first, last uint32) []*pb.ArrayRange {
		return []*pb.ArrayRange{{First: first, Last: last, Step: 1}}
	}
	for line, want := range map[string]*pb.CancelRequest{
		"12 13,14":  {Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: 12}, {Job: 13}, {Job: 14}}}},
		"12_1 -s 9": {Filter: &pb.JobFilter{}, Signal: 9, Tasks: []*pb.ArrayTasks{{Job: 12, Ranges: ranges(1, 1)}}},
		"12 13_[1-3] --signal=USR1 -b": {Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: 12}}}, Signal: 10, Batch: true,
			Tasks: []*pb.ArrayTasks{{Job: 13, Ranges: ranges(1, 3)}}},
		"-b -f -s SIGTERM 12": {Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: 12}}}, Signal: 15, Full: true},
		"-u 0":                {Filter: &pb.JobFilter{Users: []string{"root"}}},
		"-u 4294967294":       {Filter: &pb.JobFilter{Uids: []uint32{4294967294}}},
		"-u a,b -u c 12_1": {Filter: &pb.JobFilter{Users: []string{"a", "b", "c"},
			Ids: []*pb.JobId{{Job: 12, ArrayTask: &one}}}},
		"--me -t pd,R":                {Filter: &pb.JobFilter{Uids: []uint32{uint32(os.Getuid())}, States: []pb.JobState{clienttest.IsPending, clienttest.IsRunning}}},
		"-q high,low":                 {Filter: &pb.JobFilter{Qos: []string{"high", "low"}}},
		"-q high 12_3":                {Filter: &pb.JobFilter{Qos: []string{"high"}, Ids: []*pb.JobId{{Job: 12, ArrayTask: clienttest.Ptr(uint32(3))}}}},
		"-p x -n y -A z -w n[1-2]":    {Filter: &pb.JobFilter{Partitions: []string{"x"}, Names: []string{"y"}, Accounts: []string{"z"}, Nodes: []string{"n1", "n2"}}},
		"--jobname=y --state=Pending": {Filter: &pb.JobFilter{Names: []string{"y"}, States: []pb.JobState{clienttest.IsPending}}},
	} {
		controller := &clienttest.Scripted{}
		got := command(t, controller.Start(t), "", nil, append([]string{"gcancel"}, strings.Fields(line)...)...)
		if got != (clienttest.Outcome{}) || len(controller.Cancels) != 1 {
			t.Errorf("%s: %+v, %d requests", line, got, len(controller.Cancels))
			continue
		}
		if diff := cmp.Diff(want, controller.Cancels[0], protocmp.Transform(), protocmp.IgnoreFields(&pb.CancelRequest{}, "request_id")); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

func TestCancelRefuses(t *testing.T) {
	knowEverybody(t)
	for line, want := range map[string]string{
		"":                 "gcancel: error: No job identification provided\n",
		"abc":              "gcancel: error: Invalid job id abc\n",
		"12 0":             "gcancel: error: Invalid job id 0\n",
		"12.0":             "gcancel: error: Cancelling one step (12.0) is not supported",
		"-s FOO 12":        "gcancel: error: Unknown job signal: ",
		"-t COMPLETED":     "gcancel: error: Invalid job state specified: COMPLETED",
		"-t bogus":         "gcancel: error: Invalid job state specified: bogus",
		"-u nobodyhere":    "gcancel: error: Invalid user name: nobodyhere\n",
		"-u 4294967294,a":  "gcancel: error: Invalid user name: 4294967294\n",
		"--user= -p x":     "gcancel: error: Invalid --user specification: it is empty\n",
		"-i 12":            "gcancel: error: --interactive is not supported",
		"--bogus 12":       "gcancel: unrecognized option '--bogus'\nTry \"gcancel --help\" for more information\n",
		"-u x 1_[0-90000]": "gcancel: error: 1_[0-90000] with further conditions names more than",
	} {
		controller := &clienttest.Scripted{}
		got := command(t, controller.Start(t), "", nil, append([]string{"gcancel"}, strings.Fields(line)...)...)
		if got.Status != 1 || !strings.HasPrefix(got.Stderr, want) || len(controller.Cancels) > 0 {
			t.Errorf("%q: %+v, want %q", line, got, want)
		}
	}
}

func TestCancelAnswers(t *testing.T) {
	knowEverybody(t)
	id := &pb.JobId{Job: 12}
	unknown := &pb.JobResult{Id: id, Error: "Invalid job id specified"}
	over := &pb.JobResult{Id: id, AlreadyDone: true}
	denied := &pb.JobResult{Id: id, Error: "Access/permission denied"}
	nobody := &pb.JobResult{Id: id, Error: "the signal was not delivered: node n1: " + step.NobodyToSignal}
	const prefix = "gcancel: error: Kill job error on job id 12: "
	for _, test := range []struct {
		line   string
		result *pb.JobResult
		err    error
		want   clienttest.Outcome
	}{
		{"12", &pb.JobResult{Id: id}, nil, clienttest.Outcome{}},
		{"12", unknown, nil, clienttest.Outcome{}},
		{"12", nil, status.Error(codes.NotFound, "Invalid job id specified"), clienttest.Outcome{}},
		{"-v 12", unknown, nil, clienttest.Outcome{Status: 0, Stdout: "", Stderr: "gcancel: Terminating job 12\n" + prefix + "Invalid job id specified\n"}},
		{"-v 12", over, nil, clienttest.Outcome{Status: 0, Stdout: "", Stderr: "gcancel: Terminating job 12\n" + prefix + "Job/step already completing or completed\n"}},
		{"-s USR1 12", over, nil, clienttest.Outcome{Status: 1, Stdout: "", Stderr: prefix + "Job/step already completing or completed\n"}},
		{"-Q -s USR1 12", over, nil, clienttest.Outcome{}},
		{"-v -s USR1 12_3", &pb.JobResult{Id: id}, nil, clienttest.Outcome{Status: 0, Stdout: "", Stderr: "gcancel: Signal 10 to job 12_3\n"}},
		{"-s USR1 12", nobody, nil, clienttest.Outcome{Status: 0, Stdout: "", Stderr: "gcancel: job 12 runs no steps, and only those were to have the signal: --batch sends it to the script, --full to both\n"}},
		{"-Q -s USR1 12", nobody, nil, clienttest.Outcome{}},
		{"-b -s USR1 12", nobody, nil, clienttest.Outcome{Status: 1, Stdout: "", Stderr: prefix + nobody.Error + "\n"}},
		{"12", denied, nil, clienttest.Outcome{Status: 210, Stdout: "", Stderr: prefix + "Access/permission denied\n"}},
		{"-u x", nil, status.Error(codes.PermissionDenied, "no \x1b[2J"), clienttest.Outcome{Status: 1, Stdout: "", Stderr: "gcancel: error: Kill job error: no ?[2J\n"}},
	} {
		controller := &clienttest.Scripted{OnCancel: func(*pb.CancelRequest) (*pb.CancelResponse, error) {
			if test.result == nil {
				return &pb.CancelResponse{}, test.err
			}
			return &pb.CancelResponse{Results: []*pb.JobResult{test.result}}, test.err
		}}
		if got := command(t, controller.Start(t), "", nil, append([]string{"gcancel"}, strings.Fields(test.line)...)...); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.line, got, test.want)
		}
	}
}

func TestCancelTakesConditionsFromTheEnvironment(t *testing.T) {
	knowEverybody(t)
	controller := &clienttest.Scripted{}
	command(t, controller.Start(t), "", []string{"SCANCEL_USER=ann", "GCANCEL_PARTITION=gpu"}, "gcancel", "-p", "cpu")
	filter := controller.Cancels[0].GetFilter()
	if strings.Join(filter.GetUsers(), " ") != "ann" || strings.Join(filter.GetPartitions(), " ") != "cpu" {
		t.Errorf("%v", filter)
	}
}
