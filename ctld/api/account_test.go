package api

import (
	"errors"
	"os/user"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// TestNameServiceHangs: while the name service does not answer, requests end in time, and few
// threads wait for it, however many requests and numbers there are.
func TestNameServiceHangs(t *testing.T) {
	patience := lookupPatience
	lookupPatience = 50 * time.Millisecond
	answer := make(chan struct{})
	t.Cleanup(func() { lookupPatience = patience })
	var now atomic.Int32
	hang := func() (*user.User, error) {
		now.Add(1)
		defer now.Add(-1)
		<-answer
		return nil, user.UnknownUserIdError(1)
	}
	var wait sync.WaitGroup
	for i := range 2 * maxLookups {
		for range 2 {
			wait.Go(func() {
				if _, err := requestLookups.remember("hangs "+strconv.Itoa(i), hang); !errors.Is(err, errNameService) || isStranger(err) {
					t.Errorf("it is not said that the name service hangs: %v", err)
				}
			})
		}
	}
	wait.Wait()
	if asked := now.Load(); asked > maxLookups {
		t.Errorf("%d threads wait", asked)
	}
	close(answer)
	prototest.Eventually(t, "all have ended", func() bool { return now.Load() == 0 && len(requestLookups.places) == 0 })
	if _, err := requestLookups.remember("hangs 0", hang); !isStranger(err) {
		t.Errorf("once it answers: %v", err)
	}
}
