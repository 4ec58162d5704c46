package bcast

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
)

func TestMain(m *testing.M) { clienttest.Patient(m) }

// stage runs command lines of this command.
var stage = clienttest.Of(Command())

func TestDialogues(t *testing.T) { stage.Dialogues(t) }

// TestReceive: what runs on a node writes the file whole, or leaves what was there.
func TestReceive(t *testing.T) {
	for name, c := range map[string]struct {
		there, input, size, modified, force string
		fails                               string
		left                                string
	}{
		"new":               {input: "abc", size: "3", left: "abc"},
		"empty":             {size: "0"},
		"there already":     {there: "old", input: "abc", size: "3", fails: "REQUEST_FILE_BCAST(n7): File exists", left: "old"},
		"replaced":          {there: "old", input: "abc", size: "3", force: "force", left: "abc"},
		"broken off":        {there: "old", input: "ab", size: "3", force: "force", fails: "REQUEST_FILE_BCAST(n7): not all of it arrived", left: "old"},
		"with its own time": {input: "abc", size: "3", modified: "1000000000.5", left: "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			target := filepath.Join(directory, "copy of it")
			if c.there != "" {
				clienttest.WriteFile(t, target, c.there)
			}
			command := exec.Command("/bin/sh", "-c", receive, target, c.size, "750", c.modified, c.force)
			command.Env, command.Stdin = []string{"PATH=/usr/bin:/bin", "SLURMD_NODENAME=n7"}, strings.NewReader(c.input)
			said, err := command.CombinedOutput()
			if strings.TrimSpace(string(said)) != c.fails || (err != nil) != (c.fails != "") {
				t.Errorf("said %q (%v), want %q", said, err, c.fails)
			}
			left, err := os.ReadFile(target)
			if err != nil || string(left) != c.left {
				t.Errorf("left %q (%v), want %q", left, err, c.left)
			}
			if files, _ := os.ReadDir(directory); len(files) != 1 {
				t.Errorf("left %d files", len(files))
			}
			info, err := os.Stat(target)
			if err != nil || c.fails == "" && info.Mode().Perm() != 0o750 {
				t.Errorf("the mode is %v (%v)", info.Mode(), err)
			}
			if c.modified != "" && !info.ModTime().Equal(time.Unix(1_000_000_000, 500_000_000)) {
				t.Errorf("the time is %v", info.ModTime())
			}
		})
	}
}

// TestReceiveIntoDirectory: a directory is no place for it, and keeps its name.
func TestReceiveIntoDirectory(t *testing.T) {
	directory := t.TempDir()
	command := exec.Command("/bin/sh", "-c", receive, directory, "0", "600", "", "force")
	command.Env = []string{"PATH=/usr/bin:/bin", "SLURMD_NODENAME=n7"}
	if said, err := command.CombinedOutput(); err == nil || string(said) != "REQUEST_FILE_BCAST(n7): Is a directory\n" {
		t.Errorf("said %q (%v)", said, err)
	}
}

// TestFailures: of what a step says, what nodes complain of counts.
func TestFailures(t *testing.T) {
	for said, want := range map[string]string{
		"": "the copy was ended before it was whole",
		"REQUEST_FILE_BCAST(n1): File exists\ngrun: error: n1: task 0: Exited with exit code 1\n": "REQUEST_FILE_BCAST(n1): File exists",
		"grun: error: Unable to create step for job 5: no\x1b\n":                                  `Unable to create step for job 5: no?`,
	} {
		l := &limited{}
		for part := range strings.SplitAfterSeq(said, "n") {
			_, _ = l.Write([]byte(part))
		}
		if got := l.failures(); got != want {
			t.Errorf("%q: got %q, want %q", said, got, want)
		}
	}
	l := &limited{}
	for range 3 {
		if n, err := l.Write(make([]byte, maxSaid-1)); n != maxSaid-1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if l.Len() != maxSaid {
		t.Errorf("%d bytes are kept", l.Len())
	}
}
