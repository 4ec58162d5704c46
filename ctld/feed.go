package ctld

import (
	"sync"
	"sync/atomic"

	"github.com/gleaner-hpc/gleaner/ctld/api"
)

// feedLength bounds what waits for one follower. A follower further behind
// lists again, which costs less than catching up.
const feedLength = 4096

// feed passes changes to followers. It never waits for one of them: a follower
// whose queue is full finds it closed.
type feed struct {
	mu        sync.Mutex
	followers map[chan api.Change]struct{}
	count     atomic.Int64
}

func newFeed() *feed {
	return &feed{followers: make(map[chan api.Change]struct{})}
}

func (f *feed) followed() bool { return f.count.Load() > 0 }

func (f *feed) follow() (<-chan api.Change, func()) {
	changes := make(chan api.Change, feedLength)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followers[changes] = struct{}{}
	f.count.Store(int64(len(f.followers)))
	return changes, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.drop(changes)
	}
}

func (f *feed) publish(change api.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for changes := range f.followers {
		select {
		case changes <- change:
		default:
			f.drop(changes)
		}
	}
}

func (f *feed) cutAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for changes := range f.followers {
		f.drop(changes)
	}
}

func (f *feed) drop(changes chan api.Change) {
	if _, known := f.followers[changes]; known {
		delete(f.followers, changes)
		close(changes)
		f.count.Store(int64(len(f.followers)))
	}
}
