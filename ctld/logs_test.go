package ctld

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/ctld/api"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/logs"
)

// journal keeps what a controller writes.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(line))
	return len(line), nil
}

// records are the lines, read as JSON.
func (j *journal) records(t *testing.T) []map[string]any {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []map[string]any
	for _, line := range j.lines {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil || strings.Count(line, "\n") != 1 {
			t.Fatalf("%v: %q", err, line)
		}
		all = append(all, record)
	}
	return all
}

// find is the first record with a message and these values.
func find(records []map[string]any, message string, want map[string]any) map[string]any {
	for _, record := range records {
		fits := record["msg"] == message
		for key, value := range want {
			fits = fits && fmt.Sprint(record[key]) == fmt.Sprint(value)
		}
		if fits {
			return record
		}
	}
	return nil
}

func startLogged(t *testing.T, level slog.Level) (*Server, *journal) {
	t.Helper()
	written := &journal{}
	server, err := Start(configIn(shortDir(t)), "test", logs.New(written, logs.Options{Format: logs.JSON, Level: level, Often: []string{api.MessageRefused}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	<-server.Ready()
	return server, written
}

// TestLogsFollowOneJob: from the request's id to the job, from the job to its
// run and its node, and from there to its end; in JSON.
func TestLogsFollowOneJob(t *testing.T) {
	server, written := startLogged(t, slog.LevelDebug)
	conn := connectTo(t, server.Addresses()[0], "")
	node := newFakeNode(t, "n1", time.Millisecond)
	defer node.connect(conn)()
	id := uuid.NewString()
	jobID := submit(t, conn, job(func(r *pb.SubmitRequest) { r.RequestId = id }))
	waitState(t, conn, jobID, pb.JobState_JOB_STATE_COMPLETED)

	var records []map[string]any
	steps := []struct {
		message string
		want    map[string]any
	}{
		{"request", map[string]any{"method": "Submit", "request_id": id, "result": "OK", "level": "INFO", "job": jobID}},
		{"applied", map[string]any{"command": "SubmitJob", "request_id": id, "repeated": false}},
		{"job starts", map[string]any{"job": jobID, "epoch": 1}},
		{"start ordered", map[string]any{"job": jobID, "epoch": 1, "node": "n1"}},
		{"allocation ended", map[string]any{"job": jobID, "epoch": 1, "node": "n1"}},
		{"job ended", map[string]any{"job": jobID, "epoch": 1, "state": "COMPLETED", "exit_code": 0}},
	}
	for limit := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		records = written.records(t)
		missing := ""
		for _, step := range steps {
			if find(records, step.message, step.want) == nil {
				missing += fmt.Sprintf("%s %v\n", step.message, step.want)
			}
		}
		if missing == "" {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("no line says:\n%s", missing)
		}
	}
	if said := find(records, "request", map[string]any{"method": "Submit"}); said["took"] == "" || said["uid"] == nil {
		t.Errorf("%v", said)
	}

	// A retry is seen to be one, and changes nothing.
	again, err := pb.NewControllerClient(conn).Submit(soon(t), job(func(r *pb.SubmitRequest) { r.RequestId = id }))
	if err != nil || again.GetJobId() != jobID {
		t.Fatal(again, err)
	}
	if said := find(written.records(t), "request", map[string]any{"method": "ListJobs"}); said == nil || said["level"] != "DEBUG" {
		t.Errorf("a read is logged as %v", said)
	}
}

// TestLogsOfRefusals: who is refused is named with why, whatever was sent
// forges nothing, and who is refused again and again is counted.
func TestLogsOfRefusals(t *testing.T) {
	server, written := startLogged(t, slog.LevelInfo)
	client := pb.NewControllerClient(connectTo(t, server.Addresses()[0], ""))
	bad := "x\n{\"level\":\"ERROR\",\"msg\":\"forged\"}\u009b2J"
	ctx := soon(t)
	for range 500 {
		if _, err := client.Submit(ctx, job(func(r *pb.SubmitRequest) { r.Spec.Partitions = []string{bad} })); err == nil {
			t.Fatal("a partition that nobody has was accepted")
		}
	}
	if _, err := client.UpdateNode(ctx, &pb.UpdateNodeRequest{RequestId: bad, Names: bad, Reason: bad, Action: pb.NodeAction_NODE_ACTION_DRAIN}); err == nil {
		t.Fatal("a node that nobody has was drained")
	}
	records := written.records(t)
	refused := 0
	for _, record := range records {
		if record["msg"] == api.MessageRefused {
			refused++
		}
	}
	if refused != 20 {
		t.Errorf("%d refusals were written", refused)
	}
	said := find(records, api.MessageRefused, map[string]any{"method": "Submit", "result": "InvalidArgument", "level": "INFO"})
	if said == nil || said["request_id"] == nil || !strings.Contains(fmt.Sprint(said["error"]), "partition") {
		t.Errorf("%v in %v", said, records)
	}
	if find(records, "forged", nil) != nil {
		t.Error("a line was forged")
	}
}
