package scenario

import (
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

func init() { commands["tmpfs"] = mountSmall }

// mountSmall is `tmpfs DIR SIZE`: makes the directory a small file system of
// its own until the story ends.
func mountSmall(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: tmpfs DIR SIZE")
	}
	ts.Check(ts.Exec("mkdir", "-p", args[0]))
	ts.Check(syscall.Mount("tmpfs", ts.MkAbs(args[0]), "tmpfs", 0, "mode=0700,size="+args[1]))
	ts.Defer(func() {
		if err := syscall.Unmount(ts.MkAbs(args[0]), syscall.MNT_DETACH); err != nil {
			unclean.add("%s: unmount %s: %v", ts.Name(), args[0], err)
		}
	})
}
