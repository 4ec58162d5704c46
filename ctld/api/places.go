package api

import "sync"

// What one user may have under way at once, over all connections. Each request
// may hold a whole message; clients that follow changes or are attached to a
// job stay for hours, and are counted separately.
const (
	maxRequestsPerUser = 128
	maxSessionsPerUser = 256
)

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
