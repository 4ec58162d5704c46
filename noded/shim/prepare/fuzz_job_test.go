package prepare

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle/bundletest"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// FuzzJob: whatever lies in an allocation's directory as its order and settings, it
// is refused, or its environment and files have bounds, and process 1 takes its
// orders.
func FuzzJob(f *testing.F) {
	bundletest.Seed(f)
	parent := f.TempDir()
	f.Fuzz(func(t *testing.T, name string, order, settings []byte) {
		d, ok := bundletest.Write(t, parent, name, order, settings)
		if !ok {
			return
		}
		p, err := New(d, slog.New(slog.DiscardHandler))
		if err != nil {
			return
		}
		checkEnvironment(t, p)
		for _, pattern := range []string{p.Order.Spec.GetStandardOutput(), spec.DefaultOutput(p.Order.ArrayJobId != 0)} {
			if path, err := p.expand(pattern); err == nil && len(path) > 2*spec.MaxPathBytes+len(p.Order.Spec.GetWorkDirectory()) {
				t.Errorf("a path of %d bytes", len(path))
			}
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func checkEnvironment(t *testing.T, p *Job) {
	batch := &pid1.Batch{Argv: append([]string{"/s"}, p.Order.Spec.GetArguments()...), Env: p.batchEnvironment(), Cwd: bytesOf(p.Order.Spec.GetWorkDirectory()), Stdout: "/o"}
	filter := pid1.Filter{Program: []unix.SockFilter{{}}}
	var orders bytes.Buffer
	must(t, pid1.WriteOrders(&orders, filter.Encode(), &pid1.Config{Batch: batch, StepEnv: p.stepEnvironment()}))
	_, config, err := pid1.ReadOrders(&orders)
	if err != nil {
		t.Fatalf("process 1 does not take what it is given: %v", err)
	}
	if len(config.Batch.Env) != len(batch.Env) || config.Batch.Cwd != batch.Cwd {
		t.Fatal("process 1 reads something else")
	}
	seen := map[string]bool{}
	for _, entry := range batch.Env {
		name, _, _ := strings.Cut(entry, "=")
		if seen[name] {
			t.Fatalf("%q is set twice", name)
		}
		seen[name] = true
	}
}
