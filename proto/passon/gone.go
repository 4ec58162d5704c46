package passon

import (
	"runtime"
	"sync"

	"google.golang.org/grpc/mem"
)

// leastKept is from what size on gRPC says when memory is given back.
const leastKept = 2 << 10

// Capacity is how much memory bytes must have room in for Kept.
func Capacity(bytes int) int { return max(bytes, leastKept) }

// Kept is data on its way to whoever receives it; its capacity is at least Capacity. done is
// called once, when its memory is given back: when it was written, or the call was cut off.
// On a connection that is gone nobody gives anything back; then it is called when the memory
// is found to be unused.
func Kept(data []byte, done func()) mem.BufferSlice {
	done = sync.OnceFunc(done)
	runtime.AddCleanup(&data[:1][0], func(done func()) { done() }, done)
	return mem.BufferSlice{mem.NewBuffer(&data, gone{done})}
}

// WhenGone has done called once, when the last of the message's memory is given back, as of
// Kept. The message must not have been read.
func (m *Message) WhenGone(done func()) {
	parts := append(make(mem.BufferSlice, 0, len(m.data)+1), m.data...)
	var last []byte
	n := len(parts)
	if n > 0 {
		last = parts[n-1].ReadOnlyData()
	}
	// The last part is given back last; it is copied into memory that says so.
	tail := append(make([]byte, 0, Capacity(len(last))), last...)
	if n > 0 {
		parts[n-1].Free()
		parts = parts[:n-1]
	}
	m.data = append(parts, Kept(tail, done)...)
}

// gone is the pool that one piece of memory is given back to.
type gone struct{ done func() }

// Get implements mem.BufferPool; nobody gets memory from it.
func (gone) Get(length int) *[]byte {
	data := make([]byte, length)
	return &data
}

// Put implements mem.BufferPool.
func (g gone) Put(*[]byte) { g.done() }
