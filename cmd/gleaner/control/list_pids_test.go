package control

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// fakeProc has the processes "PID PPID INNER GROUP" in a directory like proc(5).
func fakeProc(t *testing.T, processes ...string) {
	t.Helper()
	was := procDir
	t.Cleanup(func() { procDir = was })
	procDir = t.TempDir()
	for _, process := range processes {
		word := strings.Fields(process)
		dir := filepath.Join(procDir, word[0])
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		inner := word[2]
		if inner != word[0] {
			inner = word[0] + "\t" + inner
		}
		for name, text := range map[string]string{
			"status": fmt.Sprintf("Name:\tx\nPid:\t%s\nPPid:\t%s\nNSpid:\t%s\nThreads:\t1\n", word[0], word[1], inner),
			"cgroup": "1:name=systemd:/\n0::" + word[3] + "\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestListPids(t *testing.T) {
	var answer bytes.Buffer
	if err := step.Write(&answer, &step.StepList{Steps: []step.Record{
		{Step: 2, Name: "train", Tasks: 3, StartMS: 5, Pids: []int{7, 9}, LocalIDs: []uint32{0, 2}, GlobalIDs: []uint32{4, 6}},
		{Step: 3, Name: "older", Tasks: 1, StartMS: 6, Pids: []int{12}},
		{Step: step.BatchStep, Name: "batch", Tasks: 1, StartMS: 4, Pids: []int{2}, LocalIDs: []uint32{0}, GlobalIDs: []uint32{0}},
	}}); err != nil {
		t.Fatal(err)
	}
	visit := clienttest.OutputVisit{Question: true, Send: []*pb.TunnelMessage{
		{What: &pb.TunnelMessage_Attached{Attached: &pb.Attached{}}}, {What: &pb.TunnelMessage_Data{Data: answer.Bytes()}},
	}}
	stub := &clienttest.StubController{Jobs: []*pb.Job{{
		Id: &pb.JobId{Job: 7}, Epoch: 2, Spec: &pb.JobSpec{}, Owner: clienttest.Ada, State: pb.JobState_JOB_STATE_RUNNING, StartMs: 4,
		Allocation: []*pb.NodeAllocation{{Node: "n1"}, {Node: "n2"}},
	}, {Id: &pb.JobId{Job: 8}, Spec: &pb.JobSpec{}, Owner: clienttest.Ada, State: pb.JobState_JOB_STATE_PENDING}}}
	clienttest.ServeStub(t, stub)
	const head = "PID      JOBID    STEPID   LOCALID GLOBALID\n"
	group := "/gleaner/n2/7.2/job"
	onNode := []string{
		"101 1 1 " + group, "102 101 2 " + group, "107 101 7 " + group, "109 101 9 " + group, "112 101 12 " + group,
		"120 107 20 " + group, "121 120 21 " + group + "/deeper",
		"207 1 7 /gleaner/n1/7.2", "208 107 20 /user.slice", "209 107 22 /gleaner/n2/7.21",
	}
	whole := head + `107      7        2        0       4       
109      7        2        2       6       
120      7        2        -       -       
121      7        2        -       -       
112      7        3        -       -       
102      7        batch    0       0       
`
	inJob := []string{"GLEANER_STEP_SOCKET=/x", "SLURMD_NODENAME=n2", "SLURM_JOB_ID=7"}
	for _, c := range []struct {
		line      string
		processes []string
		environ   []string
		want      string // on standard output, and then its other words
	}{
		{"gcontrol listpids 7 n2", onNode, nil, whole},
		{"gcontrol listpids 7.2 n2", onNode, nil, head + strings.Join(strings.SplitAfter(whole, "\n")[1:5], "")},
		{"gcontrol listpids * n2", onNode, nil, whole},
		{"gcontrol listpids 7.batch n2", nil, nil, head + "2        7        batch    0       0       \n" +
			"gcontrol: the processes on node n2 are not seen from here: each PID is the number inside the job\n"},
		{"gcontrol listpids 7.2", []string{"2 1 2 /", "7 1 7 /", "9 1 9 /", "10 9 10 /"}, inJob,
			head + "7        7        2        0       4       \n9        7        2        2       6       \n10       7        2        -       -       \n"},
		{"gcontrol listpids 7.5 n2", onNode, nil, "StepId=7.5 does not exist on node n2.\n1"},
		{"gcontrol listpids 7 n3", onNode, nil, "There are no steps for job 7 on node n3.\n1"},
		{"gcontrol listpids 8 n2", onNode, nil, "There are no steps for job 8 on node n2.\n1"},
		{"gcontrol listpids * n3", onNode, nil, "No job steps exist on node n3.\n1"},
		{"gcontrol listpids 7", onNode, nil, "gcontrol: error: 7 runs on n[1-2], not here: name one of them, as in gcontrol listpids 7 n1\n1"},
		{"gcontrol listpids 7,8 n2", onNode, nil, "gcontrol: error: listpids takes one job or step: list \"7,8\" one after the other\n1"},
		{"gcontrol listpids 7 n2 n3", onNode, nil, "too many arguments for keyword:listpids\n1"},
	} {
		fakeProc(t, c.processes...)
		stub.Outputs = []clienttest.OutputVisit{visit}
		got := stage.Command(t, os.Getenv("GLEANER_CONTROLLER"), "", c.environ, strings.Fields(c.line)...)
		text := got.Stdout + got.Stderr
		if got.Status != 0 {
			text += fmt.Sprint(got.Status)
		}
		if text != c.want {
			t.Errorf("%s: got\n%swant\n%s", c.line, text, c.want)
		}
	}
}
