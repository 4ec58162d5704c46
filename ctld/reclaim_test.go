package ctld

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// ownedCluster has three nodes. Account chem owns n1 and n2, and daemon is its coordinator;
// n3 has no owner. A job of nobody, of account bio, runs on n1, and both tasks of
// an array on n2.
type ownedCluster struct {
	t                    *testing.T
	server               *Server
	root, daemon, nobody pb.ControllerClient
	conn                 *grpc.ClientConn // of root
	node                 *fakeNode        // n1
	guest, array         uint32           // on n1 and n2
}

func newOwnedCluster(t *testing.T, private ...string) *ownedCluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: other users connect")
	}
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	server := startServer(t, configIn(dir))
	target := server.Addresses()[0]
	root := connectTo(t, target, "")
	guest := connectAs(t, target, nobodyUID)
	c := &ownedCluster{
		t: t, server: server, conn: root, root: pb.NewControllerClient(root),
		daemon: pb.NewControllerClient(connectAs(t, target, daemonUID)), nobody: pb.NewControllerClient(guest),
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		node := newFakeNode(t, name, -1)
		t.Cleanup(node.connect(root))
		if name == "n1" {
			c.node = node
		}
	}
	add, account, member := pb.ChangeAction_CHANGE_ACTION_ADD, pb.AccountRecord_ACCOUNT_RECORD_ACCOUNT, pb.AccountRecord_ACCOUNT_RECORD_ASSOCIATION
	changes := &pb.ChangeAccountsRequest{Changes: []*pb.AccountChange{
		{Action: add, Record: account, Account: "chem"}, {Action: add, Record: account, Account: "bio"},
		{Action: add, Record: member, Account: "chem", User: "daemon"}, {Action: add, Record: member, Account: "bio", User: "nobody"},
		{Action: pb.ChangeAction_CHANGE_ACTION_MODIFY, Record: account, Account: "chem", Coordinators: &pb.ListEdit{Operation: pb.ListEdit_OPERATION_ADD, Names: []string{"daemon"}}},
	}}
	if _, err := c.root.ChangeAccounts(soon(t), changes); err != nil {
		t.Fatal(err)
	}
	shown, err := c.root.ShowConfig(soon(t), &pb.ShowConfigRequest{})
	if err != nil {
		t.Fatal(err)
	}
	shown.Policy.PrivateData, shown.Policy.Owners = private, []*pb.Owner{{Account: "chem", Nodes: "n[1-2]"}}
	if _, err := c.root.ApplyPolicy(soon(t), &pb.ApplyPolicyRequest{Policy: shown.Policy}); err != nil {
		t.Fatal(err)
	}
	runs := func(node string, array *pb.ArraySpec) uint32 {
		id := submit(t, guest, job(func(r *pb.SubmitRequest) {
			r.AsUser, r.Spec.NodeList, r.Spec.CpusPerTask, r.Spec.Array = "", node, 2, array
		}))
		// A job that still starts cannot be parked.
		c.eventually("job runs", func() bool {
			answer, err := c.root.ReclaimNodes(soon(t), &pb.ReclaimNodesRequest{Names: node, DryRun: true})
			guests := answer.GetNodes()[0].GetReclaim().GetGuests()
			return err == nil && len(guests) == int(max(1, 2*len(array.GetRanges()))) && !slices.ContainsFunc(guests, func(g *pb.ReclaimedGuest) bool {
				return g.GetFate() != pb.GuestFate_GUEST_FATE_PARK
			})
		})
		return id
	}
	c.guest = runs("n1", nil)
	c.array = runs("n2", &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 5, Last: 6, Step: 1}}})
	return c
}

// nodes are all nodes as a client sees them, by name.
func (c *ownedCluster) nodes(client pb.ControllerClient) map[string]*pb.Node {
	c.t.Helper()
	stream, err := client.ListNodes(soon(c.t), &pb.ListNodesRequest{})
	nodes := map[string]*pb.Node{}
	for err == nil {
		var message *pb.ListNodesResponse
		if message, err = stream.Recv(); err == nil {
			for _, node := range message.GetNodes() {
				nodes[node.GetName()] = node
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		c.t.Fatal(err)
	}
	return nodes
}

// reclaimed are the names of the nodes that are.
func (c *ownedCluster) reclaimed() (names string) {
	nodes := c.nodes(c.root)
	for _, name := range []string{"n1", "n2", "n3"} {
		if nodes[name].GetReclaim() != nil {
			names += name + " "
		}
	}
	return strings.TrimSpace(names)
}

// TestWhoMayReclaim: coordinators their account's nodes, the site's people all; all nodes of
// a request or none; nothing is done by a refused request, and the refusal says what to do.
func TestWhoMayReclaim(t *testing.T) {
	c := newOwnedCluster(t)
	inside := metadata.AppendToOutgoingContext(soon(t), "gleaner-job", fmt.Sprint(c.guest, ".1"), "gleaner-uid", fmt.Sprint(nobodyUID), "gleaner-node", "n1")
	for name, row := range map[string]struct {
		who   pb.ControllerClient
		names string
		want  string // nodes that are reclaimed then, or
		code  codes.Code
		says  string
	}{
		"the coordinator":                   {c.daemon, "n1", "n1", 0, ""},
		"the coordinator, all of theirs":    {c.daemon, "", "n1 n2", 0, ""},
		"the coordinator, twice the same":   {c.daemon, "n1,n1,n2", "n1 n2", 0, ""},
		"the coordinator, the site's":       {c.daemon, "n3", "", codes.PermissionDenied, "node n3 has no owner: only administrators and operators"},
		"the coordinator, one of the two":   {c.daemon, "n[1,3]", "", codes.PermissionDenied, "node n3 has no owner"},
		"the coordinator, one that is none": {c.daemon, "n[1,9]", "", codes.NotFound, "Node n9 not found"},
		"somebody":                          {c.nobody, "n1", "", codes.PermissionDenied, "node n1 belongs to account chem: only its coordinators, administrators and operators"},
		"somebody, all of theirs":           {c.nobody, "", "", codes.FailedPrecondition, "you coordinate no account that owns nodes"},
		"root":                              {c.root, "n[1,3]", "n1 n3", 0, ""},
		"root, all of theirs":               {c.root, "", "", codes.FailedPrecondition, "name the nodes"},
		"root, all":                         {c.root, "ALL", "", codes.InvalidArgument, "name the nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(err error) {
				t.Helper()
				if status.Code(err) != row.code || !strings.Contains(status.Convert(err).Message(), row.says) {
					t.Errorf("%v, want %v: %s", err, row.code, row.says)
				}
			}
			_, err := row.who.ReclaimNodes(soon(t), &pb.ReclaimNodesRequest{Names: row.names, DryRun: true})
			check(err)
			if got := c.reclaimed(); got != "" {
				t.Errorf("a dry run reclaims %s", got)
			}
			_, err = row.who.ReclaimNodes(soon(t), &pb.ReclaimNodesRequest{Names: row.names})
			check(err)
			if got := c.reclaimed(); got != row.want {
				t.Errorf("reclaimed: %q, want %q", got, row.want)
			}
			if row.want == "" {
				_, err = c.root.ReclaimNodes(soon(t), &pb.ReclaimNodesRequest{Names: "n[1-3]"})
				if err != nil {
					t.Fatal(err)
				}
			}
			// They may release the same nodes.
			_, err = row.who.ReleaseNodes(soon(t), &pb.ReleaseNodesRequest{Names: row.names})
			check(err)
			want := ""
			if row.want == "" {
				want = "n1 n2 n3"
			}
			if got := c.reclaimed(); got != want {
				t.Errorf("after the release %q are reclaimed, want %q", got, want)
			}
			if _, err := c.root.ReleaseNodes(soon(t), &pb.ReleaseNodesRequest{Names: "n[1-3]"}); err != nil {
				t.Fatal(err)
			}
		})
	}
	if _, err := c.root.ReclaimNodes(inside, &pb.ReclaimNodesRequest{Names: "n1"}); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "from inside a job") {
		t.Errorf("from inside a job: %v", err)
	}
	if _, err := c.root.ReleaseNodes(inside, &pb.ReleaseNodesRequest{Names: "n1"}); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "from inside a job") {
		t.Errorf("from inside a job: %v", err)
	}
}

// TestReclaimTellsAndKeepsTheRecord: the answer has the guests with what happens, a dry run
// the same, and the list what became of them; a release answers with what has ended.
func TestReclaimTellsAndKeepsTheRecord(t *testing.T) {
	c := newOwnedCluster(t)
	for _, dry := range []bool{true, false} {
		before := time.Now().UnixMilli()
		answer, err := c.daemon.ReclaimNodes(soon(t), &pb.ReclaimNodesRequest{Names: "n1", WithinS: 20, ForS: 3600, DryRun: dry})
		if err != nil {
			t.Fatal(err)
		}
		reclaim := answer.GetNodes()[0].GetReclaim()
		guests := reclaim.GetGuests()
		if len(guests) != 1 || guests[0].GetJob() != c.guest || guests[0].GetUser() != "nobody" || guests[0].GetCpus() != 2 || guests[0].GetFate() != pb.GuestFate_GUEST_FATE_PARK || guests[0].GetFreedMs() != 0 {
			t.Errorf("dry run %v: %v", dry, guests)
		}
		if reclaim.GetBy() != "daemon" || reclaim.GetDeadlineMs()-reclaim.GetAtMs() != 20_000 || reclaim.GetUntilMs() < before+3_600_000 || reclaim.GetUntilMs() > time.Now().UnixMilli()+3_600_000 {
			t.Errorf("dry run %v: %v", dry, reclaim)
		}
	}
	order := c.parkOrder()
	c.node.send(&pb.NodeMessage{What: &pb.NodeMessage_AllocSuspended{AllocSuspended: &pb.AllocSuspended{Alloc: order.GetAlloc(), Number: order.GetNumber(), Frozen: true, Parked: true, Freed: &pb.HardwareFreed{TookMs: 180}}}})
	c.eventually("the guest has left", func() bool {
		guests := c.nodes(c.daemon)["n1"].GetReclaim().GetGuests()
		return len(guests) == 1 && guests[0].GetFreedMs() != 0
	})
	tasks, err := c.daemon.ReclaimNodes(soon(t), &pb.ReclaimNodesRequest{Names: "n2", DryRun: true})
	if err != nil || len(tasks.GetNodes()[0].GetReclaim().GetGuests()) != 2 {
		t.Fatalf("the tasks of an array: %v, %v", tasks, err)
	}
	for _, guest := range tasks.GetNodes()[0].GetReclaim().GetGuests() {
		if task := guest.GetId().GetArrayTask(); guest.GetId().GetJob() != c.array || task != 5 && task != 6 {
			t.Errorf("task of array %d: %v", c.array, guest)
		}
	}
	released, err := c.daemon.ReleaseNodes(soon(t), &pb.ReleaseNodesRequest{})
	if err != nil || len(released.GetNodes()) != 1 || released.GetNodes()[0].GetReclaim().GetGuests()[0].GetJob() != c.guest {
		t.Fatalf("released: %v, %v", released, err)
	}
	again, err := c.daemon.ReleaseNodes(soon(t), &pb.ReleaseNodesRequest{Names: "n1"})
	if err != nil || len(again.GetNodes()) != 0 {
		t.Errorf("released twice: %v, %v", again, err)
	}
	again, err = c.daemon.ReleaseNodes(soon(t), &pb.ReleaseNodesRequest{})
	if err != nil || len(again.GetNodes()) != 0 {
		t.Errorf("released all, of which none is reclaimed: %v, %v", again, err)
	}
	text, err := os.ReadFile(c.server.config.auditPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"verb":"ReclaimNodes"`, `"user":"daemon"`, `within 20 s`, `for 3600 s`, `"verb":"ReleaseNodes"`, `"nodes":"n1"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the audit log lacks %s", want)
		}
	}
	if n := strings.Count(string(text), `"verb":"ReclaimNodes"`); n != 1 {
		t.Errorf("%d lines of reclaims: a dry run changes nothing", n)
	}
}

// parkOrder is the order to park that n1 gets.
func (c *ownedCluster) parkOrder() *pb.SuspendAlloc {
	c.t.Helper()
	for {
		order := prototest.Receive(c.t, "n1 is told to park", c.node.orders).GetSuspendAlloc()
		if order.GetPark() {
			if order.GetAlloc().GetJob() != c.guest || order.GetWithinMs() == 0 || order.GetWithinMs() > 20_000 {
				c.t.Errorf("order %v", order)
			}
			return order
		}
	}
}

func (c *ownedCluster) eventually(what string, so func() bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("%s: not in time; n1 is %v", what, c.nodes(c.root)["n1"])
		}
	}
}

// TestReclaimOnce: a request that arrives twice is one, also after the node was released.
func TestReclaimOnce(t *testing.T) {
	c := newOwnedCluster(t)
	request := &pb.ReclaimNodesRequest{RequestId: uuid.NewString(), Names: "n1", WithinS: 100}
	first, err := c.daemon.ReclaimNodes(soon(t), request)
	if err != nil {
		t.Fatal(err)
	}
	request.WithinS, request.UntilMs = 1, 1 // it arrives after its end
	second, err := c.daemon.ReclaimNodes(soon(t), request)
	if err != nil || second.GetNodes()[0].GetReclaim().GetDeadlineMs() != first.GetNodes()[0].GetReclaim().GetDeadlineMs() {
		t.Errorf("a retry: %v, %v", second, err)
	}
	other, err := c.daemon.ReclaimNodes(soon(t), &pb.ReclaimNodesRequest{RequestId: uuid.NewString(), Names: "n1", WithinS: 1})
	if err != nil || other.GetNodes()[0].GetReclaim().GetNumber() != first.GetNodes()[0].GetReclaim().GetNumber() || other.GetNodes()[0].GetReclaim().GetDeadlineMs() >= first.GetNodes()[0].GetReclaim().GetDeadlineMs() {
		t.Errorf("a nearer deadline: %v, %v", other, err)
	}
	release := &pb.ReleaseNodesRequest{RequestId: uuid.NewString(), Names: "n1"}
	if _, err := c.daemon.ReleaseNodes(soon(t), release); err != nil {
		t.Fatal(err)
	}
	if _, err := c.daemon.ReclaimNodes(soon(t), request); err != nil || c.reclaimed() != "" {
		t.Errorf("a late retry reclaims again: %v, %q", err, c.reclaimed())
	}
	if _, err := c.daemon.ReclaimNodes(soon(t), &pb.ReclaimNodesRequest{Names: "n1"}); err != nil {
		t.Fatal(err)
	}
	answer, err := c.daemon.ReleaseNodes(soon(t), release)
	if err != nil || len(answer.GetNodes()) != 1 || c.reclaimed() != "n1" {
		t.Errorf("a late retry releases again: %v, %v, %q", answer, err, c.reclaimed())
	}
}

// TestReclaimRefuses: what makes no sense is refused before anything is written.
func TestReclaimRefuses(t *testing.T) {
	c := newOwnedCluster(t)
	now := time.Now().UnixMilli()
	for says, request := range map[string]*pb.ReclaimNodesRequest{
		"between 1 second and 24 hours":       {Names: "n1", WithinS: 24*3600 + 1},
		"between 1 second and 24 hours to":    {Names: "n1", WithinS: 1<<32 - 1},
		"given twice":                         {Names: "n1", ForS: 5, UntilMs: now + 3_600_000},
		"is past":                             {Names: "n1", UntilMs: now - 1},
		"is past: give":                       {Names: "n1", UntilMs: -1 << 63},
		"longer than a year":                  {Names: "n1", UntilMs: 1<<63 - 1},
		"longer than a year: leave":           {Names: "n1", ForS: 1<<32 - 1},
		"over before its guests have to":      {Names: "n1", WithinS: 60, ForS: 60},
		"Invalid node name specified":         {Names: "n[1"},
		"Invalid node name specified: ":       {Names: "n[1-99999999]"},
		"has the character":                   {Names: "n1,\x1b"},
		"is not a UUID":                       {Names: "n1", RequestId: "1"},
		"Invalid node name specified: no":     {Names: ","},
		"name the nodes":                      {Names: "all"},
		"Invalid node name specified: host l": {Names: strings.Repeat("n1,", 1<<20)},
	} {
		for _, dry := range []bool{true, false} {
			request.DryRun = dry
			_, err := c.root.ReclaimNodes(soon(t), request)
			text := status.Convert(err).Message()
			if code := status.Code(err); code != codes.InvalidArgument && code != codes.NotFound || !strings.Contains(text, says) || prototest.Plain(text) != nil {
				t.Errorf("%.60v: %v, want %s", request, err, says)
			}
		}
	}
	if got := c.reclaimed(); got != "" {
		t.Errorf("%q are reclaimed", got)
	}
}

// TestReclaimsHideJobs: where jobs are private, a reclaim tells strangers, and the owner,
// what guests had and when they left, and not whose they were; and where nodes are, a refusal
// does not tell which there are.
func TestReclaimsHideJobs(t *testing.T) {
	c := newOwnedCluster(t, "jobs", "accounts", "users")
	answer, err := c.daemon.ReclaimNodes(soon(t), &pb.ReclaimNodesRequest{Names: "n[1-2]"})
	if err != nil {
		t.Fatal(err)
	}
	hidden := &pb.ReclaimedGuest{Cpus: 2, MemoryBytes: answer.GetNodes()[0].GetReclaim().GetGuests()[0].GetMemoryBytes(), Fate: pb.GuestFate_GUEST_FATE_PARK}
	for _, node := range answer.GetNodes() {
		for _, guest := range node.GetReclaim().GetGuests() {
			if !proto.Equal(guest, hidden) || guest.GetMemoryBytes() == 0 {
				t.Errorf("the owner sees %v", guest)
			}
		}
	}
	for name, who := range map[string]pb.ControllerClient{"its user": c.nobody, "root": c.root} {
		if guest := c.nodes(who)["n1"].GetReclaim().GetGuests()[0]; guest.GetJob() != c.guest || guest.GetUser() != "nobody" {
			t.Errorf("%s sees %v", name, guest)
		}
	}
	_, foreign := c.nobody.ReclaimNodes(soon(t), &pb.ReclaimNodesRequest{Names: "n1"})
	_, unknown := c.nobody.ReclaimNodes(soon(t), &pb.ReclaimNodesRequest{Names: "n9"})
	_, release := c.nobody.ReleaseNodes(soon(t), &pb.ReleaseNodesRequest{Names: "n9"})
	if foreign == nil || foreign.Error() != unknown.Error() || foreign.Error() != release.Error() || strings.Contains(foreign.Error(), "chem") {
		t.Errorf("a refusal tells which nodes there are, and whose: %v; %v; %v", foreign, unknown, release)
	}
}
