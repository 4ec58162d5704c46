package prototest

import (
	"context"
	"testing"
	"time"
)

// Patience is how long a test waits for what has to come. It ends a test that
// hangs and says nothing about speed: it is far longer than anything takes on
// a machine that does ten other things, and costs nothing when it comes.
const Patience = 2 * time.Minute

// Soon is a context that ends after Patience, or with the test.
func Soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Eventually waits until so says yes. It asks again after a few milliseconds,
// and fails the test after Patience.
func Eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", Patience, what)
		}
	}
}

// Receive returns what a channel brings; it fails the test after Patience.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(Patience):
		t.Fatalf("not within %v: %s", Patience, what)
		panic("unreachable")
	}
}
