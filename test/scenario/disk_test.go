package scenario

import (
	"os"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

func init() {
	commands["disk"] = mountDisk
	commands["bindmount"] = bindMount
	commands["immutable"] = makeImmutable
	commands["removelater"] = removeLater
}

// mountDisk is `disk DIRECTORY OPTIONS`: mounts a small file system of its own
// on a directory, which everybody may write to, until the story's end.
func mountDisk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: disk DIRECTORY OPTIONS")
	}
	directory := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(directory, 0o755))
	ts.Check(syscall.Mount("story", directory, "tmpfs", 0, "mode=1777,"+args[1]))
	unmountLater(ts, directory)
}

// bindMount is `bindmount FROM TO`: mounts a directory in another place, which
// it makes, as an operator would, until the story's end or umount.
func bindMount(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: bindmount FROM TO")
	}
	ts.Check(os.MkdirAll(args[1], 0o755))
	ts.Check(syscall.Mount(args[0], args[1], "", syscall.MS_BIND, ""))
	unmountLater(ts, args[1])
}

// makeImmutable is `immutable FILE`: makes a file that not even root can remove
// until chattr -i, or the story's end.
func makeImmutable(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: immutable FILE")
	}
	ts.Check(os.WriteFile(args[0], nil, 0o600))
	ts.Check(ts.Exec("chattr", "+i", args[0]))
	ts.Defer(func() {
		if _, err := os.Lstat(args[0]); err == nil {
			_ = ts.Exec("chattr", "-i", args[0])
		}
	})
}

// removeLater is `removelater PATH…`: removes what will be there at the story's
// end, if it has not ended well, and would keep the node from being stopped.
func removeLater(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: removelater PATH...")
	}
	ts.Defer(func() {
		for _, path := range args {
			_ = os.Remove(path)
		}
	})
}

// unmountLater unmounts what the story has not unmounted itself.
func unmountLater(ts *testscript.TestScript, directory string) {
	ts.Defer(func() {
		err := syscall.Unmount(directory, syscall.MNT_DETACH)
		if err != nil && err != syscall.EINVAL && err != syscall.ENOENT {
			unclean.add("%s: unmount %s: %v", ts.Name(), directory, err)
		}
	})
}
