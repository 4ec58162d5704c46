package container

import (
	"os"
	"path/filepath"
	"testing"
)

// TestArchiveOfWhatChanges: a directory that changes while it is read is read again, and
// not for ever.
func TestArchiveOfWhatChanges(t *testing.T) {
	for _, c := range []struct {
		changes string // how many times
		fails   bool
	}{{"2", false}, {"3", true}} {
		programs, dir := t.TempDir(), t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600))
		must(t, os.WriteFile(filepath.Join(programs, "left"), []byte(c.changes), 0o600))
		script := "#!/bin/sh\ncd " + programs + "\nleft=$(cat left)\nPATH=" + os.Getenv("PATH") + "\n" +
			"if test $left -gt 0; then echo $((left - 1)) > left; echo 'tar: .: file changed as we read it' >&2; exit 1; fi\nexec tar \"$@\"\n"
		must(t, os.WriteFile(filepath.Join(programs, "tar"), []byte(script), 0o700))
		t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
		file := filepath.Join(t.TempDir(), "archive")
		if err := archive(t.Context(), dir, file); (err != nil) != c.fails {
			t.Fatalf("it changed %s times: %v", c.changes, err)
		}
		if c.fails {
			continue
		}
		into := t.TempDir()
		must(t, unarchive(t.Context(), file, into))
		if text, err := os.ReadFile(filepath.Join(into, "file")); err != nil || string(text) != "text" {
			t.Errorf("archived %q, %v", text, err)
		}
	}
}
