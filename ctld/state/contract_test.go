package state

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestContract: what would make one peer differ from another is not even
// imported, and goroutines are not started; in the rooms neither.
func TestContract(t *testing.T) {
	forbidden := map[string]string{
		"time": "reads the clock", "os": "does I/O", "net": "does I/O", "log": "logs", "log/slog": "logs",
		"math/rand": "is random", "math/rand/v2": "is random", "crypto/rand": "is random",
		"sync": "is for goroutines", "sync/atomic": "is for goroutines", "context": "is for goroutines",
	}
	const project = "github.com/gleaner-hpc/gleaner/"
	allowed := map[string]bool{
		project + "sched": true, project + "sched/explain": true, project + "sched/place": true, project + "sched/billing": true, project + "sched/fairshare": true, project + "sched/habit": true,
		project + "proto/gleaner/v1": true, project + "proto/spec": true,
		project + "ctld/state/policy": true, project + "ctld/state/bounds": true, project + "ctld/state/ranges": true,
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	rooms, err := filepath.Glob("*/*.go")
	if err != nil || len(rooms) == 0 {
		t.Fatal("the rooms are not found", err)
	}
	files = append(files, rooms...)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if why, is := forbidden[path]; is {
				t.Errorf("%s imports %s, which %s", name, path, why)
			}
			if strings.HasPrefix(path, project) && !allowed[path] {
				t.Errorf("%s imports %s: the arrows point down only", name, path)
			}
		}
	}
}
