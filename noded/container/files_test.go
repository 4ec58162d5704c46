package container

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// A part is spared if this node has every file that it carries, with the same bytes: not
// if one of them is another file, or is not there.
func TestSpare(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"same", "other", "program"} {
		must(t, os.WriteFile(path(name), []byte("what "+name+" is here"), 0o644))
	}
	file := func(at, bytes, part string) checkpoint.File {
		return checkpoint.File{Path: at, Size: int64(len(bytes)), SHA256: sha256.Sum256([]byte(bytes)), Carried: part}
	}
	m := &checkpoint.Manifest{Files: []checkpoint.File{
		file(path("same"), "what same is here", "carried/0"),
		file(path("other"), "what other is new", "carried/1"), // as long
		file(path("gone"), "", "carried/2"),
		file(path("same"), "what same is here", "carried/1"),
		file(path("same"), "what same is here", ""),
		file(initPath, "what program is here", carriedInit),
	}}
	if got := Spare(m, path("program")); len(got) != 2 || !got["carried/0"] || !got[carriedInit] {
		t.Errorf("spared are %v", got)
	}
	if got := Spare(m, path("same")); got[carriedInit] {
		t.Error("another program of process 1 is taken for the image's")
	}
}
