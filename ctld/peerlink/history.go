package peerlink

import (
	"context"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// copyLimit bounds how long one controller has to answer.
const copyLimit = 20 * time.Second

// CopyHistory asks the other members, one after the other, for what their databases have
// behind a position, and returns the first answer that has anything. all says that each
// of them has answered.
func (p *Peers) CopyHistory(ctx context.Context, after uint64) (answer *pb.CopyHistoryResponse, all bool) {
	all = true
	for _, member := range p.peer.Members() {
		if member.Name == p.peer.Name() {
			continue
		}
		conn, err := p.links.to(member.Name, member.Address, Bulk)
		if err == nil {
			limited, cancel := context.WithTimeout(ctx, copyLimit)
			answer, err = pb.NewPeerLinkClient(conn).CopyHistory(limited, &pb.CopyHistoryRequest{After: after})
			cancel()
		}
		if err != nil {
			all = false
		} else if answer.GetThrough() > after {
			return answer, all
		}
	}
	return nil, all
}
