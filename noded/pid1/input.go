package pid1

import (
	"sync"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// maxInputItems bounds what waits of a client that sends ends of input, which
// count for nothing in its window, or single bytes.
const maxInputItems = step.InputWindow / 4

// inputQueue holds input between the connection and the tasks. It is bounded
// by the client's window.
type inputQueue struct {
	most   int // bytes
	mu     sync.Mutex
	more   *sync.Cond
	items  []inputItem
	bytes  int // sent by the client and not credited yet
	closed bool
}

type inputItem struct {
	rank uint32
	all  bool
	end  bool
	data []byte
}

func (q *inputQueue) init(most int) { q.most, q.more = most, sync.NewCond(&q.mu) }

// push is false when the client sent more than its window, or too many pieces.
func (q *inputQueue) push(item inputItem) bool {
	if len(item.data) == 0 && !item.end {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes += len(item.data)
	if q.bytes > q.most || len(q.items) >= maxInputItems {
		return false
	}
	if !q.closed {
		q.items = append(q.items, item)
		q.more.Signal()
	}
	return true
}

// pop waits for the next item; false when the step is over.
func (q *inputQueue) pop() (inputItem, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.more.Wait()
	}
	if q.closed {
		return inputItem{}, false
	}
	item := q.items[0]
	q.items[0] = inputItem{}
	q.items = q.items[1:]
	return item, true
}

func (q *inputQueue) credit(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= n
}

// forget drops what waits.
func (q *inputQueue) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, item := range q.items {
		q.bytes -= len(item.data)
	}
	q.items = nil
}

func (q *inputQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.items = nil
	q.more.Broadcast()
}

// pumpInput writes input to the tasks in the order in which it came. A task that does
// not read holds up only the input of this step's other tasks on this node.
// Input for a task that has ended is dropped.
func (run *stepRun) pumpInput() {
	for {
		item, ok := run.input.pop()
		if !ok {
			return
		}
		for _, t := range run.tasks {
			if t.stdin == nil || !item.all && t.rank != item.rank {
				continue
			}
			if item.end {
				t.stdin.Close()
			} else {
				_, _ = t.stdin.Write(item.data) // fails when the task has ended
			}
		}
		if n := len(item.data); n > 0 {
			run.input.credit(n)
			run.send(&step.InputCredit{Bytes: uint32(n)})
		}
	}
}
