package ctld

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestAuditRequired: what cannot be written down is not done. The log is a pipe
// that nobody reads from any more.
func TestAuditRequired(t *testing.T) {
	config := configIn(shortDir(t))
	config.Audit, config.AuditFile = AuditRequired, filepath.Join(t.TempDir(), "audit")
	if err := syscall.Mkfifo(config.AuditFile, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(config.AuditFile, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn := connectTo(t, startServer(t, config).Addresses()[0], "")
	hold := func(r *pb.SubmitRequest) { r.Spec.Hold, r.Spec.Environment = true, []string{"TOKEN=hunter2"} }
	id := submit(t, conn, job(hold))
	said := make([]byte, 64<<10)
	n, err := reader.Read(said)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(said[:n], []byte("hunter2")) {
		t.Errorf("an environment in the audit log: %s", said[:n])
	}
	var stages []string
	for _, line := range strings.Split(strings.TrimSpace(string(said[:n])), "\n") {
		var e struct{ Verb, Stage, Result, From string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if e.Verb == "Submit" {
			stages = append(stages, e.Stage+" "+e.Result)
			if !strings.HasPrefix(e.From, "unix") {
				t.Errorf("from %q", e.From)
			}
		}
	}
	if strings.Join(stages, ",") != "asked ,answered OK" {
		t.Errorf("stages %q", stages)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = pb.NewControllerClient(conn).Submit(soon(t), job(hold))
	if status.Code(err) != codes.Unavailable || !strings.Contains(status.Convert(err).Message(), "audit log") {
		t.Errorf("a submission that was not written down: %v", err)
	}
	if jobs := list(t, conn, all()); len(jobs) != 1 || jobs[0].GetId().GetJob() != id {
		t.Errorf("jobs: %v", jobs)
	}
	answer, err := pb.NewControllerClient(conn).Status(soon(t), &pb.StatusRequest{})
	if err != nil || !strings.Contains(strings.Join(answer.GetProblems(), " "), "audit log") {
		t.Errorf("status does not tell: %v, %v", answer.GetProblems(), err)
	}
}
