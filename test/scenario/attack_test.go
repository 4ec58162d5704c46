package scenario

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

func init() {
	commands["userfuse"] = userFuse
	commands["exchange"] = exchange
}

// userFuse is `userfuse USER DIRECTORY [OPTIONS]`: makes a directory of a user's and
// mounts a FUSE file system on it, as fusermount would for that user, until the
// story's end. Nobody answers for it: whoever asks it something waits.
func userFuse(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: userfuse USER DIRECTORY [OPTIONS]")
	}
	id := -1
	for _, u := range users {
		if u.name == args[0] {
			id = u.id
		}
	}
	ts.Check(os.MkdirAll(args[1], 0o755))
	ts.Check(os.Chown(args[1], id, id))
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	ts.Check(err)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fuse.Fd(), id, id)
	if len(args) == 3 {
		options += "," + args[2]
	}
	if err := unix.Mount("story", args[1], "fuse.story", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		fuse.Close()
		ts.Fatalf("mount FUSE on %s: %v", args[1], err)
	}
	ts.Defer(func() { fuse.Close() }) // whoever waits for it gets an error
	unmountLater(ts, args[1])
}

// exchange is `exchange A B MILLISECONDS`: from now on, until the story's end, two
// directory entries change places that often, each time in one step.
func exchange(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: exchange A B MILLISECONDS")
	}
	every, err := strconv.Atoi(args[2])
	ts.Check(err)
	swap := func() error {
		return unix.Renameat2(unix.AT_FDCWD, args[0], unix.AT_FDCWD, args[1], unix.RENAME_EXCHANGE)
	}
	ts.Check(swap())
	ts.Check(swap())
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(time.Duration(every) * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if err := swap(); err != nil && err != syscall.ENOENT {
					return
				}
			}
		}
	})
	ts.Defer(func() { close(stop); done.Wait() })
}
