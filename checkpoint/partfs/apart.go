package partfs

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// apart does what asks the file system that this process serves itself.
//
// A thread that waits for such an answer cannot be killed. If the process is killed at that
// moment, nobody answers; the kernel ends the wait once the last descriptor of /dev/fuse is
// closed, and threads share descriptors until the last of them has ended. So the thread that
// asks has descriptors of its own, without that one. Otherwise the process would never end,
// and keep its locks until the machine is started again.
func apart(fd int, do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // without an end: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_FILES); err != nil {
			result <- os.NewSyscallError("unshare", err)
			return
		}
		if err := unix.Close(fd); err != nil {
			result <- fmt.Errorf("leave the descriptor of a file system to its server: %w", err)
			return
		}
		result <- do()
	}()
	return <-result
}
