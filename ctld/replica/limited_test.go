package replica

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
)

// weighing notes the largest request that passes.
type weighing struct {
	around
	largest *atomic.Int64
}

func (w weighing) note(request *raft.AppendEntriesRequest) {
	bytes := int64(0)
	for _, entry := range request.Entries {
		bytes += int64(len(entry.Data))
	}
	w.largest.Store(max(w.largest.Load(), bytes))
}

func (w weighing) AppendEntries(id raft.ServerID, target raft.ServerAddress, request *raft.AppendEntriesRequest, answer *raft.AppendEntriesResponse) error {
	w.note(request)
	return w.Transport.AppendEntries(id, target, request, answer)
}

func (w weighing) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	pipeline, err := w.Transport.AppendEntriesPipeline(id, target)
	return weighingPipeline{pipeline, w}, err
}

type weighingPipeline struct {
	raft.AppendPipeline
	weighing
}

func (w weighingPipeline) Close() error { return w.AppendPipeline.Close() }

func (w weighingPipeline) AppendEntries(request *raft.AppendEntriesRequest, answer *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	w.note(request)
	return w.AppendPipeline.AppendEntries(request, answer)
}

// TestLargeEntriesAreSentFewAtOnce: a peer that was away gets many large
// entries in several requests, and all of them.
func TestLargeEntriesAreSentFewAtOnce(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		var largest atomic.Int64
		g := newGroup(t, 3, func(o *Options) {
			inner := o.Transport
			o.Transport = func() (raft.Transport, error) {
				transport, err := inner()
				return weighing{around{transport}, &largest}, err
			}
		})
		away := "p1"
		if g.leader() == away {
			away = "p2"
		}
		g.close(away)
		var want []string
		for i := range 6 { // together more than the bound: the race detector looks at each byte many times
			want = append(want, fmt.Sprintf("%d %s", i, strings.Repeat("x", 3<<20)))
			g.propose(want[i])
		}
		largest.Store(0)
		g.reopen(away)
		g.same(want)
		if bytes := largest.Load(); bytes > maxSentBytes || bytes < maxSentBytes/2 {
			t.Errorf("the largest request held %d bytes: the bound is %d", bytes, maxSentBytes)
		}
	})
}
