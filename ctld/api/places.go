package api

import (
	"context"
	"strconv"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// maxRequestsPerUser bounds what one user has under way at once, over all
// connections: each request may hold a whole message. Those who follow changes
// are counted apart, and so are nodes and root, as whom supervisors come.
const maxRequestsPerUser = 128

// places counts by user.
type places struct {
	mu    sync.Mutex
	taken map[string]int
}

// take gets a place; release gives it back.
func (p *places) take(user string, limit int) (release func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[user] >= limit {
		return nil, false
	}
	if p.taken == nil {
		p.taken = make(map[string]int)
	}
	p.taken[user]++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.taken[user]--; p.taken[user] <= 0 {
			delete(p.taken, user)
		}
	}), true
}

// admit refuses a request before anything of it is read. It must not block.
// The code makes clients come again in a moment.
func (p *places) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	user := boundedUser(ctx, info.Header)
	if user == "" || info.FullMethodName == pb.Controller_Follow_FullMethodName {
		return ctx, nil
	}
	release, ok := p.take(user, maxRequestsPerUser)
	if !ok {
		refusals.WithLabelValues(boundRequests).Inc()
		return nil, status.Errorf(codes.Unavailable, "%s has %d requests under way already: wait until some are answered", user, maxRequestsPerUser)
	}
	context.AfterFunc(ctx, release)
	return ctx, nil
}

// boundedUser names who is at the other end if that is somebody with bounds.
func boundedUser(ctx context.Context, header metadata.MD) string {
	remote, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	switch info := remote.AuthInfo.(type) {
	case peerInfo:
		return info.user()
	case tlsInfo:
		return certificateUser(info.TLSInfo)
	case linkInfo:
		return boundedCaller(header)
	}
	return ""
}

func (p peerInfo) user() string {
	if p.uid == 0 {
		return ""
	}
	return "user " + strconv.FormatUint(uint64(p.uid), 10)
}

func certificateUser(info credentials.TLSInfo) string {
	if len(info.State.PeerCertificates) == 0 {
		return ""
	}
	if kind, name, ok := pki.Holder(info.State.PeerCertificates[0]); ok && kind == pki.User {
		return "user " + name
	}
	return ""
}
