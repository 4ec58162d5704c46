// Package budget shares out bytes of memory among those whose messages a program holds.
//
// Contract: nobody holds more than Each, and nobody is kept from asking by what others
// hold: All bounds only those who hold something already, so that who holds nothing gets
// one message through, however many others there are. Who asks for more than is free waits,
// in turn, and no longer than its context; it is refused with ErrBusy then. What is asked for
// is an amount known before the bytes come; Shrink gives back what was not needed.
package budget

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// ErrBusy is returned when no bytes became free in time.
var ErrBusy = errors.New("too many bytes are under way")

// ErrTooLarge is returned when more is asked for than anybody may hold.
var ErrTooLarge = errors.New("more bytes than may be under way at once")

// sweepEvery bounds how often memory is looked through for shares that nobody holds any
// longer, while somebody waits.
const sweepEvery = 5 * time.Second

// Budget is a number of bytes. Its methods may be called from several goroutines.
type Budget struct {
	Each int64 // of one holder
	All  int64 // of all who hold something already

	mu      sync.Mutex
	held    map[string]int64
	all     int64
	waiting []*waiter // in the order in which they came
	swept   time.Time
}

type waiter struct {
	who     string
	bytes   int64
	granted chan struct{} // closed when it has them
}

// Share is what one message holds.
type Share struct {
	of    *Budget
	who   string
	mu    sync.Mutex
	bytes int64
}

// Take takes bytes for somebody, and waits for them until ctx ends.
func (b *Budget) Take(ctx context.Context, who string, bytes int64) (*Share, error) {
	if bytes > b.Each {
		return nil, fmt.Errorf("%w: %d, and at most %d", ErrTooLarge, bytes, b.Each)
	}
	b.mu.Lock()
	if !b.waits(who) && b.fits(who, bytes) {
		b.add(who, bytes)
		b.mu.Unlock()
		return &Share{of: b, who: who, bytes: bytes}, nil
	}
	w := &waiter{who: who, bytes: bytes, granted: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	sweep := time.Since(b.swept) > sweepEvery
	if sweep {
		b.swept = time.Now()
	}
	b.mu.Unlock()
	if sweep {
		runtime.GC() // what was on connections that are gone is free when it is found
	}
	select {
	case <-w.granted:
		return &Share{of: b, who: who, bytes: bytes}, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.granted: // just now
		return &Share{of: b, who: who, bytes: bytes}, nil
	default:
	}
	for i, other := range b.waiting {
		if other == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			break
		}
	}
	b.grant()
	return nil, ErrBusy
}

// Held is how many bytes are held.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all
}

// Shrink gives back all but so many bytes.
func (s *Share) Shrink(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if free := s.bytes - max(bytes, 0); free > 0 {
		s.bytes -= free
		s.of.give(s.who, free)
	}
}

// Release gives back all of it. It may be called again.
func (s *Share) Release() { s.Shrink(0) }

func (b *Budget) fits(who string, bytes int64) bool {
	mine := b.held[who]
	return mine+bytes <= b.Each && (mine == 0 || b.all+bytes <= b.All)
}

// waits says whether somebody waits: what comes later waits too.
func (b *Budget) waits(who string) bool {
	for _, w := range b.waiting {
		if w.who == who {
			return true
		}
	}
	return false
}

func (b *Budget) add(who string, bytes int64) {
	if bytes == 0 {
		return
	}
	if b.held == nil {
		b.held = make(map[string]int64)
	}
	b.held[who] += bytes
	b.all += bytes
}

func (b *Budget) give(who string, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= bytes
	if b.held[who] -= bytes; b.held[who] <= 0 {
		delete(b.held, who)
	}
	b.grant()
}

// grant serves those who wait, each holder's in their order.
func (b *Budget) grant() {
	var blocked map[string]bool
	left := b.waiting[:0]
	for _, w := range b.waiting {
		if !blocked[w.who] && b.fits(w.who, w.bytes) {
			b.add(w.who, w.bytes)
			close(w.granted)
			continue
		}
		if blocked == nil {
			blocked = make(map[string]bool)
		}
		blocked[w.who] = true
		left = append(left, w)
	}
	clear(b.waiting[len(left):])
	b.waiting = left
}
