package api

import (
	"strconv"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/session"
)

// TestTunnelsOfOneUser: however many tunnels some users' jobs open, others' jobs get some, and
// jobs that move get theirs; all places are given back.
func TestTunnelsOfOneUser(t *testing.T) {
	tunnels := newTunnels(nil, func(job uint32) uint32 { return job / 100 })
	var open []func()
	begin := func(job uint32, purpose string) error {
		name := strconv.Itoa(len(open))
		c := &channel{alloc: session.Alloc{Job: job}, purpose: purpose, over: make(chan struct{})}
		err := tunnels.begin(name, c)
		if err == nil {
			open = append(open, func() { tunnels.end(name, c) })
		}
		return err
	}
	fill := func(user uint32) (got int) {
		for job := user * 100; job < user*100+10; job++ {
			for begin(job, "") == nil {
				got++
			}
		}
		return got
	}
	for i, want := range []int{maxTunnelsPerUser, maxTunnelsPerUser, leastTunnels, leastTunnels} {
		if got := fill(uint32(i + 1)); got != want {
			t.Errorf("user %d gets %d, want %d", i+1, got, want)
		}
	}
	if err := begin(100, forOutput); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	if err := begin(100, "digest"); err != nil {
		t.Errorf("an image: %v", err)
	}
	for _, end := range open {
		end()
	}
	if tunnels.open != 0 || len(tunnels.perJob) != 0 || len(tunnels.perUser) != 0 || len(tunnels.waiting) != 0 {
		t.Errorf("left: %d, %v, %v, %d wait", tunnels.open, tunnels.perJob, tunnels.perUser, len(tunnels.waiting))
	}
}
