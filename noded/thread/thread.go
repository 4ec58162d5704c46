// Package thread runs code on a thread of the kernel's that ends with it, for
// what a thread must not keep: another user's identity, another mount namespace.
//
// Contract: whatever f does to its thread, no other code ever runs there. f makes
// its system calls itself, not in goroutines of its own.
package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Discard runs f on a thread of its own, waits for it, and lets the thread end.
//
// The process's main thread is never that thread: Go does not end it with its
// goroutine but parks it, as f left it, until the process ends. It would hold a
// mount namespace, and /proc/self of the whole process would show it.
func Discard(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			Discard(f)
			return
		}
		f()
	}()
	<-done
}
