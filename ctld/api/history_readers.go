package api

import (
	"context"
	"sync"
)

// readersOf is how many answers from the history database one user gets at once. Each
// holds one of the database's connections for as long as its reader takes to read.
const readersOf = 2

// historyReaders has a user's further requests wait for the first, so that one who reads
// slowly keeps nobody else from reading.
type historyReaders struct {
	mu     sync.Mutex
	places map[uint32]*readerPlaces // by uid; only of those who read
}

type readerPlaces struct {
	free chan struct{}
	held int // requests that read or wait
}

// enter waits for a place; leave gives it back.
func (h *historyReaders) enter(ctx context.Context, uid uint32) (leave func(), err error) {
	h.mu.Lock()
	if h.places == nil {
		h.places = make(map[uint32]*readerPlaces)
	}
	mine := h.places[uid]
	if mine == nil {
		mine = &readerPlaces{free: make(chan struct{}, readersOf)}
		h.places[uid] = mine
	}
	mine.held++
	h.mu.Unlock()
	gone := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if mine.held--; mine.held == 0 {
			delete(h.places, uid)
		}
	}
	select {
	case mine.free <- struct{}{}:
		return func() { <-mine.free; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
}
