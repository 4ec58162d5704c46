package control

import (
	"fmt"
	"net"
	"strings"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/similar"
)

// peerVerb is one word after gcontrol peer. It takes from least to most words.
type peerVerb struct {
	name        string
	least, most int
	usage       string
	run         func(c *controlRun, words []string) error
}

func peerVerbs() []peerVerb {
	return []peerVerb{
		{"list", 0, 0, "", peerList},
		{"add", 2, 2, "NAME HOST:PORT", peerAdd},
		{"remove", 1, 1, "NAME [--force]", peerRemove},
		{"transfer", 0, 1, "[NAME]", peerTransfer},
	}
}

// controlPeer is about the controllers of the cluster themselves.
func controlPeer(c *controlRun, words []string) error {
	if len(words) == 0 {
		words = []string{"list"}
	}
	wanted := strings.ToLower(words[0])
	var names []string
	var found []peerVerb
	for _, verb := range peerVerbs() {
		names = append(names, verb.name)
		if wanted != "" && strings.HasPrefix(verb.name, wanted) {
			found = append(found, verb)
		}
	}
	if len(found) != 1 {
		fmt.Fprintf(c.inv.Stderr, "invalid entity:%s for keyword:peer \n", format.Printable(words[0]))
		if meant := similar.Nearest(wanted, names); meant != "" {
			return c.inv.Fail("did you mean gcontrol peer %s?", meant)
		}
		return c.inv.Fail("peer takes %s", strings.Join(names, " "))
	}
	verb := found[0]
	words = words[1:]
	if len(words) < verb.least || len(words) > verb.most {
		return c.inv.Fail("%s", strings.TrimSpace("type gcontrol peer "+verb.name+" "+verb.usage))
	}
	if c.inv.Given("force") && verb.name != "remove" {
		return c.inv.Fail("--force belongs to gcontrol peer remove")
	}
	return verb.run(c, words)
}

func peerAdd(c *controlRun, words []string) error {
	name, address := words[0], words[1]
	if _, _, err := net.SplitHostPort(address); err != nil {
		return c.inv.Fail("%s is not HOST:PORT, as in c2.lab:6818: name the peer_listen of controller %s", format.Printable(address), format.Printable(name))
	}
	request := &pb.AddPeerRequest{RequestId: uuid.NewString(), Name: name, Address: address}
	if _, err := client.Call(c.inv.Context, c.client, c.client.AddPeer, request); err != nil {
		return client.LoadError(c.inv, "peer add error", err)
	}
	list, err := client.Call(c.inv.Context, c.client, c.client.ListPeers, &pb.ListPeersRequest{})
	if err != nil {
		return client.LoadError(c.inv, "peer add error", err)
	}
	for _, peer := range list.GetPeers() {
		if peer.GetName() == name && !peer.GetVoter() {
			return c.done("%s is a member and catches up; it votes when it has: see gcontrol peer list", name)
		}
	}
	return c.done("%s is a controller of this cluster", name)
}

func peerRemove(c *controlRun, words []string) error {
	request := &pb.RemovePeerRequest{RequestId: uuid.NewString(), Name: words[0], Force: c.inv.Given("force")}
	if _, err := client.Call(c.inv.Context, c.client, c.client.RemovePeer, request); err != nil {
		return client.LoadError(c.inv, "peer remove error", err)
	}
	return c.done("%s is no controller of this cluster any more", words[0])
}

func peerTransfer(c *controlRun, words []string) error {
	request := &pb.TransferLeadershipRequest{}
	if len(words) > 0 {
		request.To = words[0]
	}
	answer, err := client.Call(c.inv.Context, c.client, c.client.TransferLeadership, request)
	if err != nil {
		return client.LoadError(c.inv, "peer transfer error", err)
	}
	return c.done("%s leads", answer.GetLeader())
}

// done says what went well, unless --quiet.
func (c *controlRun) done(text string, args ...any) error {
	if c.inv.Given("quiet") {
		return nil
	}
	_, err := fmt.Fprintln(c.inv.Stdout, format.Printable(fmt.Sprintf(text, args...)))
	return err
}

// shownPeer is one controller as --json prints it.
type shownPeer struct {
	Name          string `json:"name"`
	Role          string `json:"role"`
	State         string `json:"state"`
	Address       string `json:"address"`
	Voter         bool   `json:"voter"`
	Applied       uint64 `json:"applied_index"`
	Behind        uint64 `json:"behind"`
	LastContactMS int64  `json:"last_contact_ms"`
	Version       string `json:"version"`
	Level         uint32 `json:"level"`
	Problem       string `json:"problem"`
}

func shownPeerOf(peer *pb.Peer, leader uint64) shownPeer {
	shown := shownPeer{
		Name: peer.GetName(), Address: peer.GetAddress(), Voter: peer.GetVoter(), Applied: peer.GetAppliedIndex(), Version: peer.GetVersion(),
		Level: peer.GetLevel(), LastContactMS: peer.GetLastContactMs(), Problem: peer.GetProblem(), Role: "follower", State: "down",
	}
	switch {
	case peer.GetLeader():
		shown.Role = "leader"
	case !peer.GetVoter():
		shown.Role = "joining"
	}
	if peer.GetReachable() {
		shown.State = "up"
		shown.Behind = max(leader, shown.Applied) - shown.Applied
	}
	return shown
}

func peerList(c *controlRun, _ []string) error {
	list, err := client.Call(c.inv.Context, c.client, c.client.ListPeers, &pb.ListPeersRequest{})
	if err != nil {
		return client.LoadError(c.inv, "peer list error", err)
	}
	peers := make([]shownPeer, 0, len(list.GetPeers()))
	for _, peer := range list.GetPeers() {
		peers = append(peers, shownPeerOf(peer, list.GetAppliedIndex()))
	}
	if c.json != show.JSONNone {
		return show.WriteJSON(c.inv, c.json, "peers", peers)
	}
	var text strings.Builder
	if c.details {
		fmt.Fprintf(&text, "Term=%d AppliedIndex=%d Level=%d\n", list.GetTerm(), list.GetAppliedIndex(), list.GetLevel())
	}
	rows := [][]string{{"NAME", "ROLE", "STATE", "ADDRESS", "APPLIED", "BEHIND", "VERSION"}}
	for _, peer := range peers {
		applied, behind, version := "-", "-", "-"
		if peer.State == "up" {
			applied, behind, version = fmt.Sprint(peer.Applied), fmt.Sprint(peer.Behind), peer.Version
		}
		rows = append(rows, []string{peer.Name, peer.Role, peer.State, peer.Address, applied, behind, version})
	}
	writeAligned(&text, rows)
	for _, peer := range peers {
		if peer.Problem != "" {
			fmt.Fprintf(&text, "%s: %s\n", format.Printable(peer.Name), format.Printable(peer.Problem))
		}
	}
	_, err = fmt.Fprint(c.inv.Stdout, text.String())
	return err
}

// writeAligned writes rows whose columns begin below each other.
func writeAligned(out *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = format.Printable(cell)
			widths[i] = max(widths[i], len(row[i]))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[i], cell)
		}
		fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	}
}
