package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/checkpoint-restore/go-criu/v8/rpc"
)

// A CRIU that ends early, or what should lead to it, is quoted, and how it ended.
func TestLastWords(t *testing.T) {
	program := filepath.Join(t.TempDir(), "criu")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\necho no such thing >&2\nexit 7\n"), 0o755))
	for _, row := range []struct {
		through []string
		words   string
	}{
		{nil, "exit status 7: no such thing"},
		{[]string{"no-such-program"}, "exit status 127: "},
		{[]string{"env", "sh", "-c", "yes long | head -c 100000 >&2; sleep 600 & exit 9"}, "exit status 9: long long"},
	} {
		call := &swrk{engine: &Engine{Path: program}, through: row.through, request: &rpc.CriuReq{Type: set(rpc.CriuReqType_VERSION)}}
		err := call.run(t.Context())
		if !errors.Is(err, errEnded) || !strings.Contains(err.Error(), row.words) || len(err.Error()) > 2*maxLastWords {
			t.Errorf("through %q: %v", row.through, err)
		}
	}
}

// A CRIU without the programs that lead it to a job's clocks could not save a job
// that has moved, which would be found out when its owner wants the node back.
func TestFindNeedsTheClocksPrograms(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	must(t, os.WriteFile(good, []byte("#!/bin/sh\n[ \"$1\" = --version ] && echo Version: 4.2.1\nexit 0\n"), 0o755))
	must(t, os.Symlink("/bin/true", filepath.Join(dir, "unshare")))
	t.Setenv("PATH", dir)
	engine, rejected := Find(t.Context(), []string{good})
	if engine != nil || len(rejected) != 1 || !strings.Contains(rejected[0].Reason, "nsenter is missing") {
		t.Errorf("found %v, rejected %v", engine, rejected)
	}
}
