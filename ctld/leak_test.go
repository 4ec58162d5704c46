package ctld

import (
	"context"
	"runtime"
	"testing"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestStreamsLeaveNothing: what a session, a follower or half a tunnel started
// ends with its stream, however it ends.
func TestStreamsLeaveNothing(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	list(t, conn, all())         // the connection has its own goroutines
	const rounds, slack = 20, 15 // each round would leave one at least; raft and the loops have some that come and go
	before := runtime.NumGoroutine()
	for range rounds {
		stop := newFakeNode(t, "n1", -1).connect(conn)
		ctx, cancel := context.WithCancel(context.Background())
		follow, err := pb.NewControllerClient(conn).Follow(ctx, &pb.FollowRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := follow.Recv(); err != nil {
			t.Fatal(err)
		}
		if _, err := pb.NewNodeLinkClient(conn).Session(ctx); err != nil { // says nothing
			t.Fatal(err)
		}
		if _, err := pb.NewNodeLinkClient(conn).Tunnel(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		stop()
	}
	known := func() bool { return server.cluster.feed.followed() || len(server.leader.Sessions().All()) > 0 }
	for deadline := time.Now().Add(patience); known() || runtime.NumGoroutine() > before+slack; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("streams known: %t; %d goroutines before, %d now:\n%s", known(), before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
	}
}
