package queue

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// A queue too long to sort is shown as it arrives: its first line is there
// while the controller is still sending.
func TestLongQueueBeginsAtOnce(t *testing.T) {
	clienttest.FixTime(t)
	word := make(chan struct{})
	clienttest.ServeStub(t, &clienttest.StubController{List: clienttest.ManyJobs(30_000, 30, word)})
	reader, writer := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- stage.Dispatch(t.Context(), []string{"gqueue", "-ho", "%A"}, option.Streams{Stdout: writer, Stderr: io.Discard})
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
	clienttest.FixTime(t)
	for line, first := range map[string]string{"gqueue -ho %A": "1", "gqueue -ho %A -q normal": "2", "gqueue -ho %A -S -p": "2"} {
		clienttest.ServeStub(t, &clienttest.StubController{List: func(stream grpc.ServerStreamingServer[pb.ListJobsResponse]) error {
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
	clienttest.FixTime(t)
	for _, c := range []struct {
		jobs  int
		line  string
		first string
	}{
		{10_000, "gqueue -ho %A", "10000"},       // few enough to sort by priority
		{10_001, "gqueue -ho %A", "1"},           // too many
		{10_001, "gqueue -ho %A -S -p", "10001"}, // forced
	} {
		clienttest.ServeStub(t, &clienttest.StubController{List: clienttest.ManyJobs(c.jobs, -1, nil)})
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
	clienttest.FixTime(t)
	waiting := func(id uint32, special bool) *pb.Job {
		return &pb.Job{Id: &pb.JobId{Job: id}, Owner: clienttest.Ada, State: pb.JobState_JOB_STATE_PENDING, SpecialExit: special, Spec: &pb.JobSpec{Name: "x"}}
	}
	clienttest.ServeStub(t, &clienttest.StubController{Jobs: []*pb.Job{waiting(1, false), waiting(2, true), {Id: &pb.JobId{Job: 3}, Owner: clienttest.Ada, State: pb.JobState_JOB_STATE_RUNNING, Spec: &pb.JobSpec{}}}})
	for states, want := range map[string]string{
		"SE": "2 SE", "special_exit": "2 SE", "PD": "1 PD,2 SE", "SE,PD": "1 PD,2 SE", "SE,R": "2 SE,3 R", "R,SE,ST": "2 SE,3 R", "ST": "", "RV,R": "3 R", "SE,all": "1 PD,2 SE,3 R",
	} {
		out, stderr, exit := typed(t, context.Background(), nil, "gqueue -h -S i -o '%i %t' -t "+states)
		if got := strings.ReplaceAll(strings.TrimSpace(out), "\n", ","); got != want || exit != 0 {
			t.Errorf("-t %s: %q, want %q; %s", states, got, want, stderr)
		}
	}
}

// TestRecordsOfControlCharacters: the separators of records and fields that programs
// put between columns come back as they are.
func TestRecordsOfControlCharacters(t *testing.T) {
	clienttest.FixTime(t)
	clienttest.ServeStub(t, clienttest.StubCluster())
	invocation := []string{"gqueue", "--all", "--states=all", "--noconvert", "-M", "lab", "-j", "101", "-o", "\x1e%i\x1f%t\x1f%j"}
	var out, stderr bytes.Buffer
	status := stage.Dispatch(t.Context(), invocation, option.Streams{Stdout: &out, Stderr: &stderr})
	want := "CLUSTER: lab\n\x1eJOBID\x1fST\x1fNAME\n\x1e101\x1fR\x1f"
	if status != 0 || !strings.HasPrefix(out.String(), want) {
		t.Errorf("status %d, %q, want %q; %s", status, out.String(), want, stderr.String())
	}
}

func TestQueueRepeats(t *testing.T) {
	clienttest.FixTime(t)
	clienttest.ServeStub(t, clienttest.StubCluster())
	ctx, cancel := context.WithTimeout(t.Context(), prototest.Patience)
	defer cancel()
	reader, writer := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- stage.Dispatch(ctx, []string{"gqueue", "-i1", "-o%i"}, option.Streams{Stdout: writer, Stderr: io.Discard})
		writer.Close()
	}()
	dates := 0
	for lines := bufio.NewScanner(reader); lines.Scan(); {
		if lines.Text() == clienttest.StubNow.Format(console.DateLine) {
			if dates++; dates == 2 {
				cancel()
			}
		}
	}
	if status := <-done; dates != 2 || status != 0 {
		t.Errorf("%d tables, status %d", dates, status)
	}
}

// A million waiting tasks are one record; shown one by one they must neither
// fill the memory nor take long.
func TestArrayLineByLine(t *testing.T) {
	clienttest.FixTime(t)
	array := &pb.Job{Id: &pb.JobId{Job: 7}, ArrayJobId: 7, Owner: clienttest.Ada, State: pb.JobState_JOB_STATE_PENDING, Spec: &pb.JobSpec{},
		WaitingTasks: &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 0, Last: 299_999, Step: 1}}}}
	clienttest.ServeStub(t, &clienttest.StubController{Jobs: []*pb.Job{array}})
	out, _, status := typed(t, t.Context(), nil, "gqueue -rho %i")
	if status != 0 || strings.Count(out, "\n") != 300_000 || !strings.HasSuffix(out, "\n7_299999\n") {
		t.Errorf("status %d, %d lines", status, strings.Count(out, "\n"))
	}
}

func BenchmarkQueue100k(b *testing.B) {
	path := filepath.Join(b.TempDir(), "c.sock")
	stop := clienttest.ListenStub(b, path, &clienttest.StubController{List: clienttest.ManyJobs(100_000, -1, nil)})
	defer stop()
	for b.Loop() {
		if stage.Dispatch(b.Context(), []string{"gqueue", "--controller=unix://" + path}, option.Streams{Stdout: io.Discard, Stderr: io.Discard}) != 0 {
			b.Fatal("failed")
		}
	}
}
