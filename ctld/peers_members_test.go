package ctld

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/peerlink"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// load submits jobs through all controllers, each again with the same request
// id until it is answered, until stop is called. stop answers their numbers.
func (c *testCluster) load(through ...string) (stop func() map[uint32]string) {
	ctx, cancel := context.WithCancel(context.Background())
	told := make(map[uint32]string)
	var mu sync.Mutex
	var clients sync.WaitGroup
	for _, name := range through {
		client := c.client(name)
		clients.Go(func() {
			for ctx.Err() == nil {
				request := job(func(r *pb.SubmitRequest) { r.Spec.Hold = true })
				for {
					limited, end := context.WithTimeout(context.Background(), patience)
					answer, err := client.Submit(limited, request)
					end()
					if err == nil {
						mu.Lock()
						if other, twice := told[answer.GetJobId()]; twice {
							c.t.Errorf("job %d was given to two requests: %s and %s", answer.GetJobId(), other, request.GetRequestId())
						}
						told[answer.GetJobId()] = request.GetRequestId()
						mu.Unlock()
						break
					}
					if code := status.Code(err); code != codes.Unavailable && code != codes.DeadlineExceeded {
						c.t.Errorf("submit through %s: %v", name, err)
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	return func() map[uint32]string { cancel(); clients.Wait(); return told }
}

// check compares what was told with what each controller lists.
func (c *testCluster) check(told map[uint32]string) {
	c.t.Helper()
	for _, name := range c.names() {
		known := make(map[uint32]bool)
		for _, job := range c.list(name) {
			known[job.GetId().GetJob()] = true
		}
		for id := range told {
			if !known[id] {
				c.t.Errorf("%s does not know job %d, which was accepted", name, id)
			}
		}
		if len(known) != len(told) {
			c.t.Errorf("%s lists %d jobs, and %d were accepted", name, len(known), len(told))
		}
	}
}

// TestMembersChangeUnderLoad: controllers come, lose their disk, go and hand
// the lead over while jobs are submitted.
func TestMembersChangeUnderLoad(t *testing.T) {
	c := startCluster(t, 1)
	stop := c.load("c1")
	for _, name := range []string{"c2", "c3"} {
		c.prepare(name)
		c.start(name)
		c.add(name)
	}
	// raft refuses one while the change of members is the newest entry.
	c.eventually("a snapshot is written", func() bool { return c.servers["c1"].cluster.peer.Snapshot() == nil })
	told := stop()
	stop = c.load("c1", "c2", "c3")
	c.transfer("c2")
	// c3's disk is replaced: its certificates are reissued, its name stays.
	c.stop("c3")
	if err := os.RemoveAll(c.configs["c3"].DataDir); err != nil {
		t.Fatal(err)
	}
	c.start("c3")
	c.eventually("the list says that c3 lost its disk", func() bool {
		return strings.Contains(c.peers("c1")["c3"].GetProblem(), "gcontrol peer add c3")
	})
	c.add("c3")
	c.remove("c1", "c2") // which leads
	c.eventually("c2 stops, because it was removed", func() bool {
		select {
		case <-c.servers["c2"].stopped:
			return true
		default:
			return false
		}
	})
	if err := c.servers["c2"].Wait(); !errors.Is(err, peerlink.ErrRemoved) || !strings.Contains(err.Error(), "gcontrol peer add c2") {
		t.Errorf("c2 stopped with: %v", err)
	}
	delete(c.servers, "c2")
	// It comes back under its former name, on an empty directory.
	if _, err := c.client("c1").AddPeer(soon(t), &pb.AddPeerRequest{Name: "c2", Address: c.configs["c2"].PeerListen}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("add a controller that does not run: %v", err)
	}
	if err := os.RemoveAll(c.configs["c2"].DataDir); err != nil {
		t.Fatal(err)
	}
	c.start("c2")
	c.add("c2")
	for id, request := range stop() {
		told[id] = request
	}
	c.check(told)
	t.Logf("%d jobs", len(told))
}

func (c *testCluster) transfer(to string) {
	c.t.Helper()
	c.retry("transfer to "+to, func(ctx context.Context) error {
		_, err := c.client(c.other(to)).TransferLeadership(ctx, &pb.TransferLeadershipRequest{To: to})
		return err
	})
	c.eventually(to+" leads", func() bool { return c.leader() == to })
}

func (c *testCluster) remove(through, name string) {
	c.t.Helper()
	request := &pb.RemovePeerRequest{Name: name}
	c.retry("remove "+name, func(ctx context.Context) error {
		_, err := c.client(through).RemovePeer(ctx, request)
		return err
	})
}

// peers is the list that one controller answers, by name.
func (c *testCluster) peers(through string) map[string]*pb.Peer {
	c.t.Helper()
	list, err := c.client(through).ListPeers(soon(c.t), &pb.ListPeersRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	byName := make(map[string]*pb.Peer)
	for _, peer := range list.GetPeers() {
		byName[peer.GetName()] = peer
	}
	return byName
}

// TestMembershipRefusals: what is refused, and with which remedy.
func TestMembershipRefusals(t *testing.T) {
	c := startCluster(t, 2)
	client := c.client(c.followers()[0])
	ctx := soon(t)
	elsewhere := startCluster(t, 1) // of another authority
	add := func(name, address string) error {
		_, err := client.AddPeer(ctx, &pb.AddPeerRequest{Name: name, Address: address})
		return err
	}
	remove := func(name string) error {
		_, err := client.RemovePeer(ctx, &pb.RemovePeerRequest{Name: name})
		return err
	}
	transfer := func(to string) error {
		_, err := client.TransferLeadership(ctx, &pb.TransferLeadershipRequest{To: to})
		return err
	}
	c.prepare("c3")
	c.start("c3")
	at := c.configs["c3"].PeerListen
	for what, refused := range map[string]struct {
		err    error
		code   codes.Code
		remedy string
	}{
		"no port":             {add("c3", "host"), codes.InvalidArgument, "HOST:PORT"},
		"every address":       {add("c3", "0.0.0.0:6818"), codes.InvalidArgument, "name one at which"},
		"nobody there":        {add("c4", freeAddress(t)), codes.FailedPrecondition, "--join"},
		"another's address":   {add("c3", c.configs["c2"].PeerListen), codes.AlreadyExists, "gcontrol peer remove c2"},
		"another name there":  {add("c4", at), codes.FailedPrecondition, "the controller there is c3"},
		"another cluster":     {add("c4", elsewhere.configs["c1"].PeerListen), codes.FailedPrecondition, "certificates"},
		"this one itself":     {add(c.leader(), at), codes.AlreadyExists, "itself"},
		"remove a stranger":   {remove("c9"), codes.NotFound, "c1, c2"},
		"lead to a stranger":  {transfer("c9"), codes.NotFound, "peer list"},
		"a name that is none": {add("", at), codes.InvalidArgument, "name"},
	} {
		if status.Code(refused.err) != refused.code || !strings.Contains(fmt.Sprint(refused.err), refused.remedy) {
			t.Errorf("%s: %v", what, refused.err)
		}
	}
	if err := add("c3", at); err != nil {
		t.Fatal(err)
	}
	if err := add("c3", at); err != nil {
		t.Errorf("added twice: %v", err)
	}
	// With one of three away, another one is all that makes a majority.
	leader := c.leader()
	gone := c.followers()[0]
	c.stop(gone)
	_, err := c.client(leader).RemovePeer(ctx, &pb.RemovePeerRequest{Name: c.followers()[0]})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), gone) {
		t.Errorf("remove one of the last two of three: %v", err)
	}
	if _, err := c.client(leader).RemovePeer(ctx, &pb.RemovePeerRequest{Name: gone}); err != nil {
		t.Errorf("remove the one that is away: %v", err)
	}
	if os.Geteuid() == 0 {
		user := pb.NewControllerClient(linkTo(t, c, c.followers()[0], leader))
		if _, err := user.RemovePeer(asCaller(ctx, "uid 65534 nobody"), &pb.RemovePeerRequest{Name: leader}); status.Code(err) != codes.PermissionDenied {
			t.Errorf("a user removes a controller: %v", err)
		}
	}
}

// TestLoneControllerGetsCompany: one that began without an address for others
// gets one later, and another controller joins.
func TestLoneControllerGetsCompany(t *testing.T) {
	t.Parallel()                                                          // it waits more than it works
	soonElected := func(config *Config) { config.ElectionTimeout = "1s" } // all that is asked here is asked again
	c := startCluster(t, 1, soonElected, func(config *Config) { config.PeerListen = "" })
	id := c.submit("c1", job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))
	c.prepare("c2", soonElected)
	c.start("c2")
	if _, err := c.client("c1").AddPeer(soon(t), &pb.AddPeerRequest{Name: "c2", Address: c.configs["c2"].PeerListen}); err == nil || !strings.Contains(err.Error(), "peer_listen") {
		t.Errorf("added by one that has no address for others: %v", err)
	}
	c.stop("c1")
	config := c.configs["c1"]
	config.PeerListen = freeAddress(t)
	c.configs["c1"] = config
	c.start("c1")
	c.add("c2")
	c.transfer("c2")
	if jobs := c.list("c2"); len(jobs) != 1 || jobs[0].GetId().GetJob() != id {
		t.Fatalf("on the one that joined: %v", jobs)
	}
	// It moves, and is told to the others.
	c.stop("c1")
	config.PeerListen = freeAddress(t)
	c.configs["c1"] = config
	c.start("c1")
	c.retry("c1 at its new address", func(ctx context.Context) error {
		_, err := c.client("c2").AddPeer(ctx, &pb.AddPeerRequest{Name: "c1", Address: config.PeerListen})
		return err
	})
	c.submit("c1", job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))
	c.stop("c1")
	config.PeerListen = ""
	if _, err := Start(config, "test", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "set peer_listen") {
		t.Errorf("one of two without an address for the other: %v", err)
	}
}
