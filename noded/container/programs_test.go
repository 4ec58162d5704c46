package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/container/programs"
)

// Programs of all kinds resume elsewhere as if nothing had happened.
func TestMovePrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: runs many programs")
	}
	all, err := programs.All()
	must(t, err)
	for _, p := range all {
		if !p.Brief {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			if missing := p.Missing(t.Context()); missing != "" {
				t.Skipf("needs %s", missing)
			}
			undisturbed := runProgram(t, p, false)
			moved := runProgram(t, p, true)
			if undisturbed != moved {
				t.Errorf("moved it prints %q, and undisturbed %q", moved, undisturbed)
			}
			if testing.Verbose() {
				t.Logf("it prints %q", moved)
			}
		})
	}
}

// runProgram runs a program to its end and answers what it printed.
func runProgram(t *testing.T, p *programs.Program, move bool) string {
	t.Helper()
	b := newBed(t)
	must(t, p.Put(t.Context(), b.home()))
	script, err := os.ReadFile(filepath.Join(b.home(), programs.Script))
	must(t, err)
	s := b.start()
	s.must(order{Do: "start", Script: string(script), Private: p.Private})
	eventually(t, "it is ready", func() bool { return strings.Contains(b.read(), programs.Ready) })
	if move {
		s = s.move()
	}
	must(t, os.WriteFile(filepath.Join(b.home(), programs.Go), nil, 0o644))
	if r := s.must(order{Do: "wait"}); r.Code != 0 || r.Signal != 0 {
		t.Errorf("it ended with %d, signal %d, and printed %q", r.Code, r.Signal, b.read())
	}
	return b.read()
}
