package ctld

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// asStranger makes this test program act as a client of another user.
const asStranger = "GLEANER_TEST_AS_STRANGER"

// strangerActs is what the stranger tries, and what became of it.
type strangerActs struct {
	Submitted                            uint32
	AsOther, Cancel, Hold, Update, Drain string
	Policy, Register, Vouch              string
	ScriptSeen, EnvironmentSeen          int
	OwnScriptSeen                        int
	OwnCancel                            string
}

// TestStranger is the other user: it runs in a process of its own, because
// the kernel tells who connects.
func TestStranger(t *testing.T) {
	target := os.Getenv(asStranger)
	if target == "" {
		t.Skip("needs TestOtherUsersAreKeptOut, which starts it as another user: a process has one user only")
	}
	conn := connectTo(t, target, "")
	client := pb.NewControllerClient(conn)
	ctx := soon(t)
	var acts strangerActs
	code := func(err error) string { return status.Code(err).String() }
	own := job(func(r *pb.SubmitRequest) { r.AsUser = ""; r.Spec.Hold = true })
	acts.Submitted = submit(t, conn, own)
	_, err := client.Submit(ctx, job(func(r *pb.SubmitRequest) { r.AsUser = "root" }))
	acts.AsOther = code(err)
	first := &pb.JobFilter{Ids: []*pb.JobId{{Job: 1}}}
	if answer, err := client.Cancel(ctx, &pb.CancelRequest{Filter: first}); err == nil {
		acts.Cancel = answer.GetResults()[0].GetError()
	}
	if answer, err := client.Control(ctx, &pb.ControlRequest{Verb: pb.ControlVerb_CONTROL_VERB_HOLD, Filter: first}); err == nil {
		acts.Hold = answer.GetResults()[0].GetError()
	}
	for acts.Update == "" { // until the feature level is raised
		answer, err := client.UpdateJobs(ctx, &pb.UpdateJobsRequest{Filter: first, Change: &pb.JobChange{Comment: new(string)}})
		switch {
		case err == nil:
			acts.Update = answer.GetResults()[0].GetError()
		case status.Code(err) != codes.Unavailable:
			acts.Update = err.Error()
		default:
			time.Sleep(50 * time.Millisecond)
		}
	}
	_, err = client.UpdateNode(ctx, &pb.UpdateNodeRequest{Names: "n1", Action: pb.NodeAction_NODE_ACTION_DRAIN, Reason: "x"})
	acts.Drain = code(err)
	_, err = client.ApplyPolicy(ctx, &pb.ApplyPolicyRequest{Policy: &pb.Policy{}, DryRun: true})
	acts.Policy = code(err)
	if session, err := pb.NewNodeLinkClient(conn).Session(ctx); err == nil {
		_ = session.Send(&pb.NodeMessage{What: &pb.NodeMessage_Register{Register: &pb.Register{Node: "n9", Inventory: &pb.Inventory{Cpus: 1}}}})
		_, err = session.Recv()
		acts.Register = code(err)
	}
	vouching := metadata.AppendToOutgoingContext(ctx, "gleaner-job", "1.1", "gleaner-uid", "0", "gleaner-node", "n1")
	_, err = client.Cancel(vouching, &pb.CancelRequest{Filter: first})
	acts.Vouch = code(err)
	jobs, err := tryList(t, conn, &pb.ListJobsRequest{Filter: all(), WithScript: true, WithEnvironment: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, seen := range jobs {
		if seen.GetId().GetJob() == acts.Submitted {
			acts.OwnScriptSeen = len(seen.GetSpec().GetScript())
			continue
		}
		acts.ScriptSeen += len(seen.GetSpec().GetScript())
		acts.EnvironmentSeen += len(seen.GetSpec().GetEnvironment())
	}
	if answer, err := client.Cancel(ctx, &pb.CancelRequest{Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: acts.Submitted}}}}); err == nil {
		acts.OwnCancel = answer.GetResults()[0].GetError()
	}
	text, err := json.Marshal(acts)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.Getenv("GLEANER_TEST_ANSWER"), text, 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestOtherUsersAreKeptOut(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a second user has to connect")
	}
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	server := startServer(t, configIn(dir))
	conn := connectTo(t, server.Addresses()[0], "")
	t.Cleanup(newFakeNode(t, "n1", -1).connect(conn))
	victim := submit(t, conn, job(func(r *pb.SubmitRequest) { r.AsUser = "daemon"; r.Spec.Environment = []string{"SECRET=1"} }))
	waitState(t, conn, victim, pb.JobState_JOB_STATE_RUNNING)

	// The program lies where only root may look: lend a copy.
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	copied, answer := filepath.Join(dir, "stranger"), filepath.Join(dir, "answer")
	if err := errors.Join(os.WriteFile(copied, program, 0o755), os.WriteFile(answer, nil, 0o666), os.Chmod(answer, 0o666)); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(copied, "-test.run", "^TestStranger$")
	child.Dir = dir
	child.Env = append(os.Environ(), asStranger+"="+server.Addresses()[0], "GLEANER_TEST_ANSWER="+answer)
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(answer)
	if err != nil {
		t.Fatal(err)
	}
	var got strangerActs
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	denied := codes.PermissionDenied.String()
	want := strangerActs{
		Submitted: got.Submitted, AsOther: denied, Cancel: "Access/permission denied", Hold: "Access/permission denied", Update: "Access/permission denied",
		Drain: denied, Policy: denied, Register: denied, Vouch: denied, OwnScriptSeen: len(job().Spec.Script),
	}
	if got != want || got.Submitted == 0 {
		t.Fatalf("the stranger got\n%+v, want\n%+v", got, want)
	}
	mine := list(t, conn, &pb.JobFilter{AllStates: true, Ids: []*pb.JobId{{Job: got.Submitted}}})[0]
	if mine.GetOwner().GetUid() != 65534 || mine.GetOwner().GetUser() != "nobody" {
		t.Fatalf("the stranger's job belongs to %v", mine.GetOwner())
	}
}

// TestVouching: a node speaks for the jobs that run there, as their users.
func TestVouching(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: jobs of two users are submitted")
	}
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	client := pb.NewControllerClient(conn)
	t.Cleanup(newFakeNode(t, "n1", -1).connect(conn))
	id := submit(t, conn, job())
	other := submit(t, conn, job(func(r *pb.SubmitRequest) { r.AsUser = "daemon" }))
	waitState(t, conn, id, pb.JobState_JOB_STATE_RUNNING)
	waitState(t, conn, other, pb.JobState_JOB_STATE_RUNNING)
	as := func(job, uid, node string) context.Context {
		return metadata.AppendToOutgoingContext(soon(t), "gleaner-job", job, "gleaner-uid", uid, "gleaner-node", node)
	}
	for _, c := range []struct {
		name, job, uid, node string
		works                bool
	}{
		{"its own", "1.1", "65534", "n1", true},
		{"another user", "1.1", "1", "n1", false},
		{"root", "1.1", "0", "n1", false},
		{"another epoch", "1.2", "65534", "n1", false},
		{"another node", "1.1", "65534", "n2", false},
		{"unknown job", "77.1", "65534", "n1", false},
		{"nonsense", "x", "65534", "n1", false},
		{"no job", "", "65534", "n1", false},
	} {
		_, err := client.Ping(as(c.job, c.uid, c.node), &pb.PingRequest{})
		if c.works != (err == nil) || err != nil && status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	answer, err := client.Cancel(as("1.1", "65534", "n1"), &pb.CancelRequest{Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: other}}}})
	if err != nil || answer.GetResults()[0].GetError() != "Access/permission denied" {
		t.Errorf("cancel of another user's job from inside a job: %v, %v", answer, err)
	}
	inside, err := client.Submit(as("1.1", "65534", "n1"), job(func(r *pb.SubmitRequest) { r.AsUser = "" }))
	if err != nil {
		t.Fatal(err)
	}
	if owner := list(t, conn, &pb.JobFilter{Ids: []*pb.JobId{{Job: inside.GetJobId()}}})[0].GetOwner(); owner.GetUid() != 65534 {
		t.Errorf("a job submitted from inside a job belongs to %v", owner)
	}
	if _, err := client.Submit(as("1.1", "65534", "n1"), job()); status.Code(err) != codes.PermissionDenied {
		t.Errorf("submitting for another from inside a job: %v", err)
	}
}

func TestRootJobsAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it is root who submits")
	}
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	client := pb.NewControllerClient(conn)
	ctx := soon(t)
	rootJob := func() *pb.SubmitRequest { return job(func(r *pb.SubmitRequest) { r.AsUser = "" }) }
	if _, err := client.Submit(ctx, rootJob()); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "--uid=USER") {
		t.Fatalf("root's job: %v", err)
	}
	config, err := client.ShowConfig(ctx, &pb.ShowConfigRequest{})
	if err != nil {
		t.Fatal(err)
	}
	policy := config.GetPolicy()
	policy.Partitions[0].AllowRootJobs = true
	changes, err := client.ApplyPolicy(ctx, &pb.ApplyPolicyRequest{Policy: policy, DryRun: true})
	if err != nil || len(changes.GetChanges()) != 1 || changes.GetChanges()[0].GetPath() != "partitions.main.allow_root_jobs" {
		t.Fatalf("dry run: %v, %v", changes, err)
	}
	if _, err := client.Submit(ctx, rootJob()); err == nil {
		t.Fatal("a dry run changed the policy")
	}
	if _, err := client.ApplyPolicy(ctx, &pb.ApplyPolicyRequest{Policy: policy}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Submit(ctx, rootJob()); err != nil {
		t.Fatalf("root's job in a partition that allows it: %v", err)
	}
	policy.Partitions[0].Name = "other"
	for _, dry := range []bool{true, false} {
		if _, err := client.ApplyPolicy(ctx, &pb.ApplyPolicyRequest{Policy: policy, DryRun: dry}); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("removing a partition in use (dry run %v): %v", dry, err)
		}
	}
}

// TestCertificates: over TCP a node is who its certificate says, a user too.
func TestCertificates(t *testing.T) {
	config := configIn(shortDir(t))
	config.Listen = "127.0.0.1:0"
	server := startServer(t, config)
	remote := server.Addresses()[1]
	bundle := func(authorityDir string, kind pki.Kind, name string) string {
		authority, err := pki.Open(authorityDir)
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), name)
		if err := authority.WriteBundle(kind, name, out); err != nil {
			t.Fatal(err)
		}
		if kind == pki.Node && authorityDir == PKIDir(config.DataDir) {
			prototest.Eventually(t, "the node is admitted", func() bool {
				for c := range server.cluster.View().Certificates {
					if c.Name == name {
						return true
					}
				}
				return false
			})
		}
		return out
	}
	own := PKIDir(config.DataDir)
	register := func(tlsDir, name string) error {
		conn, err := dial.Dial([]string{remote}, tlsDir)
		if err != nil {
			return err
		}
		defer conn.Close()
		session, err := pb.NewNodeLinkClient(conn).Session(soon(t))
		if err != nil {
			return err
		}
		_ = session.Send(&pb.NodeMessage{What: &pb.NodeMessage_Register{Register: &pb.Register{Node: name, Inventory: &pb.Inventory{Cpus: 1, MemoryBytes: 1 << 30}}}})
		_, err = session.Recv()
		return err
	}
	node := bundle(own, pki.Node, "n1")
	if err := register(node, "n1"); err != nil {
		t.Errorf("node n1 as itself: %v", err)
	}
	if err := register(node, "n2"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("node n1 as n2: %v", err)
	}
	if err := register(bundle(own, pki.User, "nobody"), "n1"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a user as a node: %v", err)
	}
	if err := register(bundle(t.TempDir(), pki.Node, "n1"), "n1"); err == nil {
		t.Error("a certificate of another authority was believed")
	}
	asNode := pb.NewControllerClient(connectTo(t, remote, node))
	if _, err := asNode.Submit(soon(t), job()); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a node submits: %v", err)
	}
	user := connectTo(t, remote, bundle(own, pki.User, "nobody"))
	id := submit(t, user, job(func(r *pb.SubmitRequest) { r.AsUser = "" }))
	if owner := list(t, user, &pb.JobFilter{Ids: []*pb.JobId{{Job: id}}})[0].GetOwner(); owner.GetUser() != "nobody" {
		t.Errorf("a user's job over TCP belongs to %v", owner)
	}
}

// TestTunnel joins two ends of one job, and no others.
func TestTunnel(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	first, second := newFakeNode(t, "n1", -1), newFakeNode(t, "n2", -1)
	t.Cleanup(first.connect(conn))
	t.Cleanup(second.connect(conn))
	id := submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.MinNodes = 2 }))
	waitState(t, conn, id, pb.JobState_JOB_STATE_RUNNING)
	open := func(message *pb.TunnelOpen) pb.NodeLink_TunnelClient {
		stream, err := pb.NewNodeLinkClient(conn).Tunnel(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: message}}); err != nil {
			t.Fatal(err)
		}
		return stream
	}
	run := &pb.AllocId{Job: id, Epoch: 1}
	a := open(&pb.TunnelOpen{Alloc: run, FromNode: "n1", TargetNode: "n2"})
	var asked *pb.Connect
	for order := range second.orders {
		if asked = order.GetConnect(); asked != nil {
			break
		}
	}
	if stray, err := open(&pb.TunnelOpen{Alloc: &pb.AllocId{Job: id, Epoch: 2}, FromNode: "n2", Channel: asked.GetChannel()}).Recv(); err == nil {
		t.Errorf("another run joined the tunnel: %v", stray)
	}
	b := open(&pb.TunnelOpen{Alloc: run, FromNode: "n2", Channel: asked.GetChannel()})
	say(t, a, "question")
	hear(t, b, "question")
	if err := a.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}}); err != nil {
		t.Fatal(err)
	}
	if message, err := b.Recv(); err != nil || !message.GetHalfClose() {
		t.Fatalf("half close: %v, %v", message, err)
	}
	say(t, b, "answer")
	hear(t, a, "answer")
	if err := b.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if message, err := a.Recv(); err != nil || !message.GetHalfClose() {
		t.Fatalf("the other half close: %v, %v", message, err)
	}
	for _, end := range []grpc.ClientStream{a, b} {
		if err := end.RecvMsg(new(pb.TunnelMessage)); !errors.Is(err, io.EOF) {
			t.Errorf("end of the tunnel: %v", err)
		}
	}
	for name, bad := range map[string]*pb.TunnelOpen{
		"unknown target":  {Alloc: run, FromNode: "n1", TargetNode: "n3"},
		"unknown job":     {Alloc: &pb.AllocId{Job: 99, Epoch: 1}, FromNode: "n1", TargetNode: "n2"},
		"unknown channel": {Alloc: run, FromNode: "n1", Channel: "x"},
	} {
		if _, err := open(bad).Recv(); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

func say(t *testing.T, end pb.NodeLink_TunnelClient, text string) {
	t.Helper()
	if err := end.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: []byte(text)}}); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, end pb.NodeLink_TunnelClient, text string) {
	t.Helper()
	if message, err := end.Recv(); err != nil || string(message.GetData()) != text {
		t.Fatalf("heard %v, %v", message, err)
	}
}
