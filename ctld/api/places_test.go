package api

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// TestRequestsPerUser: one user's requests are bounded, until some are over;
// others', root's and those who follow are not counted with them.
func TestRequestsPerUser(t *testing.T) {
	var p places
	ask := func(uid uint32, method string) (end func(), err error) {
		ctx, cancel := context.WithCancel(peer.NewContext(context.Background(), &peer.Peer{AuthInfo: peerInfo{uid: uid}}))
		_, err = p.admit(ctx, &tap.Info{FullMethodName: method})
		return cancel, err
	}
	var end func()
	for i := range maxRequestsPerUser {
		var err error
		if end, err = ask(1000, pb.Controller_Submit_FullMethodName); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if _, err := ask(1000, pb.Controller_ListJobs_FullMethodName); status.Code(err) != codes.Unavailable {
		t.Errorf("one too many: %v", err)
	}
	for _, other := range []struct {
		uid    uint32
		method string
	}{{1001, pb.Controller_Submit_FullMethodName}, {0, pb.Controller_Submit_FullMethodName}, {1000, pb.Controller_Follow_FullMethodName}} {
		if _, err := ask(other.uid, other.method); err != nil {
			t.Errorf("%v: %v", other, err)
		}
	}
	end()
	// It comes back in a goroutine of its own.
	prototest.Eventually(t, "a request that is over gives its place back", func() bool {
		_, err := ask(1000, pb.Controller_Submit_FullMethodName)
		return err == nil
	})
}
