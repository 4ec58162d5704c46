package replica

import (
	"errors"
	"sync"

	"github.com/hashicorp/raft"
)

// errPipelineOver is returned once a pipeline has had an answer after which
// raft no longer reads from it.
var errPipelineOver = errors.New("the other controller refused, or did not answer")

// pipeline sends entries without waiting for each answer, as raft's own does,
// and never blocks the sender forever.
//
// raft stops reading the answers at the first that is no success, such as one
// that did not come within rpcLimit. Its own pipeline hands over one answer at
// a time: without a reader, the next sender waits forever. The peer at the
// other end then gets no entry as long as this one leads, and this one cannot
// be stopped. Here the answers are taken whether anybody reads them or not, and
// after such an answer nothing more is sent.
type pipeline struct {
	inner   raft.AppendPipeline
	answers chan raft.AppendFuture
	over    chan struct{} // closed after such an answer
	closed  chan struct{}
	closing sync.Once
}

func newPipeline(inner raft.AppendPipeline) *pipeline {
	p := &pipeline{inner: inner, answers: make(chan raft.AppendFuture), over: make(chan struct{}), closed: make(chan struct{})}
	go p.pass()
	return p
}

// pass hands on the answers, in their order. What raft has under way bounds how
// many wait.
func (p *pipeline) pass() {
	var waiting []raft.AppendFuture
	over := false
	for {
		var out chan raft.AppendFuture
		var next raft.AppendFuture
		if len(waiting) > 0 {
			out, next = p.answers, waiting[0]
		}
		select {
		case answered := <-p.inner.Consumer():
			waiting = append(waiting, answered)
			if !over && !answered.Response().Success {
				over = true
				close(p.over)
			}
		case out <- next:
			waiting = waiting[1:]
		case <-p.closed:
			return
		}
	}
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(request *raft.AppendEntriesRequest, answer *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	select {
	case <-p.over:
		return nil, errPipelineOver
	default:
	}
	shorten(request)
	return p.inner.AppendEntries(request, answer)
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.closing.Do(func() { close(p.closed) })
	return p.inner.Close()
}
