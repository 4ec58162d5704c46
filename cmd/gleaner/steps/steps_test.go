package steps

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

var now = time.Unix(1_900_000_000, 0).UTC()

// job is one on two nodes, with its batch script, a step that runs on both, and one that is
// over.
func job() (*pb.Job, []*pb.NodeSteps) {
	task := uint32(3)
	start := now.Add(-time.Hour).UnixMilli()
	return &pb.Job{
			Id: &pb.JobId{Job: 14, ArrayTask: &task}, ArrayJobId: 12, Partition: "main", State: pb.JobState_JOB_STATE_RUNNING,
			Owner: &pb.Identity{User: "ada", Uid: 4242}, Spec: &pb.JobSpec{Name: "batch"},
		}, []*pb.NodeSteps{
			{Node: "n1", Steps: []*pb.StepPart{
				{Step: step.BatchStep, Name: "batch", Tasks: 1, Cpus: 2, StartMs: start},
				{Step: 0, Name: "over", Tasks: 1, StartMs: start, EndMs: start + 1},
				{Step: 1, Name: "a-rather-long-name", Tasks: 2, Cpus: 2, Gpus: 1, StartMs: start + 60_000},
			}},
			{Node: "n2", Steps: []*pb.StepPart{{Step: 1, Name: "a-rather-long-name", Tasks: 2, Cpus: 2, Gpus: 1, StartMs: start + 61_000}}},
		}
}

func rows(t *testing.T, text string) []*Row {
	t.Helper()
	var targets Targets
	if text != "" {
		var err error
		if targets, err = Parse(text); err != nil {
			t.Fatal(err)
		}
	}
	of, answers := job()
	return rowsOf(of, answers, targets, show.NewView(func(string) string { return "" }, now))
}

func TestLines(t *testing.T) {
	for asked, want := range map[string]string{
		"":           "12_3.1|12_3.batch",
		"12_3":       "12_3.1|12_3.batch",
		"12":         "12_3.1|12_3.batch",
		"14.1":       "12_3.1",
		"12_3.batch": "12_3.batch",
		"12_3.0":     "",
		"12_4.1":     "",
		"7,12_3.1":   "12_3.1",
	} {
		var got []string
		for _, row := range rows(t, asked) {
			got = append(got, row.ID())
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%s: %v, want %s", asked, got, want)
		}
	}
	for _, bad := range []string{"x", "12.", "12.x", "12.-1", "12_[1-2].0.0", "", ".0", "12,,13"} {
		if targets, err := Parse(bad); err == nil {
			t.Errorf("%q is %v", bad, targets)
		}
	}
}

func TestColumns(t *testing.T) {
	layout, err := Table.ParseShort(Format)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{string(layout.Header(nil))}
	for _, row := range rows(t, "") {
		lines = append(lines, string(layout.Row(nil, row)))
	}
	want := []string{
		"         STEPID     NAME PARTITION     USER      TIME NODELIST",
		"         12_3.1 a-rather      main      ada     59:00 n[1-2]",
		"     12_3.batch    batch      main      ada   1:00:00 n1",
		"",
	}
	if strings.Join(lines, "") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, ""), strings.Join(want, "\n"))
	}
	if layout, err = Table.ParseLong("StepID,NumTasks,UserID,StepState,TimeLimit"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(layout.Row(nil, rows(t, "14.1")[0]))); strings.Join(got, " ") != "12_3.1 4 4242 RUNNING UNLIMITED" {
		t.Errorf("got %q", got)
	}
}

func TestRecord(t *testing.T) {
	var text strings.Builder
	out := bufio.NewWriter(&text)
	rows(t, "14.1")[0].Record().Write(out, false)
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	want := `StepId=12_3.1 UserId=4242 StartTime=2030-03-17T16:47:40 TimeLimit=UNLIMITED
   State=RUNNING Partition=main NodeList=n[1-2]
   Nodes=2 CPUs=4 Tasks=4 Name=a-rather-long-name Network=(null)
   TRES=cpu=4,node=2,gres/gpu=2
   ResvPorts=(null)
   CPUFreqReq=Default
   SrunHost:Pid=(null):0

`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}

// TestSlurmKeys: a step has all that Slurm's has.
func TestSlurmKeys(t *testing.T) {
	clienttest.Keys(t, "testdata/step.keys", rows(t, "14.1")[0].JSON(show.JSONCurrent))
}

func TestJSON(t *testing.T) {
	for shape, want := range map[show.JSONShape]string{
		show.JSONCurrent: `"state":["RUNNING"],"submit_line":"","task":{"distribution":"UNKNOWN"},"time":{"limit":{"set":false,"infinite":true,"number":0},"running":{"set":true,"infinite":false,"number":3540},"start":{"set":true,"infinite":false,"number":1899996460}}`,
		show.JSONOld:     `"state":"RUNNING","submit_line":"","task":{"distribution":"UNKNOWN"},"time":{"limit":null,"running":3540,"start":1899996460}`,
	} {
		text, err := json.Marshal(rows(t, "14.1")[0].JSON(shape))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{
			want, `"array":{"job_id":12,"task_id":3}`, `"id":"12_3.1","name":"a-rather-long-name"`,
			`"nodes":"n[1-2]","number_cpus":4,"number_tasks":4,"partition":"main"`, `"tres":{"allocation":"cpu=4,node=2,gres/gpu=2"`, `"user":"ada"`,
		} {
			if !strings.Contains(string(text), part) {
				t.Errorf("shape %d: %s lacks %s", shape, text, part)
			}
		}
	}
}
