package doctor

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	"github.com/gleaner-hpc/gleaner/proto/finding"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// checkPeers asks this host's controller, or through it the one that leads,
// for all of them, and tries from here whether each can be reached.
func checkPeers(ctx context.Context, host finding.Host) []finding.Finding {
	const check = "controllers among themselves"
	connection, err := dial.Dial(host.Controllers, "")
	if err != nil {
		return []finding.Finding{finding.Unseen(check, err.Error())}
	}
	defer connection.Close()
	asking, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	answer, err := pb.NewControllerClient(connection).ListPeers(asking, &pb.ListPeersRequest{})
	if err != nil {
		return []finding.Finding{finding.Unseen(check, "they were not told: "+format.Printable(status.Convert(err).Message()))}
	}
	unreached := make([]error, len(answer.Peers))
	var tries sync.WaitGroup
	for i, peer := range answer.Peers {
		if peer.Name != host.Name {
			tries.Go(func() { unreached[i] = reachPeer(ctx, peer.Address) })
		}
	}
	tries.Wait()
	return append(judgePeers(answer.Peers, unreached), judgeMajority(check, answer.Peers))
}

func reachPeer(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// judgePeers tells of those that something is wrong with. unreached is in the
// order of peers.
func judgePeers(peers []*pb.Peer, unreached []error) (found []finding.Finding) {
	for i, peer := range peers {
		check := fmt.Sprintf("controller %s at %s", format.Printable(peer.Name), format.Printable(peer.Address))
		switch {
		case peer.Problem != "":
			found = append(found, finding.Bad(check, "whoever leads says: "+format.Printable(peer.Problem), "one more that fails may leave the others without a majority",
				"on its host: gdoctor; systemctl start gctld; one that is gone for good: gcontrol peer remove "+format.Printable(peer.Name)))
		case unreached[i] != nil:
			found = append(found, finding.Bad(check, fmt.Sprintf("it cannot be reached from here: %v", unreached[i]), "this controller cannot vote with it, nor lead it",
				"let its port through: nft list ruleset, on both hosts; its peer_advertise must be an address that all controllers reach"))
		case !peer.Voter:
			found = append(found, finding.Doubtful(check, "it has no vote yet: it is catching up", "it does not count for a majority",
				"wait; if it stays so: journalctl -u gctld -n 50 on its host"))
		}
	}
	return found
}

// judgeMajority counts votes.
func judgeMajority(check string, peers []*pb.Peer) finding.Finding {
	var names []string
	voters, answering := 0, 0
	for _, peer := range peers {
		names = append(names, format.Printable(peer.Name))
		if peer.Voter {
			voters++
			if peer.Reachable {
				answering++
			}
		}
	}
	spare := answering - (voters/2 + 1)
	seen := fmt.Sprintf("%s: %d of %d votes answer", strings.Join(names, ", "), answering, voters)
	switch {
	case spare < 0:
		return finding.Bad(check, seen+", which is no majority", "nothing is accepted, started or changed", "start the others: systemctl start gctld; if they are lost: docs/operations.md, loss of the majority")
	case voters > 1 && spare == 0:
		fix := "start those that do not answer"
		if answering == voters {
			fix = "add one, so that there are three or five: gctld cert --controller NAME --out DIR; then gcontrol peer add NAME HOST:PORT"
		}
		return finding.Doubtful(check, seen+": none may fail", "the next that fails stops the cluster, jobs that run excepted", fix)
	case voters == 1:
		return finding.Good(check, seen+"; there is no other to take over")
	}
	return finding.Good(check, fmt.Sprintf("%s, %d may fail", seen, spare))
}
