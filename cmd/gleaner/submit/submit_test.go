package submit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

const goodScript = "#!/bin/sh\n#SBATCH --ntasks=3 --job-name=inside\n#GSUB -t5\nhostname\n"

func TestSubmit(t *testing.T) {
	controller := &clienttest.Scripted{}
	target := controller.Start(t)
	path := clienttest.WriteFile(t, filepath.Join(t.TempDir(), "train.sh"), goodScript)
	got := command(t, target, "", []string{"HOME=/h", "SBATCH_TIMELIMIT=7", "GSUB_PARTITION=gpu"}, "gsubmit", "-n4", path, "-n9", "--epochs")
	if got != (clienttest.Outcome{Status: 0, Stdout: "Submitted batch job 42\n", Stderr: ""}) {
		t.Fatalf("%+v", got)
	}
	request := controller.Submits[0]
	job := request.GetSpec()
	directory, _ := os.Getwd()
	for _, check := range []struct {
		name      string
		got, want any
	}{
		{"request id", len(request.GetRequestId()), 36},
		{"script", string(job.GetScript()), goodScript},
		{"arguments", strings.Join(job.GetArguments(), " "), "-n9 --epochs"},
		{"name", job.GetName(), "inside"},
		{"tasks", job.GetTasks(), uint32(4)},
		{"time limit", job.GetTimeLimitS(), uint32(420)},
		{"partitions", strings.Join(job.GetPartitions(), " "), "gpu"},
		{"work directory", job.GetWorkDirectory(), directory},
		{"command", job.GetCommand(), path},
		{"environment", strings.Join(job.GetEnvironment(), " "), "HOME=/h SBATCH_TIMELIMIT=7 GSUB_PARTITION=gpu"},
		{"submit host set", job.GetSubmitHost() != "", true},
		{"requeue", job.GetRequeue(), true},
	} {
		if check.got != check.want {
			t.Errorf("%s: got %v, want %v", check.name, check.got, check.want)
		}
	}
}

func TestSubmitForms(t *testing.T) {
	directory := t.TempDir()
	path := clienttest.WriteFile(t, filepath.Join(directory, "plain.sh"), "#!/bin/sh\ntrue\n")
	for _, test := range []struct {
		argv         []string
		stdin        string
		stdout, name string
	}{
		{[]string{"gsubmit", path}, "", "Submitted batch job 42\n", "plain.sh"},
		{[]string{"/usr/local/bin/gsubmit", "--parsable", path}, "", "42\n", "plain.sh"},
		{[]string{"gleaner", "submit", "-Q", path}, "", "", "plain.sh"},
		{[]string{"gsubmit", "-M", "lab", path}, "", "Submitted batch job 42 on cluster lab\n", "plain.sh"},
		{[]string{"gsubmit", "--parsable", "--clusters=all", path}, "", "42;lab\n", "plain.sh"},
		{[]string{"gsubmit", "--parsable", "--clusters=", path}, "", "42\n", "plain.sh"},
		{[]string{"gsubmit", "--parsable"}, "#!/bin/sh\n#SBATCH -M LAB\n", "42;lab\n", "gsubmit"},
		{[]string{"gsubmit"}, "#!/bin/sh\ntrue\n", "Submitted batch job 42\n", "gsubmit"},
		{[]string{"gsubmit", "--wrap", "hostname; date"}, "", "Submitted batch job 42\n", "wrap"},
		{[]string{"gsubmit", "--wrap=hostname", "-J", "other"}, "", "Submitted batch job 42\n", "other"},
	} {
		controller := &clienttest.Scripted{}
		got := command(t, controller.Start(t), test.stdin, nil, test.argv...)
		if got != (clienttest.Outcome{Status: 0, Stdout: test.stdout, Stderr: ""}) {
			t.Errorf("%q: %+v", test.argv, got)
			continue
		}
		if name := controller.Submits[0].GetSpec().GetName(); name != test.name {
			t.Errorf("%q: the job's name is %q, want %q", test.argv, name, test.name)
		}
	}
}

func TestSubmitRefusesScripts(t *testing.T) {
	directory := t.TempDir()
	for name, test := range map[string]struct{ script, want string }{
		"empty":    {"", "gsubmit: error: Batch script is empty!\n"},
		"blank":    {" \n\t\n", "gsubmit: error: Batch script contains only whitespace!\n"},
		"no shell": {"echo\n", "gsubmit: error: This does not look like a batch script.  The first\ngsubmit: error: line must start with #! followed by the path to an interpreter.\ngsubmit: error: For instance: #!/bin/sh\n"},
		"dos":      {"#!/bin/sh\r\ntrue\r\n", "gsubmit: error: Batch script contains DOS line breaks (\\r\\n)\n"},
		"bom":      {"\xef\xbb\xbf#!/bin/sh\ntrue\n", "gsubmit: error: Batch script begins with a byte order mark"},
		"binary":   {"#!/bin/sh\n\x00", "gsubmit: error: The batch script contains a NUL byte"},
		"large":    {"#!/bin/sh\n" + strings.Repeat("#", 5<<20), "gsubmit: error: Batch script is larger than 4G!"},
		"option":   {"#!/bin/sh\n#GSUB --bogus\n", "gsubmit: error: line 2 of SCRIPT: #GSUB: unrecognized option '--bogus'\n"},
		"utf-16":   {"\xff\xfe#\x00!\x00", "gsubmit: error: Batch script is in UTF-16"},
		"program":  {"\x7fELF\x00", "gsubmit: error: This does not look like a batch script.  The first\n"},
		"old mac":  {"#!/bin/sh\recho\r", "gsubmit: error: Batch script contains line breaks of old Macs (\\r)\n"},
		"no path":  {"#! \necho\n", "gsubmit: error: This does not look like a batch script.  The first\n"},
	} {
		controller := &clienttest.Scripted{}
		path := clienttest.WriteFile(t, filepath.Join(directory, "s"), test.script)
		got := command(t, controller.Start(t), "", nil, "gsubmit", path)
		want := strings.NewReplacer("4G!", "4M!", "SCRIPT", path).Replace(test.want)
		if !strings.HasPrefix(got.Stderr, want) || got.Status == 0 || len(controller.Submits) > 0 {
			t.Errorf("%s: %+v, want %q", name, got, want)
		}
	}
	for _, test := range []struct {
		argv   []string
		want   string
		status int
	}{
		{[]string{"gsubmit", "/nowhere/s"}, "gsubmit: error: Unable to open file /nowhere/s\n", 1},
		{[]string{"gsubmit", directory}, "gsubmit: error: Unable to open file " + directory + ": it is a directory\n", 1},
		{[]string{"gsubmit", "--wrap=x", "y"}, "gsubmit: error: Script arguments not permitted with --wrap option: \"y\"\n", 1},
		{[]string{"gsubmit", "--bogus"}, "gsubmit: unrecognized option '--bogus'\nTry \"gsubmit --help\" for more information\n", 255},
		{[]string{"gsubmit", "-t", "x", "--wrap=x"}, "gsubmit: error: Invalid --time specification", 255},
	} {
		if got := command(t, "unix:///nowhere", "", nil, test.argv...); !strings.HasPrefix(got.Stderr, test.want) || got.Status != test.status {
			t.Errorf("%q: %+v", test.argv, got)
		}
	}
}

// A bad value that nobody typed is traced to its source.
func TestSubmitNamesTheSource(t *testing.T) {
	script := clienttest.WriteFile(t, filepath.Join(t.TempDir(), "s"), "#!/bin/sh\n#SBATCH --mem=much\n")
	inScript, inVariable := "It is on line 2 of "+script+"\n", "It comes from the variable SBATCH_TIMELIMIT in the environment\n"
	for name, test := range map[string]struct {
		environ []string
		argv    []string
		want    string // "" = neither
	}{
		"script":       {nil, []string{script}, inScript},
		"variable":     {[]string{"SBATCH_TIMELIMIT=x"}, []string{"--mem=1", script}, inVariable},
		"both":         {[]string{"SBATCH_TIMELIMIT=x"}, []string{script}, inScript},
		"not set":      {[]string{"SBATCH_TIMELIMIT=", "SBATCH_PARTITION="}, []string{script}, inScript},
		"command line": {[]string{"SBATCH_TIMELIMIT=5"}, []string{"--mem=x", script}, ""},
	} {
		got := command(t, "unix:///nowhere", "", test.environ, append([]string{"gsubmit"}, test.argv...)...)
		for _, source := range []string{inScript, inVariable} {
			if strings.Contains(got.Stderr, source) != (source == test.want) || got.Status != 255 {
				t.Errorf("%s: %+v, want %q", name, got, test.want)
			}
		}
	}
}

// Ctrl-C ends the wait for a script that is never typed.
func TestSubmitInterruptedWhileReading(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.Close() })
	var stderr bytes.Buffer
	time.AfterFunc(20*time.Millisecond, cancel)
	status := stage.Dispatch(ctx, []string{"gsubmit"}, option.Streams{Stdin: reader, Stdout: io.Discard, Stderr: &stderr})
	if status != console.Interrupted || stderr.Len() > 0 {
		t.Errorf("status %d, %q", status, stderr.String())
	}
}

func TestSubmitRetriesWithTheSameRequest(t *testing.T) {
	controller := &clienttest.Scripted{OnSubmit: func(call int, _ *pb.SubmitRequest) (*pb.SubmitResponse, error) {
		if call < 4 {
			return nil, status.Error(codes.Unavailable, "no leader")
		}
		return &pb.SubmitResponse{JobId: 7, Warnings: []string{"be careful"}}, nil
	}}
	got := command(t, controller.Start(t), "", nil, "gsubmit", "--wrap=true")
	if got != (clienttest.Outcome{Status: 0, Stdout: "Submitted batch job 7\n", Stderr: "gsubmit: warning: be careful\n"}) || len(controller.Submits) != 4 {
		t.Fatalf("%+v after %d calls", got, len(controller.Submits))
	}
	for _, request := range controller.Submits {
		if request.GetRequestId() != controller.Submits[0].GetRequestId() {
			t.Error("a retry has another request id")
		}
	}
}

func TestSubmitFailures(t *testing.T) {
	clienttest.Impatient(t)
	refuse := func(code codes.Code, text string) string {
		controller := &clienttest.Scripted{OnSubmit: func(int, *pb.SubmitRequest) (*pb.SubmitResponse, error) { return nil, status.Error(code, text) }}
		return controller.Start(t)
	}
	for name, test := range map[string]struct {
		target string
		want   []string
	}{
		"refused": {refuse(codes.InvalidArgument, "Invalid partition name specified\nthe partitions are a b"),
			[]string{"gsubmit: error: Batch job submission failed: Invalid partition name specified\ngsubmit: error: the partitions are a b\n"}},
		"nobody there": {"unix:///nowhere/sock",
			[]string{"gsubmit: error: Batch job submission failed: unable to contact a controller at unix:///nowhere/sock (no such file or directory)\n", "GLEANER_CONTROLLER", "still trying"}},
		"partition": {refuse(codes.InvalidArgument, "invalid partition specified: x"),
			[]string{"gsubmit: error: invalid partition specified: x\ngsubmit: error: Batch job submission failed: Invalid partition name specified\n"}},
		"no leader": {refuse(codes.Unavailable, "no leader"), []string{"(no leader)", "the job may have been accepted"}},
	} {
		got := command(t, test.target, "", nil, "gsubmit", "--wrap=true")
		for _, want := range test.want {
			if got.Status != 1 || got.Stdout != "" || !strings.Contains(got.Stderr, want) {
				t.Errorf("%s: %+v lacks %q", name, got, want)
			}
		}
	}
	if got := command(t, "unix:///nowhere/sock", "", nil, "gsubmit", "--wrap=true"); strings.Contains(got.Stderr, "may have been accepted") {
		t.Errorf("a request that never left may have been accepted: %s", got.Stderr)
	}
}

// task is a job of the array 42 in a state.
func task(number uint32, state pb.JobState, code, signal uint32) *pb.Job {
	return &pb.Job{Id: &pb.JobId{Job: number}, ArrayJobId: 42, State: state, ExitCode: code, ExitSignal: signal}
}

func send(stream grpc.ServerStreamingServer[pb.Event], jobs ...*pb.Job) error {
	for _, job := range jobs {
		if err := stream.Send(&pb.Event{What: &pb.Event_Job{Job: job}}); err != nil {
			return err
		}
	}
	return nil
}

func synced(stream grpc.ServerStreamingServer[pb.Event]) error {
	return stream.Send(&pb.Event{What: &pb.Event_Synced{Synced: &pb.Synced{}}})
}

func TestWaitFollowsAnArray(t *testing.T) {
	controller := &clienttest.Scripted{
		OnList: func(int) ([]*pb.Job, error) {
			return []*pb.Job{task(42, clienttest.IsPending, 0, 0), task(43, clienttest.IsFailed, 3, 0)}, nil
		},
		OnFollow: func(_ int, stream grpc.ServerStreamingServer[pb.Event]) error {
			completing := task(42, clienttest.IsCompleted, 0, 0)
			completing.Completing = true
			other := task(99, clienttest.IsFailed, 77, 0)
			other.ArrayJobId = 98
			err := errors.Join(synced(stream), send(stream, task(44, clienttest.IsRunning, 0, 0), other, task(42, clienttest.IsRunning, 0, 0), task(44, clienttest.IsCompleted, 0, 0), completing))
			time.Sleep(50 * time.Millisecond)
			return errors.Join(err, send(stream, task(42, clienttest.IsFailed, 2, 0)))
		},
	}
	got := command(t, controller.Start(t), "", nil, "gsubmit", "--wait", "--wrap=true")
	if got != (clienttest.Outcome{Status: 3, Stdout: "Submitted batch job 42\n", Stderr: ""}) {
		t.Errorf("%+v", got)
	}
}

func TestWaitSurvivesBreaks(t *testing.T) {
	controller := &clienttest.Scripted{
		OnList: func(call int) ([]*pb.Job, error) {
			switch call {
			case 1:
				return []*pb.Job{task(42, clienttest.IsRunning, 0, 0), task(43, clienttest.IsCompleted, 5, 0)}, nil
			case 2:
				return []*pb.Job{task(42, clienttest.IsRunning, 0, 0)}, nil // 43 was forgotten meanwhile
			}
			return []*pb.Job{task(42, clienttest.IsCompleted, 0, 0)}, nil
		},
		OnFollow: func(call int, stream grpc.ServerStreamingServer[pb.Event]) error {
			err := synced(stream)
			switch call {
			case 1:
				return errors.Join(err, status.Error(codes.Unavailable, "the controller stops"))
			case 2:
				return status.Error(codes.OutOfRange, "too slow")
			}
			<-stream.Context().Done()
			return nil
		},
	}
	got := command(t, controller.Start(t), "", nil, "gsubmit", "-W", "--wrap=true")
	if got.Status != 5 || !strings.Contains(got.Stderr, "the connection to the controller broke") {
		t.Errorf("%+v", got)
	}
}

// TestWaitLeavesAControllerThatHangs: one that takes the question and says
// nothing does not hold up the wait.
func TestWaitLeavesAControllerThatHangs(t *testing.T) {
	clienttest.Impatient(t)
	before := client.AnswerTime
	client.ContactTime, client.AnswerTime = prototest.Patience, 3*time.Second // enough for the question to arrive
	t.Cleanup(func() { client.AnswerTime = before })
	hanging := &clienttest.Scripted{OnFollow: func(_ int, stream grpc.ServerStreamingServer[pb.Event]) error {
		<-stream.Context().Done()
		return nil
	}}
	sound := &clienttest.Scripted{
		OnList: func(int) ([]*pb.Job, error) { return []*pb.Job{task(42, clienttest.IsFailed, 6, 0)}, nil },
		OnFollow: func(_ int, stream grpc.ServerStreamingServer[pb.Event]) error {
			return errors.Join(synced(stream), func() error { <-stream.Context().Done(); return nil }())
		},
	}
	got := command(t, hanging.Start(t)+","+sound.Start(t), "", nil, "gsubmit", "-W", "--wrap=true")
	if follows := hanging.Followed(); got.Status != 6 || follows != 1 {
		t.Errorf("%+v, followed %d times", got, follows)
	}
}

func TestWaitStatuses(t *testing.T) {
	for name, test := range map[string]struct {
		job  *pb.Job
		want int
	}{
		"success":            {task(42, clienttest.IsCompleted, 0, 0), 0},
		"exit code":          {task(42, clienttest.IsFailed, 9, 0), 9},
		"signal":             {task(42, clienttest.IsFailed, 0, 9), 1},
		"cancelled unstated": {task(42, clienttest.IsCancelled, 0, 0), 1},
	} {
		controller := &clienttest.Scripted{
			OnList:   func(int) ([]*pb.Job, error) { return []*pb.Job{test.job}, nil },
			OnFollow: func(_ int, stream grpc.ServerStreamingServer[pb.Event]) error { return synced(stream) },
		}
		if got := command(t, controller.Start(t), "", nil, "gsubmit", "-W", "--wrap=true"); got.Status != test.want {
			t.Errorf("%s: %+v, want %d", name, got, test.want)
		}
	}
	forgotten := &clienttest.Scripted{
		OnList:   func(int) ([]*pb.Job, error) { return nil, status.Error(codes.NotFound, "Invalid job id specified") },
		OnFollow: func(_ int, stream grpc.ServerStreamingServer[pb.Event]) error { return synced(stream) },
	}
	if got := command(t, forgotten.Start(t), "", nil, "gsubmit", "-W", "--wrap=true"); got.Status != 1 || !strings.Contains(got.Stderr, "no longer known") {
		t.Errorf("a forgotten job: %+v", got)
	}
}

func TestWaitInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	controller := &clienttest.Scripted{
		OnList: func(int) ([]*pb.Job, error) { return []*pb.Job{task(42, clienttest.IsRunning, 0, 0)}, nil },
		OnFollow: func(_ int, stream grpc.ServerStreamingServer[pb.Event]) error {
			err := synced(stream)
			time.AfterFunc(50*time.Millisecond, cancel)
			<-stream.Context().Done()
			return err
		},
	}
	got := commandIn(ctx, t, controller.Start(t), "", nil, "gsubmit", "-W", "--wrap=true")
	if got.Status != 130 || !strings.Contains(got.Stderr, "which continues; gcancel 42 ends it") {
		t.Errorf("%+v", got)
	}
}
