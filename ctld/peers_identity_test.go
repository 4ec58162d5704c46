package ctld

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/audit"
	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// linkTo is a connection to the address for controllers, with the certificate
// of another one.
func linkTo(t testing.TB, c *testCluster, from, to string) *grpc.ClientConn {
	t.Helper()
	authority, err := pki.Open(PKIDir(c.configs[from].DataDir))
	if err != nil {
		t.Fatal(err)
	}
	_, config, err := authority.PeerConfigs(from)
	if err != nil {
		t.Fatal(err)
	}
	return linkWith(t, config, c.configs[to].PeerListen)
}

func linkWith(t testing.TB, config *tls.Config, address string) *grpc.ClientConn {
	t.Helper()
	config.NextProtos = []string{"h2"}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(config)), grpc.WithAuthority(dial.ServerName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func asCaller(ctx context.Context, who string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "gleaner-caller", who)
}

// TestForgedCaller: only controllers that are members may name the caller.
func TestForgedCaller(t *testing.T) {
	c := startCluster(t, 2, func(config *Config) { config.Listen = "127.0.0.1:0" })
	leader := c.leader()
	remote := c.servers[leader].Addresses()[1]
	bundles := map[string]string{
		"a node":       c.certificates(pki.Node, "n1"),
		"a user":       c.certificates(pki.User, "nobody"),
		"a controller": c.certificates(pki.Controller, "c9"),
	}
	for who, bundle := range bundles {
		client := pb.NewControllerClient(connectTo(t, remote, bundle))
		for _, key := range []string{"gleaner-caller", "gleaner-trusted"} {
			ctx := metadata.AppendToOutgoingContext(soon(t), key, "uid 0 root")
			if _, err := client.ApplyPolicy(ctx, &pb.ApplyPolicyRequest{Policy: &pb.Policy{}}); status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s on the address for clients says %s: %v", who, key, err)
			}
			if _, err := client.Ping(ctx, &pb.PingRequest{}); status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s on the address for clients says %s in a ping: %v", who, key, err)
			}
		}
		conn := connectTo(t, remote, bundle)
		if _, err := pb.NewPeerLinkClient(conn).Hello(soon(t), &pb.HelloRequest{}); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s on the address for clients says hello: %v", who, err)
		}
	}
	for _, name := range c.names() {
		if _, err := c.client(name).ListPartitions(asCaller(soon(t), "uid 0 root"), &pb.ListPartitionsRequest{}); status.Code(err) != codes.PermissionDenied {
			t.Errorf("on the socket of %s: %v", name, err)
		}
	}
	for who, bundle := range bundles {
		conn := connectTo(t, c.configs[leader].PeerListen, bundle)
		ctx := asCaller(soon(t), "uid 0 root")
		if who == "a controller" { // of the authority, and no member
			if _, err := pb.NewControllerClient(conn).ListPartitions(ctx, &pb.ListPartitionsRequest{}); status.Code(err) != codes.Unavailable {
				t.Errorf("a controller that is no member passes a request on: %v", err)
			}
			continue
		}
		if _, err := pb.NewControllerClient(conn).ListPartitions(ctx, &pb.ListPartitionsRequest{}); status.Code(err) != codes.Unavailable {
			t.Errorf("%s on the address for controllers: %v", who, err)
		}
	}
	member := pb.NewControllerClient(linkTo(t, c, c.other(leader), leader))
	if _, err := member.ListPartitions(asCaller(soon(t), "uid 0 root"), &pb.ListPartitionsRequest{}); err != nil {
		t.Errorf("a member passes a request on: %v", err)
	}
	if _, err := member.ListPartitions(soon(t), &pb.ListPartitionsRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a member that does not say who asks: %v", err)
	}
	_, err := member.ListPartitions(asCaller(soon(t), "uid 65534 somebody-else"), &pb.ListPartitionsRequest{})
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "same accounts") {
		t.Errorf("hosts that do not agree who a user is: %v", err)
	}
	if _, err := member.ApplyPolicy(asCaller(soon(t), "uid 65534 nobody"), &pb.ApplyPolicyRequest{Policy: &pb.Policy{}}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a request that was passed on for a user is an administrator's: %v", err)
	}
}

// TestCallerIsKept: who asks a controller that does not lead is who asks the
// leader, whatever proves it.
func TestCallerIsKept(t *testing.T) {
	c := startCluster(t, 2, func(config *Config) { config.Listen = "127.0.0.1:0" })
	follower := c.followers()[0]
	remote := c.servers[follower].Addresses()[1]
	user := connectTo(t, remote, c.certificates(pki.User, "nobody"))
	id := submit(t, user, job(func(r *pb.SubmitRequest) { r.AsUser = "" }))
	if owner := list(t, user, &pb.JobFilter{Ids: []*pb.JobId{{Job: id}}})[0].GetOwner(); owner.GetUser() != "nobody" {
		t.Errorf("a user's job belongs to %v", owner)
	}
	if _, err := pb.NewControllerClient(user).UpdateNode(soon(t), &pb.UpdateNodeRequest{Names: "n1", Action: pb.NodeAction_NODE_ACTION_RESUME}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a user resumes a node: %v", err)
	}
	node := connectTo(t, remote, c.certificates(pki.Node, "n1"))
	for name, want := range map[string]codes.Code{"n1": codes.OK, "n2": codes.PermissionDenied} {
		stream, err := pb.NewNodeLinkClient(node).Session(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&pb.NodeMessage{What: &pb.NodeMessage_Register{Register: &pb.Register{Node: name, Inventory: newFakeNode(t, name, 0).inventory()}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != want {
			t.Errorf("the node n1 registers as %s: %v", name, err)
		}
	}
	// A supervisor on that host speaks for the job that runs there.
	c.eventually("the job runs", func() bool {
		return list(t, user, &pb.JobFilter{Ids: []*pb.JobId{{Job: id}}})[0].GetState() == pb.JobState_JOB_STATE_RUNNING
	})
	inside := metadata.AppendToOutgoingContext(soon(t), "gleaner-job", "1.1", "gleaner-uid", "65534", "gleaner-node", "n1")
	answer, err := pb.NewControllerClient(node).Submit(inside, job(func(r *pb.SubmitRequest) { r.AsUser = "" }))
	if err != nil {
		t.Fatal(err)
	}
	if owner := list(t, user, &pb.JobFilter{Ids: []*pb.JobId{{Job: answer.GetJobId()}}})[0].GetOwner(); owner.GetUser() != "nobody" {
		t.Errorf("a job submitted inside a job belongs to %v", owner)
	}
	elsewhere := metadata.AppendToOutgoingContext(soon(t), "gleaner-job", "1.1", "gleaner-uid", "0", "gleaner-node", "n1")
	if _, err := pb.NewControllerClient(node).Submit(elsewhere, job()); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a node vouches for another user: %v", err)
	}
	c.auditedOnce(follower, id)
}

// auditedOnce: what was passed on has its line with the leader and nowhere
// else, with who asked, from where, and the controller that vouched for it.
func (c *testCluster) auditedOnce(follower string, id uint32) {
	c.t.Helper()
	var found []string
	for name := range c.servers {
		config := c.configs[name]
		text, err := os.ReadFile(config.auditPath())
		if err != nil {
			c.t.Fatal(err)
		}
		for _, line := range strings.Split(strings.Trim(string(text), "\n"), "\n") {
			if line == "" {
				continue // the whole file: nothing was answered here
			}
			var e audit.Entry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				c.t.Fatalf("%q: %v", line, err)
			}
			if e.Verb != "Submit" || e.Result != "OK" || e.Jobs[0].Job != fmt.Sprint(id) {
				continue
			}
			found = append(found, fmt.Sprintf("%s: %s %s via %s, job of %s", name, e.User, e.Certificate, e.Via, e.Jobs[0].Owner))
			if !strings.HasPrefix(e.From, "127.0.0.1:") {
				c.t.Errorf("a line says it came from %q", e.From)
			}
		}
	}
	want := fmt.Sprintf("%s: nobody user nobody via %s, job of nobody", c.leader(), follower)
	if len(found) != 1 || found[0] != want {
		c.t.Errorf("lines of what was passed on: %q, want %q", found, want)
	}
}

// TestBoundsHoldForThosePassedOn: a user has as many requests under way on the
// leader as anywhere, whichever controllers they come through; root has more.
func TestBoundsHoldForThosePassedOn(t *testing.T) {
	c := startCluster(t, 2)
	leader := c.leader()
	conn := linkTo(t, c, c.other(leader), leader)
	const sessions = 200
	answers := make(chan error, sessions+1)
	wait := func(who string) { // a session that never registers is answered when it is refused
		stream, err := pb.NewNodeLinkClient(conn).Session(asCaller(soon(t), who))
		if err != nil {
			answers <- err
			return
		}
		go func() { _, err := stream.Recv(); answers <- err }()
	}
	for range sessions {
		wait("uid 65534 nobody")
	}
	refused := prototest.Receive(t, "a request of a user is refused", answers)
	if status.Code(refused) != codes.Unavailable || !strings.Contains(refused.Error(), "under way") {
		t.Errorf("a request of a user: %v", refused)
	}
	for n := 1; ; n++ {
		select {
		case <-answers:
			continue
		case <-time.After(200 * time.Millisecond):
		}
		if n > sessions/2 {
			t.Errorf("%d requests of a user of %d are refused", n, sessions)
		}
		break
	}
	wait("uid 0 root")
	select {
	case err := <-answers:
		t.Errorf("root's: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
}
