package ctld

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/login"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// hostsOf is a controller with certificates for hosts that vouch, and connections that show
// them.
type hostsOf struct {
	t      *testing.T
	server *Server
	config Config
	admin  pb.ControllerClient
}

func newHostsOf(t *testing.T, change ...func(*Config)) *hostsOf {
	config := configIn(shortDir(t))
	config.Listen = "127.0.0.1:0"
	for _, f := range change {
		f(&config)
	}
	server := startServer(t, config)
	return &hostsOf{t: t, server: server, config: config, admin: pb.NewControllerClient(connectTo(t, server.Addresses()[0], ""))}
}

func (h *hostsOf) certificate(kind pki.Kind, name string) string {
	h.t.Helper()
	authority, err := pki.Open(PKIDir(h.config.DataDir))
	if err != nil {
		h.t.Fatal(err)
	}
	out := filepath.Join(h.t.TempDir(), name)
	if err := authority.WriteBundle(kind, name, out); err != nil {
		h.t.Fatal(err)
	}
	prototest.Eventually(h.t, "the certificate is recorded", func() bool {
		for c := range h.server.cluster.View().Certificates {
			if c.Name == name && c.Kind == string(kind) {
				return true
			}
		}
		return false
	})
	return out
}

func (h *hostsOf) connect(tlsDir string) *grpc.ClientConn {
	h.t.Helper()
	conn, err := dial.Dial([]string{h.server.Addresses()[1]}, tlsDir)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (h *hostsOf) allow(logins ...*pb.Login) {
	h.t.Helper()
	config, err := h.admin.ShowConfig(soon(h.t), &pb.ShowConfigRequest{})
	if err != nil {
		h.t.Fatal(err)
	}
	config.Policy.Logins = logins
	if _, err := h.admin.ApplyPolicy(soon(h.t), &pb.ApplyPolicyRequest{RequestId: uuid.NewString(), Policy: config.Policy}); err != nil {
		h.t.Fatal(err)
	}
}

// of is a request for a user, as an agent makes it.
func (h *hostsOf) of(uid, user string) context.Context {
	return metadata.AppendToOutgoingContext(soon(h.t), login.KeyUID, uid, login.KeyUser, user)
}

// TestWhoVouches: a host speaks for the users that the policy gives it, by number and name,
// and for nobody else; a revoked one for nobody.
func TestWhoVouches(t *testing.T) {
	h := newHostsOf(t)
	one, node, alone := h.certificate(pki.Host, "login1"), h.certificate(pki.Node, "n1"), h.certificate(pki.User, "daemon")
	login1, n1, user := pb.NewControllerClient(h.connect(one)), pb.NewControllerClient(h.connect(node)), pb.NewControllerClient(h.connect(alone))
	refused := func(what, why string, client pb.ControllerClient, ctx context.Context) {
		t.Helper()
		_, err := client.Ping(ctx, &pb.PingRequest{})
		if status.Code(err) != codes.PermissionDenied || !strings.Contains(status.Convert(err).Message(), why) {
			t.Errorf("%s: %v", what, err)
		}
	}
	works := func(what string, client pb.ControllerClient, ctx context.Context) {
		t.Helper()
		if _, err := client.Ping(ctx, &pb.PingRequest{}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("without a word in the policy", "add one with hosts", login1, h.of("1", "daemon"))

	h.allow(&pb.Login{Hosts: "login1", MinUid: 1, MaxUid: 2, Users: []string{"daemon"}}, &pb.Login{Hosts: "n[1-2]", MinUid: 2, MaxUid: 2})
	works("its user", login1, h.of("1", "daemon"))
	works("a node's user", n1, h.of("2", "bin"))
	refused("a name that is not among its users", "not among its users", login1, h.of("2", "bin"))
	refused("the user of another domain", "not from 2 to 2", n1, h.of("1", "daemon"))
	refused("a number with the name of another", "is another user's", login1, h.of("2", "daemon"))
	refused("a name with the number of another", "is another user's", login1, h.of("1", "bin"))
	refused("a number that nobody has", "knows no user", login1, h.of("3999999", "daemon"))
	refused("root", "nobody speaks for root", login1, h.of("0", "root"))
	refused("nobody", "nobody", login1, h.of("65534", "nobody"))
	refused("no number", "a number and a name", login1, h.of("x", "daemon"))
	refused("no name", "a number and a name", login1, metadata.AppendToOutgoingContext(soon(t), login.KeyUID, "1"))
	refused("two names", "a number and a name", login1, metadata.AppendToOutgoingContext(h.of("1", "daemon"), login.KeyUser, "root"))
	refused("a job as well", "at once", n1, metadata.AppendToOutgoingContext(h.of("2", "bin"), "gleaner-job", "1.1", "gleaner-uid", "2", "gleaner-node", "n1"))
	refused("the host itself", "start gleaner agent", login1, soon(t))
	refused("a user with a certificate", "only the agent", user, h.of("2", "bin"))
	refused("root of the controller's host", "only the agent", h.admin, h.of("2", "bin"))
	if _, err := login1.RevokeCertificates(h.of("1", "daemon"), &pb.RevokeCertificatesRequest{RequestId: uuid.NewString(), Names: []string{"n1"}}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a vouched user revokes certificates: %v", err)
	}
	// The session of a node is the node's: a login host has none.
	session, err := pb.NewNodeLinkClient(h.connect(one)).Session(soon(t))
	if err == nil {
		_ = session.Send(&pb.NodeMessage{What: &pb.NodeMessage_Register{Register: &pb.Register{Node: "n1", Inventory: &pb.Inventory{Cpus: 1, MemoryBytes: 1 << 30}}}})
		_, err = session.Recv()
	}
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("a login host registers as a node: %v", err)
	}

	if _, err := h.admin.RevokeCertificates(soon(t), &pb.RevokeCertificatesRequest{RequestId: uuid.NewString(), Names: []string{"host:login1"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := login1.Ping(h.of("1", "daemon"), &pb.PingRequest{}); err == nil {
		t.Error("a host whose certificate was revoked still vouches")
	}
	works("another host meanwhile", n1, h.of("2", "bin"))
}

// TestVouchedRights: a vouched user has no more rights than that user, and operators only
// come from hosts that name them. What was submitted is that user's.
func TestVouchedRights(t *testing.T) {
	h := newHostsOf(t)
	login1 := pb.NewControllerClient(h.connect(h.certificate(pki.Host, "login1")))
	config, err := h.admin.ShowConfig(soon(t), &pb.ShowConfigRequest{})
	if err != nil {
		t.Fatal(err)
	}
	config.Policy.Administrators = []string{"bin"}
	config.Policy.Logins = []*pb.Login{{Hosts: "login1", MinUid: 1, MaxUid: 9}}
	apply := func() {
		t.Helper()
		if _, err := h.admin.ApplyPolicy(soon(t), &pb.ApplyPolicyRequest{RequestId: uuid.NewString(), Policy: config.Policy}); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	submitted, err := login1.Submit(h.of("1", "daemon"), job(func(r *pb.SubmitRequest) { r.AsUser = "" }))
	if err != nil {
		t.Fatal(err)
	}
	mine, found := h.server.cluster.View().Job(submitted.GetJobId())
	if !found || mine.Owner().UID != 1 || mine.Owner().User != "daemon" {
		t.Errorf("the job belongs to %+v", mine.Owner())
	}
	if _, err := login1.Submit(h.of("1", "daemon"), job(func(r *pb.SubmitRequest) { r.AsUser = "bin" })); status.Code(err) != codes.PermissionDenied {
		t.Errorf("daemon submits as bin: %v", err)
	}
	drain := &pb.ApplyPolicyRequest{RequestId: uuid.NewString(), Policy: config.Policy, DryRun: true}
	if _, err := login1.ApplyPolicy(h.of("1", "daemon"), drain); status.Code(err) != codes.PermissionDenied {
		t.Errorf("daemon applies a policy: %v", err)
	}
	if _, err := login1.Ping(h.of("2", "bin"), &pb.PingRequest{}); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "privileged") {
		t.Errorf("an administrator who is not named: %v", err)
	}
	config.Policy.Logins[0].Privileged = []string{"bin"}
	apply()
	if _, err := login1.ApplyPolicy(h.of("2", "bin"), drain); err != nil {
		t.Errorf("an administrator who is named: %v", err)
	}
}

// TestVouchedThroughAnother: a host may ask any controller; what it says of its users is
// judged by the leader, in the same way.
func TestVouchedThroughAnother(t *testing.T) {
	c := startCluster(t, 2, func(config *Config) { config.Listen = "127.0.0.1:0" })
	follower := c.followers()[0]
	remote := c.servers[follower].Addresses()[1]
	admin := pb.NewControllerClient(connectTo(t, remote, c.certificates(pki.User, "root")))
	config, err := admin.ShowConfig(soon(t), &pb.ShowConfigRequest{})
	if err != nil {
		t.Fatal(err)
	}
	config.Policy.Logins = []*pb.Login{{Hosts: "login1", MinUid: 1, MaxUid: 1}}
	if _, err := admin.ApplyPolicy(soon(t), &pb.ApplyPolicyRequest{RequestId: uuid.NewString(), Policy: config.Policy}); err != nil {
		t.Fatal(err)
	}
	login1 := connectTo(t, remote, c.certificates(pki.Host, "login1"))
	h := &hostsOf{t: t}
	var submitted *pb.SubmitResponse
	c.eventually("the host is admitted", func() bool {
		submitted, err = pb.NewControllerClient(login1).Submit(h.of("1", "daemon"), job(func(r *pb.SubmitRequest) { r.AsUser = "" }))
		return err == nil
	})
	if mine := list(t, connectTo(t, remote, c.certificates(pki.User, "nobody")), &pb.JobFilter{Ids: []*pb.JobId{{Job: submitted.GetJobId()}}}); mine[0].GetOwner().GetUser() != "daemon" {
		t.Errorf("the job belongs to %v", mine[0].GetOwner())
	}
	for _, who := range [][2]string{{"2", "bin"}, {"0", "root"}, {"1", "root"}} {
		if _, err := pb.NewControllerClient(login1).Submit(h.of(who[0], who[1]), job(func(r *pb.SubmitRequest) { r.AsUser = "" })); status.Code(err) != codes.PermissionDenied {
			t.Errorf("for %s (%s): %v", who[1], who[0], err)
		}
	}
}
