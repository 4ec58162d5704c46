package passon

import (
	"runtime"
	"sync"

	"google.golang.org/grpc/mem"
)

// leastKept is from what size on gRPC says when memory is given back.
const leastKept = 2 << 10

// WhenGone has done called once, when the last of the message's memory is given back: when
// it was written to whoever receives it, or the call was cut off. On a connection that is
// gone nobody gives anything back; then it is called when that memory is found to be unused.
// The message must not have been read.
func (m *Message) WhenGone(done func()) {
	done = sync.OnceFunc(done)
	parts := append(make(mem.BufferSlice, 0, len(m.data)+1), m.data...)
	var last []byte
	if n := len(parts); n > 0 {
		last = parts[n-1].ReadOnlyData()
	}
	// The last part is given back last; it is copied into memory that says so.
	tail := make([]byte, len(last), max(len(last), leastKept))
	copy(tail, last)
	runtime.AddCleanup(&tail[:1][0], func(done func()) { done() }, done)
	kept := mem.NewBuffer(&tail, gone{done})
	if n := len(parts); n > 0 {
		parts[n-1].Free()
		parts[n-1] = kept
	} else {
		parts = append(parts, kept)
	}
	m.data = parts
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
