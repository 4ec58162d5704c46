package shim

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// initVariable tells a test program that runs in a private mount namespace
// where ginit is.
const initVariable = "GLEANER_TEST_GINIT"

// privately runs the test once more, in a process with a mount namespace of
// its own, so that it can mount file systems where a host has them. It answers
// true there, and false to the test that has only to return.
func privately(t *testing.T) bool {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: mounts file systems")
	}
	if os.Getenv(initVariable) != "" {
		must(t, unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
		return true
	}
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self, "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.v")
	cmd.Env = append(os.Environ(), initVariable+"="+initPath)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("%s", out)
	}
	return false
}

// mountTmpfs mounts a small file system on a directory that it makes.
func mountTmpfs(t *testing.T, path string, mode os.FileMode, options string) {
	t.Helper()
	must(t, os.MkdirAll(path, 0o755))
	must(t, unix.Mount("test", path, "tmpfs", 0, options))
	t.Cleanup(func() { must(t, unix.Unmount(path, unix.MNT_DETACH)) })
	must(t, os.Chmod(path, mode))
}
