package thread

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNeverTheMainThread: a program whose main goroutine has left the main thread
// discards many threads at once, and none of them is the main thread.
func TestNeverTheMainThread(t *testing.T) {
	if os.Getenv("THREAD_TEST_CHILD") == "" {
		child := exec.Command(os.Args[0], "-test.run=^TestNeverTheMainThread$", "-test.count=1")
		child.Env = append(os.Environ(), "THREAD_TEST_CHILD=1")
		if text, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return
	}
	// The test's goroutine keeps a thread that is not the main one, and the other
	// processors spin: whoever comes next finds the main thread free.
	for range 200 {
		var all sync.WaitGroup
		var mu sync.Mutex
		mains := 0
		for range 8 {
			all.Go(func() {
				Discard(func() {
					runtime.Gosched()
					if unix.Gettid() == unix.Getpid() {
						mu.Lock()
						mains++
						mu.Unlock()
					}
				})
			})
		}
		all.Wait()
		if mains > 0 {
			t.Fatalf("%d of 8 ran on the main thread, which does not end", mains)
		}
	}
}
