package run

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// Which protocol is served: as typed, else as the program's libraries say.
func TestMPIOfProgram(t *testing.T) {
	dir := t.TempDir()
	script, fifo := filepath.Join(dir, "script"), filepath.Join(dir, "fifo")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(fifo, 0o755); err != nil {
		t.Fatal(err)
	}
	if !needsLibrary("/bin/sh", "libc.so.6") {
		t.Error("/bin/sh is linked with the C library")
	}
	for _, path := range []string{"", "/bin/sh", script, fifo, dir, dir + "/missing"} {
		if needsLibrary(path, openMPI) {
			t.Errorf("%s is linked with Open MPI", path)
		}
	}
	for word, want := range map[string]string{"": mpiPMI2, "none": mpiNone, "pmi2": mpiPMI2, "pmix": mpiPMIx, "pmix_v4": mpiPMIx} {
		r := &stepRunner{inv: &option.Invocation{Command: Command(), Values: option.Values{optMPI: {word}}, Environ: []string{"PATH=/nowhere:" + dir + ":/bin"}}, directory: dir}
		if got := r.mpi([]string{"sh"}); got != want {
			t.Errorf("--mpi=%s: %s, want %s", word, got, want)
		}
		if got := r.programPath("script"); got != script {
			t.Errorf("script is %q", got)
		}
		if got := r.programPath("./script"); got != script {
			t.Errorf("./script is %q", got)
		}
	}
}

func TestWithoutPMI(t *testing.T) {
	got := withoutPMI([]string{"PMI_FD=4", "PMI_JOBID=1.0", "PMIX_RANK=0", "PMIX_MCA_gds=hash", "PMIX=x", "A=b"})
	if fmt.Sprint(got) != "[PMIX_MCA_gds=hash PMIX=x A=b]" {
		t.Error(got)
	}
}

// told is a connection to a node whose side is read.
type told struct {
	io.Reader
	io.WriteCloser
}

// At a fence all nodes get what all have put, in the order of the nodes.
func TestFenceOfNodes(t *testing.T) {
	r := &stepRunner{shape: &jobShape{job: "7"}, plan: []nodeTasks{{node: "n1", ranks: []uint32{0}}, {node: "n2", ranks: []uint32{1}}}, open: 2}
	var nodes []*step.Reader
	for range r.plan {
		read, write := io.Pipe()
		defer read.Close()
		r.clients = append(r.clients, step.NewClient(told{strings.NewReader(""), write}))
		nodes = append(nodes, step.NewReader(read))
	}
	for range 2 { // a fence after it has nothing of this one
		r.fence(1, &step.Fence{Data: []byte("second"), Pairs: step.Pairs{"b": "2"}})
		r.fence(0, &step.Fence{Data: []byte("first"), Pairs: step.Pairs{"a": "1"}})
		for _, node := range nodes {
			m, err := node.Read()
			if all, ok := m.(*step.Fenced); !ok || string(all.Data) != "firstsecond" || fmt.Sprint(all.Pairs) != "map[a:1 b:2]" {
				t.Fatalf("%+v, %v", m, err)
			}
		}
	}
	job, other := r.pmix(), r.pmix()
	job.Here = 1
	if err := job.Check(); err != nil || !strings.HasPrefix(job.Space, "slurm.pmix.7.0.") || job.Nodes[1].Name != "n2" {
		t.Errorf("%+v: %v", job, err)
	}
	if job.Space == other.Space {
		t.Errorf("%s can be guessed", job.Space)
	}
}
