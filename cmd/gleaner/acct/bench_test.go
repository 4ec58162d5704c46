package acct

import (
	"io"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// benchRuns are the runs of a busy user's week, one every fifty seconds, as they arrive: a
// hundred in a message.
func benchRuns(b *testing.B) (messages [][]byte) {
	b.Helper()
	answer := &pb.ListRunsResponse{}
	for n := range 12_096 {
		endMS := int64(1_800_000_000_000 + 50_000*n)
		answer.Runs = append(answer.Runs, &pb.PastRun{RanMs: 5000, Job: &pb.Job{
			Id: &pb.JobId{Job: uint32(n + 1)}, State: pb.JobState_JOB_STATE_COMPLETED, Reason: "None", Partition: "main", NodeList: "node0123", BatchHost: "node0123",
			Cpus: 4, Nodes: 1, SubmitMs: endMS - 9000, EligibleMs: endMS - 9000, StartMs: endMS - 5000, EndMs: endMS, TimeLimitS: 3600, Priority: 12345,
			Owner: &pb.Identity{Uid: 1007, Gid: 1000, User: "user7", Group: "users"},
			Spec: &pb.JobSpec{Name: "train", Account: "lab7", Qos: "normal", Partitions: []string{"main"}, WorkDirectory: "/home/user/project", StandardOutput: "slurm-%j.out",
				CpusPerTask: 4, MemoryPerNodeBytes: 16 << 30, Command: "/home/user/project/train.sh"},
			Allocation: []*pb.NodeAllocation{{Node: "node0123", MemoryBytes: 16 << 30, Tasks: 1, Devices: []*pb.AllocatedDevice{{Shares: 1, Model: "a100"}}}},
			Usage:      &pb.Usage{PeakMemoryBytes: 5 << 30, CpuNs: 123456789},
		}})
		if len(answer.Runs) == 100 {
			messages = append(messages, encoded(b, answer))
			answer.Runs = nil
		}
	}
	return append(messages, encoded(b, answer))
}

func encoded(b *testing.B, answer *pb.ListRunsResponse) []byte {
	text, err := proto.Marshal(answer)
	if err != nil {
		b.Fatal(err)
	}
	return text
}

func decoded(b *testing.B, text []byte) *pb.ListRunsResponse {
	answer := new(pb.ListRunsResponse)
	if err := proto.Unmarshal(text, answer); err != nil {
		b.Fatal(err)
	}
	return answer
}

// BenchmarkDecode is what reading a week's answer costs.
func BenchmarkDecode(b *testing.B) {
	messages := benchRuns(b)
	for b.Loop() {
		for _, text := range messages {
			decoded(b, text)
		}
	}
}

// BenchmarkPrint is what printing it costs.
func BenchmarkPrint(b *testing.B) {
	var runs []*pb.PastRun
	for _, text := range benchRuns(b) {
		runs = append(runs, decoded(b, text).GetRuns()...)
	}
	inv := &option.Invocation{Command: Command(), Stdout: io.Discard, Stderr: io.Discard}
	for b.Loop() {
		printer, _, err := newPrinter(inv)
		if err != nil {
			b.Fatal(err)
		}
		view, wanted := show.NewView(inv.Getenv, time.UnixMilli(1_800_700_000_000)), &choice{}
		for _, run := range runs {
			for _, one := range wanted.rows(run, view) {
				printer.Line(&row{Row: one, view: view})
			}
		}
		if err := printer.Flush(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(runs)), "runs")
}
