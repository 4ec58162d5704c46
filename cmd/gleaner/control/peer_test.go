package control

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestPeer(t *testing.T) {
	const list = "NAME  ROLE      STATE  ADDRESS      APPLIED  BEHIND  VERSION\n" +
		"c1    leader    up     c1.lab:6818  120      0       v1\n" +
		"c2    follower  down   c2.lab:6818  -        -       -\n" +
		"c3    joining   up     c3.lab:6818  99       21      v1\n" +
		"c2: connection refused: look at gctld there\n"
	for _, c := range []struct {
		line, out, stderr string
		exit              int
		asked             proto.Message
	}{
		{"gcontrol peer", list, "", 0, nil},
		{"gcontrol peer list", list, "", 0, nil},
		{"gcontrol PEER LI -d", "Term=7 AppliedIndex=120 Level=1\n" + list, "", 0, nil},
		{"gcontrol peer add c2 c2.lab:6818", "c2 is a controller of this cluster\n", "", 0, &pb.AddPeerRequest{Name: "c2", Address: "c2.lab:6818"}},
		{"gcontrol peer add c3 c3.lab:6818", "c3 is a member and catches up; it votes when it has: see gcontrol peer list\n", "", 0, &pb.AddPeerRequest{Name: "c3", Address: "c3.lab:6818"}},
		{"gcontrol peer add c9 c9.lab:6818", "", "peer add error: controller c9 cannot be reached\n", 1, &pb.AddPeerRequest{Name: "c9", Address: "c9.lab:6818"}},
		{"gcontrol peer add c2", "", "gcontrol: error: type gcontrol peer add NAME HOST:PORT\n", 1, nil},
		{"gcontrol peer add c2 c2.lab", "", "gcontrol: error: c2.lab is not HOST:PORT, as in c2.lab:6818: name the peer_listen of controller c2\n", 1, nil},
		{"gcontrol peer remove c2", "c2 is no controller of this cluster any more\n", "", 0, &pb.RemovePeerRequest{Name: "c2"}},
		{"gcontrol peer remove c2 --force -Q", "", "", 0, &pb.RemovePeerRequest{Name: "c2", Force: true}},
		{"gcontrol peer list --force", "", "gcontrol: error: --force belongs to gcontrol peer remove\n", 1, nil},
		{"gcontrol peer transfer", "c2 leads\n", "", 0, &pb.TransferLeadershipRequest{}},
		{"gcontrol peer transfer c2", "c2 leads\n", "", 0, &pb.TransferLeadershipRequest{To: "c2"}},
		{"gcontrol peer transfer c2 c3", "", "gcontrol: error: type gcontrol peer transfer [NAME]\n", 1, nil},
		{"gcontrol peer trasnfer", "", "invalid entity:trasnfer for keyword:peer \ngcontrol: error: did you mean gcontrol peer transfer?\n", 1, nil},
		{"gcontrol peer xyzzy", "", "invalid entity:xyzzy for keyword:peer \ngcontrol: error: peer takes list add remove transfer\n", 1, nil},
	} {
		stub := clienttest.StubCluster()
		clienttest.ServeStub(t, stub)
		out, stderr, exit := typed(t, t.Context(), nil, c.line)
		if out != c.out || stderr != c.stderr || exit != c.exit {
			t.Errorf("%s: status %d\n%s%s", c.line, exit, out, stderr)
		}
		if c.asked == nil && len(stub.Writes) > 0 || c.asked != nil && (len(stub.Writes) != 1 || !proto.Equal(stub.Writes[0], c.asked)) {
			t.Errorf("%s: asked %v, want %v", c.line, stub.Writes, c.asked)
		}
	}
}

func TestPeerJSON(t *testing.T) {
	clienttest.ServeStub(t, clienttest.StubCluster())
	out, _, exit := typed(t, t.Context(), nil, "gcontrol peer list --json")
	var answer struct{ Peers []shownPeer }
	if err := json.Unmarshal([]byte(out), &answer); err != nil || exit != 0 || len(answer.Peers) != 3 {
		t.Fatalf("status %d, %v:\n%s", exit, err, out)
	}
	if c2, c3 := answer.Peers[1], answer.Peers[2]; c2.State != "down" || c2.LastContactMS != 5000 || !strings.Contains(c2.Problem, "refused") || c3.Role != "joining" || c3.Behind != 21 {
		t.Errorf("peers: %+v", answer.Peers)
	}
}
