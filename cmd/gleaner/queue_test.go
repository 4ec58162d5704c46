package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// manyJobs streams n waiting jobs, 500 a message, falling in priority; after
// message number hold it waits for a word.
func manyJobs(n, hold int, word <-chan struct{}) func(grpc.ServerStreamingServer[pb.ListJobsResponse]) error {
	return func(stream grpc.ServerStreamingServer[pb.ListJobsResponse]) error {
		for sent := 0; sent < n; {
			answer := &pb.ListJobsResponse{}
			for ; sent < n && len(answer.Jobs) < 500; sent++ {
				answer.Jobs = append(answer.Jobs, &pb.Job{
					Id: &pb.JobId{Job: uint32(sent + 1)}, Owner: ada, State: pb.JobState_JOB_STATE_PENDING, Reason: "Priority",
					Priority: uint64(sent + 1), Partition: "main", Cpus: 1, Nodes: 1, TimeLimitS: 60, SubmitMs: 1, Spec: &pb.JobSpec{Name: "j"},
				})
			}
			if err := stream.Send(answer); err != nil {
				return err
			}
			if word != nil && sent/500 == hold {
				select {
				case <-word:
				case <-stream.Context().Done():
				}
			}
		}
		return nil
	}
}

// A queue too long to sort is shown as it arrives: its first line is there
// while the controller is still sending.
func TestLongQueueBeginsAtOnce(t *testing.T) {
	fixTime(t)
	word := make(chan struct{})
	serveStub(t, &stubController{list: manyJobs(30_000, 30, word)})
	reader, writer := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- dispatch(t.Context(), []string{"gqueue", "-ho", "%A"}, option.Streams{Stdout: writer, Stderr: io.Discard})
		writer.Close()
	}()
	lines := bufio.NewScanner(reader)
	if !lines.Scan() || lines.Text() != "1" {
		t.Fatalf("first line %q, want job 1", lines.Text())
	}
	close(word)
	count := 1
	for lines.Scan() {
		count++
		if lines.Text() != fmt.Sprint(count) {
			t.Fatalf("line %d is %q: not in the order of job numbers", count, lines.Text())
		}
	}
	if count != 30_000 || <-status != 0 {
		t.Errorf("%d lines", count)
	}
}

// TestLongQueueIsKnownAtOnce: the controller said how many there are, so that
// the first line does not wait for more than the first message, unless some of
// them may be dropped.
func TestLongQueueIsKnownAtOnce(t *testing.T) {
	fixTime(t)
	for line, first := range map[string]string{"gqueue -ho %A": "1", "gqueue -ho %A -q normal": "2", "gqueue -ho %A -S -p": "2"} {
		serveStub(t, &stubController{list: func(stream grpc.ServerStreamingServer[pb.ListJobsResponse]) error {
			answer := &pb.ListJobsResponse{Total: sortedRows + 1}
			for n := range uint32(2) {
				answer.Jobs = append(answer.Jobs, &pb.Job{Id: &pb.JobId{Job: n + 1}, Priority: uint64(n + 1), State: pb.JobState_JOB_STATE_PENDING, Spec: &pb.JobSpec{}})
			}
			return stream.Send(answer)
		}})
		out, stderr, status := typed(t, t.Context(), nil, line)
		if got, _, _ := strings.Cut(out, "\n"); status != 0 || got != first {
			t.Errorf("%s: status %d, the first is %q, want %q %s", line, status, got, first, stderr)
		}
	}
}

func TestQueueOrder(t *testing.T) {
	fixTime(t)
	for _, c := range []struct {
		jobs  int
		line  string
		first string
	}{
		{10_000, "gqueue -ho %A", "10000"},       // few enough to sort by priority
		{10_001, "gqueue -ho %A", "1"},           // too many
		{10_001, "gqueue -ho %A -S -p", "10001"}, // forced
	} {
		serveStub(t, &stubController{list: manyJobs(c.jobs, -1, nil)})
		out, stderr, status := typed(t, t.Context(), nil, c.line)
		first, _, _ := strings.Cut(out, "\n")
		if status != 0 || first != c.first || strings.Count(out, "\n") != c.jobs {
			t.Errorf("%s of %d jobs: status %d, %d lines, the first %q, want %q %s", c.line, c.jobs, status, strings.Count(out, "\n"), first, c.first, stderr)
		}
	}
}

// TestSpecialExit: a state that the controller knows as a flag is chosen like the
// others.
func TestSpecialExit(t *testing.T) {
	fixTime(t)
	waiting := func(id uint32, special bool) *pb.Job {
		return &pb.Job{Id: &pb.JobId{Job: id}, Owner: ada, State: pb.JobState_JOB_STATE_PENDING, SpecialExit: special, Spec: &pb.JobSpec{Name: "x"}}
	}
	serveStub(t, &stubController{jobs: []*pb.Job{waiting(1, false), waiting(2, true), {Id: &pb.JobId{Job: 3}, Owner: ada, State: pb.JobState_JOB_STATE_RUNNING, Spec: &pb.JobSpec{}}}})
	for states, want := range map[string]string{
		"SE": "2 SE", "special_exit": "2 SE", "PD": "1 PD,2 SE", "SE,PD": "1 PD,2 SE", "SE,R": "2 SE,3 R", "R,SE,ST": "2 SE,3 R", "ST": "", "RV,R": "3 R", "SE,all": "1 PD,2 SE,3 R",
	} {
		out, stderr, exit := typed(t, context.Background(), nil, "gqueue -h -S i -o '%i %t' -t "+states)
		if got := strings.ReplaceAll(strings.TrimSpace(out), "\n", ","); got != want || exit != 0 {
			t.Errorf("-t %s: %q, want %q; %s", states, got, want, stderr)
		}
	}
}

func TestQueueRepeats(t *testing.T) {
	fixTime(t)
	serveStub(t, stubCluster())
	ctx, cancel := context.WithTimeout(t.Context(), prototest.Patience)
	defer cancel()
	reader, writer := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- dispatch(ctx, []string{"gqueue", "-i1", "-o%i"}, option.Streams{Stdout: writer, Stderr: io.Discard})
		writer.Close()
	}()
	dates := 0
	for lines := bufio.NewScanner(reader); lines.Scan(); {
		if lines.Text() == stubNow.Format(dateLine) {
			if dates++; dates == 2 {
				cancel()
			}
		}
	}
	if status := <-done; dates != 2 || status != 0 {
		t.Errorf("%d tables, status %d", dates, status)
	}
}

func TestNoController(t *testing.T) {
	before := queryTime
	queryTime = 200 * time.Millisecond
	t.Cleanup(func() { queryTime = before })
	target := "unix://" + filepath.Join(t.TempDir(), "none.sock")
	for program, want := range map[string]string{
		"gqueue":               "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
		"ginfo":                "slurm_load_partitions: Unable to contact slurm controller (connect failure)\n",
		"gcontrol show job 1":  "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
		"gcontrol show node":   "slurm_load_node error: Unable to contact slurm controller (connect failure)\n",
		"gcontrol show config": "slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)\n",
	} {
		out, stderr, status := typed(t, t.Context(), nil, program+" --controller="+target)
		if status != 1 || out != "" || !strings.HasPrefix(stderr, want) || !strings.Contains(stderr, target) {
			t.Errorf("%s: status %d, %q, %q", program, status, out, stderr)
		}
	}
	out, _, status := typed(t, t.Context(), nil, "gcontrol ping --controller="+target)
	if status != 1 || !strings.HasPrefix(out, "Slurmctld(primary) at "+target+" is DOWN\n***") {
		t.Errorf("ping: status %d, %q", status, out)
	}
}

// A million waiting tasks are one record; shown one by one they must neither
// fill the memory nor take long.
func TestArrayLineByLine(t *testing.T) {
	fixTime(t)
	array := &pb.Job{Id: &pb.JobId{Job: 7}, ArrayJobId: 7, Owner: ada, State: pb.JobState_JOB_STATE_PENDING, Spec: &pb.JobSpec{},
		WaitingTasks: &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 0, Last: 299_999, Step: 1}}}}
	serveStub(t, &stubController{jobs: []*pb.Job{array}})
	out, _, status := typed(t, t.Context(), nil, "gqueue -rho %i")
	if status != 0 || strings.Count(out, "\n") != 300_000 || !strings.HasSuffix(out, "\n7_299999\n") {
		t.Errorf("status %d, %d lines", status, strings.Count(out, "\n"))
	}
}

func TestJSONIsJSON(t *testing.T) {
	fixTime(t)
	serveStub(t, stubCluster())
	for _, line := range []string{
		"gqueue --json", "gqueue --json=v0.0.39 -t all", "gqueue --json -u nobodyatall", "gqueue -r --json", "ginfo --json", "ginfo --json=v0.0.38", "ginfo --json -N",
		"gcontrol show job --json", "gcontrol show node --json", "gcontrol show partition --json=v0.0.39", "gcontrol show config --json", "gcontrol ping --json",
	} {
		out, stderr, status := typed(t, t.Context(), nil, line)
		var answer map[string]any
		if err := json.Unmarshal([]byte(out), &answer); err != nil || status != 0 || answer["errors"] == nil {
			t.Errorf("%s: %v, status %d, %s", line, err, status, stderr)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestReaderGone(t *testing.T) {
	fixTime(t)
	serveStub(t, &stubController{list: manyJobs(30_000, -1, nil), nodes: stubNodes(), partitions: stubPartitions()})
	for _, args := range [][]string{{"gqueue"}, {"gqueue", "-i1"}, {"gqueue", "--json"}, {"ginfo"}, {"ginfo", "--json"}} {
		ctx, cancel := context.WithTimeout(t.Context(), prototest.Patience)
		if status := dispatch(ctx, args, option.Streams{Stdout: brokenPipe{}, Stderr: io.Discard}); status == 0 || ctx.Err() != nil {
			t.Errorf("%v: status %d, %v", args, status, ctx.Err())
		}
		cancel()
	}
}

func BenchmarkQueue100k(b *testing.B) {
	path := filepath.Join(b.TempDir(), "c.sock")
	stop := listenStub(b, path, &stubController{list: manyJobs(100_000, -1, nil)})
	defer stop()
	for b.Loop() {
		if dispatch(b.Context(), []string{"gqueue", "--controller=unix://" + path}, option.Streams{Stdout: io.Discard, Stderr: io.Discard}) != 0 {
			b.Fatal("failed")
		}
	}
}
