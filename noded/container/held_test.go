package container

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// TestHeldFileMount: what a job had open may itself have been mounted, as the libraries of a
// driver are, one by one.
func TestHeldFileMount(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: looks as another user")
	}
	path := filepath.Join(t.TempDir(), "lib.so")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	a := &assembled{given: map[string]*os.File{"/usr/lib/lib.so": file}}
	want := checkpoint.Held{Path: "/usr/lib/lib.so", Kind: checkpoint.KindOf(unix.S_IFREG), Mapped: true, Access: unix.R_OK}
	user := User{UID: 65534, GID: 65534}
	if err := checkHeld(user, a, []checkpoint.Held{want}); err != nil {
		t.Error(err)
	}
	want.Access |= unix.W_OK
	if err := checkHeld(user, a, []checkpoint.Held{want}); err == nil {
		t.Error("it may be written by somebody else")
	}
	want.Path += "/below"
	if err := checkHeld(user, a, []checkpoint.Held{want}); err == nil {
		t.Error("something was found below a file")
	}
}
