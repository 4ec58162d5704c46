package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestWriteThroughNoLink: root writes a script in a user's directory, where its name was made
// a link; with a name of one's own it goes where that leads.
func TestWriteThroughNoLink(t *testing.T) {
	target := clienttest.Serve(t, func(server *grpc.Server) {
		pb.RegisterControllerServer(server, &savingController{shows: []*pb.Job{{Id: &pb.JobId{Job: 101}, Spec: &pb.JobSpec{Script: []byte("#!/bin/sh\n")}}}})
	})
	t.Setenv("GLEANER_CONTROLLER", target)
	t.Chdir(t.TempDir())
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(kept, []byte("as it was"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kept, "slurm-101.sh"); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := typed(t, t.Context(), nil, "gcontrol write batch_script 101"); status == 0 || !strings.Contains(stderr, "the script is not written") {
		t.Errorf("status %d, %s", status, stderr)
	}
	if text, err := os.ReadFile(kept); err != nil || string(text) != "as it was" {
		t.Errorf("%q, %v", text, err)
	}
	if _, stderr, status := typed(t, t.Context(), nil, "gcontrol write batch_script 101 slurm-101.sh"); status != 0 {
		t.Errorf("status %d, %s", status, stderr)
	}
	if text, err := os.ReadFile(kept); err != nil || !strings.HasPrefix(string(text), "#!") {
		t.Errorf("%q, %v", text, err)
	}
}
