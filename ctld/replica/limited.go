package replica

import (
	"fmt"

	"github.com/hashicorp/raft"
)

// maxSentBytes bounds the entries that are sent to another peer at once. raft
// counts entries, each of which may be a script of megabytes: what does not
// arrive within rpcLimit would be sent again forever.
const maxSentBytes = 16 << 20

// around wraps a transport with all the optional interfaces of raft: it must
// not hide any of them.
type around struct {
	raft.Transport
}

// RequestPreVote implements raft.WithPreVote.
func (a around) RequestPreVote(id raft.ServerID, target raft.ServerAddress, request *raft.RequestPreVoteRequest, answer *raft.RequestPreVoteResponse) error {
	asker, ok := a.Transport.(raft.WithPreVote)
	if !ok {
		return fmt.Errorf("%T has no pre-vote", a.Transport)
	}
	return asker.RequestPreVote(id, target, request, answer)
}

// Close implements raft.WithClose.
func (a around) Close() error {
	if closer, ok := a.Transport.(raft.WithClose); ok {
		return closer.Close()
	}
	return nil
}

// limited sends fewer entries at once where they are large. raft looks at what
// a request holds after it was sent, and continues after that.
type limited struct {
	around
}

// AppendEntries implements raft.Transport.
func (l limited) AppendEntries(id raft.ServerID, target raft.ServerAddress, request *raft.AppendEntriesRequest, answer *raft.AppendEntriesResponse) error {
	shorten(request)
	return l.Transport.AppendEntries(id, target, request, answer)
}

// AppendEntriesPipeline implements raft.Transport.
func (l limited) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	pipeline, err := l.Transport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return newPipeline(pipeline), nil
}

// shorten leaves at least one entry.
func shorten(request *raft.AppendEntriesRequest) {
	bytes := 0
	for i, entry := range request.Entries {
		if bytes += len(entry.Data); bytes > maxSentBytes && i > 0 {
			request.Entries = request.Entries[:i]
			return
		}
	}
}
