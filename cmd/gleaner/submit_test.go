package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

const goodScript = "#!/bin/sh\n#SBATCH --ntasks=3 --job-name=inside\n#GSUB -t5\nhostname\n"

func TestSubmit(t *testing.T) {
	controller := &scripted{}
	target := controller.start(t)
	path := write(t, filepath.Join(t.TempDir(), "train.sh"), goodScript)
	got := command(t, target, "", []string{"HOME=/h", "SBATCH_TIMELIMIT=7", "GSUB_PARTITION=gpu"}, "gsubmit", "-n4", path, "-n9", "--epochs")
	if got != (outcome{0, "Submitted batch job 42\n", ""}) {
		t.Fatalf("%+v", got)
	}
	request := controller.submits[0]
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
	path := write(t, filepath.Join(directory, "plain.sh"), "#!/bin/sh\ntrue\n")
	for _, test := range []struct {
		argv         []string
		stdin        string
		stdout, name string
	}{
		{[]string{"gsubmit", path}, "", "Submitted batch job 42\n", "plain.sh"},
		{[]string{"/usr/local/bin/gsubmit", "--parsable", path}, "", "42\n", "plain.sh"},
		{[]string{"gleaner", "submit", "-Q", path}, "", "", "plain.sh"},
		{[]string{"gsubmit"}, "#!/bin/sh\ntrue\n", "Submitted batch job 42\n", "gsubmit"},
		{[]string{"gsubmit", "--wrap", "hostname; date"}, "", "Submitted batch job 42\n", "wrap"},
		{[]string{"gsubmit", "--wrap=hostname", "-J", "other"}, "", "Submitted batch job 42\n", "other"},
	} {
		controller := &scripted{}
		got := command(t, controller.start(t), test.stdin, nil, test.argv...)
		if got != (outcome{0, test.stdout, ""}) {
			t.Errorf("%q: %+v", test.argv, got)
			continue
		}
		if name := controller.submits[0].GetSpec().GetName(); name != test.name {
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
		controller := &scripted{}
		path := write(t, filepath.Join(directory, "s"), test.script)
		got := command(t, controller.start(t), "", nil, "gsubmit", path)
		want := strings.NewReplacer("4G!", "4M!", "SCRIPT", path).Replace(test.want)
		if !strings.HasPrefix(got.stderr, want) || got.status == 0 || len(controller.submits) > 0 {
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
		if got := command(t, "unix:///nowhere", "", nil, test.argv...); !strings.HasPrefix(got.stderr, test.want) || got.status != test.status {
			t.Errorf("%q: %+v", test.argv, got)
		}
	}
}

// A bad value that nobody typed is traced to where it stands.
func TestSubmitNamesTheSource(t *testing.T) {
	script := write(t, filepath.Join(t.TempDir(), "s"), "#!/bin/sh\n#SBATCH --mem=much\n")
	inScript, inVariable := "It stands on line 2 of "+script+"\n", "It comes from the variable SBATCH_TIMELIMIT in the environment\n"
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
			if strings.Contains(got.stderr, source) != (source == test.want) || got.status != 255 {
				t.Errorf("%s: %+v, want %q", name, got, test.want)
			}
		}
	}
}

// A FIFO that nobody writes to is given up on Ctrl-C.
func TestSubmitInterruptedWhileOpening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // lets the reader that was left behind go
		if file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			_ = file.Close()
		}
	})
	for _, argv := range [][]string{{"gsubmit", path}, {"gcontrol", "apply", "-f", path}} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		if got := commandIn(ctx, t, "unix:///nowhere", "", nil, argv...); got != (outcome{status: interrupted}) {
			t.Errorf("%q: %+v", argv, got)
		}
	}
}

// What no message can carry is refused by name, or in the environment left out.
func TestSubmitNotUTF8(t *testing.T) {
	controller := &scripted{}
	target := controller.start(t)
	got := command(t, target, "", []string{"A=1", "B=\xff", "C\xfe=2"}, "gsubmit", "--wrap=true")
	if want := "gsubmit: warning: not handed to the job, because they are not UTF-8: B C?\n"; got != (outcome{0, "Submitted batch job 42\n", want}) {
		t.Errorf("%+v", got)
	} else if environment := controller.submits[0].GetSpec().GetEnvironment(); !slices.Equal(environment, []string{"A=1"}) {
		t.Errorf("the job has %q", environment)
	}
	for line, want := range map[string]string{
		"gsubmit --wrap=true -J a\xff":    `gsubmit: error: Batch job submission failed: the name "a\xff" holds bytes that are not UTF-8`,
		"gsubmit --wrap=true -o \xff.out": `the standard output "\xff.out" holds bytes`,
		"gsubmit --wrap=true -p a,\xff":   `the partitions "\xff" holds bytes`,
		"gcancel -n \xff":                 `the names "\xff" holds bytes`,
		"gqueue -n \xff":                  `the names "\xff" holds bytes`,
	} {
		if got := command(t, target, "", nil, strings.Fields(line)...); got.status != 1 || !strings.Contains(got.stderr, want) {
			t.Errorf("%q: %+v", line, got)
		}
	}
	if len(controller.submits) != 1 || len(controller.cancels) != 0 {
		t.Error("a request was sent")
	}
}

// Nothing of what is quoted in a message reaches the terminal as a command.
func TestMessagesAreHarmless(t *testing.T) {
	for _, argv := range [][]string{
		{"gsubmit", "--\x1b[31m"}, {"gsubmit", "no\x1b[31m"}, {"gsubmit", "-t", "\x1b[31m", "--wrap=x"}, {"gqueue", "-j", "1\x1b[31m"},
		{"gcontrol", "\x1b[31m"}, {"gcontrol", "show", "\x1b[31m"}, {"gcontrol", "update", "x\x1b[31m=1"}, {"ginfo", "\x1b[31m"}, {"gleaner", "\x1b[31m"},
	} {
		if got := command(t, "unix:///nowhere", "", nil, argv...); got.status == 0 || strings.Contains(got.stderr, "\x1b") {
			t.Errorf("%q: %+v", argv, got)
		}
	}
}

// An interpreter that is not here is worth a warning, and no more.
func TestSubmitWarnsOfTheInterpreter(t *testing.T) {
	for first, want := range map[string]string{
		"#!/bin/sh -e":     "",
		"#! /bin/sh":       "",
		"#!/nosuch/python": `the interpreter "/nosuch/python" does not exist on this machine`,
		"#!bash":           `the interpreter "bash" is looked for in the job's directory`,
		"#!/etc/passwd":    `"/etc/passwd", which is to interpret the script, is not a program on this machine`,
		"#!/etc":           `"/etc", which is to interpret the script, is not a program on this machine`,
	} {
		if got := interpreterWarning([]byte(first + "\ntrue\n")); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, want %q", first, got, want)
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
	status := dispatch(ctx, []string{"gsubmit"}, option.Streams{Stdin: reader, Stdout: io.Discard, Stderr: &stderr})
	if status != interrupted || stderr.Len() > 0 {
		t.Errorf("status %d, %q", status, stderr.String())
	}
}

func TestSubmitRetriesWithTheSameRequest(t *testing.T) {
	controller := &scripted{onSubmit: func(call int, _ *pb.SubmitRequest) (*pb.SubmitResponse, error) {
		if call < 4 {
			return nil, status.Error(codes.Unavailable, "no leader")
		}
		return &pb.SubmitResponse{JobId: 7, Warnings: []string{"be careful"}}, nil
	}}
	got := command(t, controller.start(t), "", nil, "gsubmit", "--wrap=true")
	if got != (outcome{0, "Submitted batch job 7\n", "gsubmit: warning: be careful\n"}) || len(controller.submits) != 4 {
		t.Fatalf("%+v after %d calls", got, len(controller.submits))
	}
	for _, request := range controller.submits {
		if request.GetRequestId() != controller.submits[0].GetRequestId() {
			t.Error("a retry has another request id")
		}
	}
}

func TestSubmitFailures(t *testing.T) {
	impatient(t)
	refuse := func(code codes.Code, text string) string {
		controller := &scripted{onSubmit: func(int, *pb.SubmitRequest) (*pb.SubmitResponse, error) { return nil, status.Error(code, text) }}
		return controller.start(t)
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
			if got.status != 1 || got.stdout != "" || !strings.Contains(got.stderr, want) {
				t.Errorf("%s: %+v lacks %q", name, got, want)
			}
		}
	}
	if got := command(t, "unix:///nowhere/sock", "", nil, "gsubmit", "--wrap=true"); strings.Contains(got.stderr, "may have been accepted") {
		t.Errorf("a request that never left may have been accepted: %s", got.stderr)
	}
}

func TestFitNodesToTasks(t *testing.T) {
	job := &pb.JobSpec{Tasks: 2, MinNodes: 4, MaxNodes: 8}
	if warnings := fitNodesToTasks(job); len(warnings) != 1 || job.MinNodes != 2 || job.MaxNodes != 2 {
		t.Errorf("%v %v", warnings, job)
	}
}

// task is a job of the array 42 in a state.
func task(number uint32, state pb.JobState, code, signal uint32) *pb.Job {
	return &pb.Job{Id: &pb.JobId{Job: number}, ArrayJobId: 42, State: state, ExitCode: code, ExitSignal: signal}
}

const (
	isPending   = pb.JobState_JOB_STATE_PENDING
	isRunning   = pb.JobState_JOB_STATE_RUNNING
	isCompleted = pb.JobState_JOB_STATE_COMPLETED
	isFailed    = pb.JobState_JOB_STATE_FAILED
	isCancelled = pb.JobState_JOB_STATE_CANCELLED
)

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
	controller := &scripted{
		onList: func(int) ([]*pb.Job, error) {
			return []*pb.Job{task(42, isPending, 0, 0), task(43, isFailed, 3, 0)}, nil
		},
		onFollow: func(_ int, stream grpc.ServerStreamingServer[pb.Event]) error {
			completing := task(42, isCompleted, 0, 0)
			completing.Completing = true
			other := task(99, isFailed, 77, 0)
			other.ArrayJobId = 98
			err := errors.Join(synced(stream), send(stream, task(44, isRunning, 0, 0), other, task(42, isRunning, 0, 0), task(44, isCompleted, 0, 0), completing))
			time.Sleep(50 * time.Millisecond)
			return errors.Join(err, send(stream, task(42, isFailed, 2, 0)))
		},
	}
	got := command(t, controller.start(t), "", nil, "gsubmit", "--wait", "--wrap=true")
	if got != (outcome{3, "Submitted batch job 42\n", ""}) {
		t.Errorf("%+v", got)
	}
}

func TestWaitSurvivesBreaks(t *testing.T) {
	controller := &scripted{
		onList: func(call int) ([]*pb.Job, error) {
			switch call {
			case 1:
				return []*pb.Job{task(42, isRunning, 0, 0), task(43, isCompleted, 5, 0)}, nil
			case 2:
				return []*pb.Job{task(42, isRunning, 0, 0)}, nil // 43 was forgotten meanwhile
			}
			return []*pb.Job{task(42, isCompleted, 0, 0)}, nil
		},
		onFollow: func(call int, stream grpc.ServerStreamingServer[pb.Event]) error {
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
	got := command(t, controller.start(t), "", nil, "gsubmit", "-W", "--wrap=true")
	if got.status != 5 || !strings.Contains(got.stderr, "the connection to the controller broke") {
		t.Errorf("%+v", got)
	}
}

// TestWaitLeavesAControllerThatHangs: one that takes the question and says
// nothing does not hold up the wait.
func TestWaitLeavesAControllerThatHangs(t *testing.T) {
	impatient(t)
	before := answerTime
	contactTime, answerTime = prototest.Patience, 3*time.Second // enough for the question to arrive
	t.Cleanup(func() { answerTime = before })
	hanging := &scripted{onFollow: func(_ int, stream grpc.ServerStreamingServer[pb.Event]) error {
		<-stream.Context().Done()
		return nil
	}}
	sound := &scripted{
		onList: func(int) ([]*pb.Job, error) { return []*pb.Job{task(42, isFailed, 6, 0)}, nil },
		onFollow: func(_ int, stream grpc.ServerStreamingServer[pb.Event]) error {
			return errors.Join(synced(stream), func() error { <-stream.Context().Done(); return nil }())
		},
	}
	got := command(t, hanging.start(t)+","+sound.start(t), "", nil, "gsubmit", "-W", "--wrap=true")
	if follows := hanging.followed(); got.status != 6 || follows != 1 {
		t.Errorf("%+v, followed %d times", got, follows)
	}
}

func TestWaitStatuses(t *testing.T) {
	for name, test := range map[string]struct {
		job  *pb.Job
		want int
	}{
		"success":            {task(42, isCompleted, 0, 0), 0},
		"exit code":          {task(42, isFailed, 9, 0), 9},
		"signal":             {task(42, isFailed, 0, 9), 1},
		"cancelled unstated": {task(42, isCancelled, 0, 0), 1},
	} {
		controller := &scripted{
			onList:   func(int) ([]*pb.Job, error) { return []*pb.Job{test.job}, nil },
			onFollow: func(_ int, stream grpc.ServerStreamingServer[pb.Event]) error { return synced(stream) },
		}
		if got := command(t, controller.start(t), "", nil, "gsubmit", "-W", "--wrap=true"); got.status != test.want {
			t.Errorf("%s: %+v, want %d", name, got, test.want)
		}
	}
	forgotten := &scripted{
		onList:   func(int) ([]*pb.Job, error) { return nil, status.Error(codes.NotFound, "Invalid job id specified") },
		onFollow: func(_ int, stream grpc.ServerStreamingServer[pb.Event]) error { return synced(stream) },
	}
	if got := command(t, forgotten.start(t), "", nil, "gsubmit", "-W", "--wrap=true"); got.status != 1 || !strings.Contains(got.stderr, "no longer known") {
		t.Errorf("a forgotten job: %+v", got)
	}
}

func TestWaitInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	controller := &scripted{
		onList: func(int) ([]*pb.Job, error) { return []*pb.Job{task(42, isRunning, 0, 0)}, nil },
		onFollow: func(_ int, stream grpc.ServerStreamingServer[pb.Event]) error {
			err := synced(stream)
			time.AfterFunc(50*time.Millisecond, cancel)
			<-stream.Context().Done()
			return err
		},
	}
	got := commandIn(ctx, t, controller.start(t), "", nil, "gsubmit", "-W", "--wrap=true")
	if got.status != 130 || !strings.Contains(got.stderr, "which goes on; gcancel 42 ends it") {
		t.Errorf("%+v", got)
	}
}

func TestCommandIsAbsolute(t *testing.T) {
	for path, want := range map[string]string{"": "", "/a/b.sh": "/a/b.sh", "b.sh": "/here/b.sh", "../b.sh": "/b.sh"} {
		if got := absolute("/here", path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}
