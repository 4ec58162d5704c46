package peerlink

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// signLimit bounds how long one controller has to issue a certificate.
const signLimit = 5 * time.Second

// Sign asks the other members for a certificate, one after the other: the one
// on whose host the cluster began has the authority's key.
func (p *Peers) Sign(ctx context.Context, request *pb.SignRequest) (*pb.SignResponse, error) {
	err := status.Error(codes.Unavailable, "the controller with the authority's key does not answer: see gcontrol peer list, and ask again")
	for _, member := range p.peer.Members() {
		if member.Name == p.peer.Name() {
			continue
		}
		conn, dialErr := p.links.to(member.Name, member.Address, Control)
		if dialErr != nil {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, signLimit)
		answer, asked := pb.NewPeerLinkClient(conn).Sign(limited, request)
		cancel()
		switch status.Code(asked) {
		case codes.OK:
			return answer, nil
		case codes.InvalidArgument:
			err = asked
		}
	}
	return nil, err
}
