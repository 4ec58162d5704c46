package ctld

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// connectAs is a connection of another user: the kernel tells the controller
// who connects by the thread that did.
func connectAs(t testing.TB, target string, uid int) *grpc.ClientConn {
	t.Helper()
	dialer := func(context.Context, string) (net.Conn, error) {
		type dialled struct {
			conn net.Conn
			err  error
		}
		done := make(chan dialled, 1)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
				done <- dialled{nil, errno}
				return
			}
			conn, err := net.Dial("unix", strings.TrimPrefix(strings.TrimPrefix(target, "unix:"), "//"))
			done <- dialled{conn, err}
		}()
		got := <-done
		return got.conn, got.err
	}
	conn, err := grpc.NewClient("passthrough:///controller", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dialer))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

const daemonUID, nobodyUID = 1, 65534

// privateCluster has jobs of daemon, one of which runs, and private_data as given.
type privateCluster struct {
	history                string // its database
	root, daemon, nobody   *grpc.ClientConn
	held, array, runs, own uint32
}

func newPrivateCluster(t *testing.T, words ...string) *privateCluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: other users connect")
	}
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	config := configIn(dir)
	server := startServer(t, config)
	target := server.Addresses()[0]
	c := &privateCluster{history: filepath.Join(config.DataDir, historyFile), root: connectTo(t, target, ""), daemon: connectAs(t, target, daemonUID), nobody: connectAs(t, target, nobodyUID)}
	t.Cleanup(newFakeNode(t, "n1", -1).connect(c.root))
	client := pb.NewControllerClient(c.root)
	shown, err := client.ShowConfig(soon(t), &pb.ShowConfigRequest{})
	if err != nil {
		t.Fatal(err)
	}
	shown.Policy.PrivateData = words
	shown.Policy.Scheduler.EnableUserTop = true // so that top is refused for the job's sake
	if _, err := client.ApplyPolicy(soon(t), &pb.ApplyPolicyRequest{Policy: shown.Policy}); err != nil {
		t.Fatal(err)
	}
	as := func(conn *grpc.ClientConn, change func(*pb.SubmitRequest)) uint32 {
		return submit(t, conn, job(func(r *pb.SubmitRequest) { r.AsUser = "" }, change))
	}
	hold := func(r *pb.SubmitRequest) { r.Spec.Hold = true }
	c.held = as(c.daemon, hold)
	c.array = as(c.daemon, func(r *pb.SubmitRequest) {
		r.Spec.Hold, r.Spec.Array = true, &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 1, Last: 5, Step: 1}}}
	})
	c.runs = as(c.daemon, func(*pb.SubmitRequest) {})
	waitState(t, c.root, c.runs, pb.JobState_JOB_STATE_RUNNING)
	c.own = as(c.nobody, hold)
	return c
}

// neverWas is a number that no job has had.
const neverWas = 999_999_999

// asked is a request about a job, and what came of it as text, in which the
// number of the job is "N".
func asked(t *testing.T, number uint32, call func(*pb.JobFilter) (proto.Message, error), task *uint32) string {
	t.Helper()
	answer, err := call(&pb.JobFilter{Ids: []*pb.JobId{{Job: number, ArrayTask: task}}})
	text := ""
	if err != nil {
		text = status.Code(err).String() + ": " + status.Convert(err).Message()
	} else {
		text = strings.ReplaceAll(protojson.Format(answer), ":  ", ": ")
	}
	return strings.ReplaceAll(text, strconv.FormatUint(uint64(number), 10), "N")
}

// TestHiddenJobsAreNotThere: where jobs are private, every verb answers about
// somebody else's job, by its number or a task of it, as about one that never
// was.
func TestHiddenJobsAreNotThere(t *testing.T) {
	c := newPrivateCluster(t, "jobs")
	verbs := map[string]func(*pb.JobFilter) (proto.Message, error){}
	client, ctx := pb.NewControllerClient(c.nobody), soon(t)
	for number, name := range pb.ControlVerb_name {
		if number != 0 {
			verbs[name] = func(f *pb.JobFilter) (proto.Message, error) {
				return client.Control(ctx, &pb.ControlRequest{Verb: pb.ControlVerb(number), Filter: f})
			}
		}
	}
	verbs["cancel"] = func(f *pb.JobFilter) (proto.Message, error) { return client.Cancel(ctx, &pb.CancelRequest{Filter: f}) }
	verbs["signal"] = func(f *pb.JobFilter) (proto.Message, error) {
		return client.Cancel(ctx, &pb.CancelRequest{Filter: f, Signal: 10})
	}
	verbs["cancel pending"] = func(f *pb.JobFilter) (proto.Message, error) {
		f.States = []pb.JobState{pb.JobState_JOB_STATE_PENDING}
		return client.Cancel(ctx, &pb.CancelRequest{Filter: f})
	}
	verbs["cancel by user"] = func(f *pb.JobFilter) (proto.Message, error) {
		f.Users = []string{"daemon"}
		return client.Cancel(ctx, &pb.CancelRequest{Filter: f})
	}
	verbs["hold by name"] = func(f *pb.JobFilter) (proto.Message, error) {
		f.Names = []string{job().Spec.Name}
		return client.Control(ctx, &pb.ControlRequest{Verb: pb.ControlVerb_CONTROL_VERB_HOLD, Filter: f})
	}
	verbs["update"] = func(f *pb.JobFilter) (proto.Message, error) {
		return client.UpdateJobs(ctx, &pb.UpdateJobsRequest{Filter: f, Change: &pb.JobChange{Comment: proto.String("x")}})
	}
	verbs["update to what cannot be"] = func(f *pb.JobFilter) (proto.Message, error) {
		return client.UpdateJobs(ctx, &pb.UpdateJobsRequest{Filter: f, Change: &pb.JobChange{MinNodes: proto.Uint32(4000)}})
	}
	verbs["save"] = func(f *pb.JobFilter) (proto.Message, error) {
		return client.SaveJobs(ctx, &pb.SaveJobsRequest{Filter: f})
	}
	verbs["list"] = func(f *pb.JobFilter) (proto.Message, error) {
		jobs, err := tryList(t, c.nobody, &pb.ListJobsRequest{Filter: f, WithScript: true})
		return &pb.ListJobsResponse{Jobs: jobs}, err
	}
	verbs["list of two"] = func(f *pb.JobFilter) (proto.Message, error) {
		f.Ids, f.AllStates = append(f.Ids, &pb.JobId{Job: neverWas - 1}), true
		jobs, err := tryList(t, c.nobody, &pb.ListJobsRequest{Filter: f})
		return &pb.ListJobsResponse{Jobs: jobs}, err
	}
	verbs["priorities"] = func(f *pb.JobFilter) (proto.Message, error) {
		stream, err := client.ListPriorities(ctx, &pb.ListPrioritiesRequest{Ids: f.GetIds()})
		if err != nil {
			return nil, err
		}
		return stream.Recv()
	}
	verbs["why"] = func(f *pb.JobFilter) (proto.Message, error) {
		return client.ExplainWait(ctx, &pb.ExplainWaitRequest{Id: f.GetIds()[0]})
	}
	verbs["attach"] = func(f *pb.JobFilter) (proto.Message, error) {
		stream, err := client.Attach(ctx)
		if err == nil {
			err = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Attach{Attach: &pb.Attach{Job: f.GetIds()[0]}}})
		}
		if err != nil {
			return nil, err
		}
		return stream.Recv()
	}
	fifth := uint32(5)
	for name, call := range verbs {
		for _, hidden := range []struct {
			number uint32
			task   *uint32
		}{{c.held, nil}, {c.array, nil}, {c.array, &fifth}, {c.runs, nil}, {c.runs, &fifth}} {
			want := asked(t, neverWas, call, hidden.task)
			if got := asked(t, hidden.number, call, hidden.task); got != want {
				t.Errorf("%s of job %d, task %v:\n%s\nand of one that never was:\n%s", name, hidden.number, hidden.task, got, want)
			}
		}
		// Of the caller's own there is another answer.
		if own, want := asked(t, c.own, call, nil), asked(t, neverWas, call, nil); own == want && name != "cancel by user" && name != "cancel pending" && name != "priorities" && name != "hold by name" {
			t.Errorf("%s of one's own job: %s", name, own)
		}
		if seen := list(t, c.root, &pb.JobFilter{Ids: []*pb.JobId{{Job: c.held}}}); seen[0].GetState() != pb.JobState_JOB_STATE_PENDING {
			t.Fatalf("after %s the other's job is %v", name, seen[0].GetState())
		}
	}
}

// TestHiddenJobsAreNotCounted: nor do lists, events, counts and dependencies
// tell of them, and who may see them does.
func TestHiddenJobsAreNotCounted(t *testing.T) {
	c := newPrivateCluster(t, "jobs")
	client := pb.NewControllerClient(c.nobody)
	for name, filter := range map[string]*pb.JobFilter{
		"all": all(), "live": {}, "user": {Users: []string{"daemon"}}, "uid": {Uids: []uint32{daemonUID}}, "node": {Nodes: []string{"n1"}},
		"states": {States: []pb.JobState{pb.JobState_JOB_STATE_RUNNING}},
	} {
		for _, seen := range list(t, c.nobody, filter) {
			if seen.GetOwner().GetUid() != nobodyUID {
				t.Errorf("list by %s: %v", name, seen.GetId())
			}
		}
	}
	if seen := list(t, c.root, all()); len(seen) != 4 {
		t.Errorf("root sees %d jobs", len(seen))
	}
	if seen := list(t, c.daemon, all()); len(seen) != 3 {
		t.Errorf("their owner sees %d of his 3", len(seen))
	}
	answer, err := client.Status(soon(t), &pb.StatusRequest{})
	if err != nil || answer.GetJobsWaiting() != 1 || answer.GetJobsRunning() != 0 {
		t.Errorf("status: %v, %v", answer, err)
	}
	nodes, err := client.ListNodes(soon(t), &pb.ListNodesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if message, err := nodes.Recv(); err != nil || len(message.GetNodes()[0].GetRunningJobs()) != 0 || message.GetNodes()[0].GetAllocatedCpus() == 0 {
		t.Errorf("nodes: %v, %v", message, err)
	}
	for _, text := range []string{"afterok", "afterany", "after", "aftercorr"} {
		for _, number := range []uint32{c.held, c.array, c.runs} {
			id := strconv.FormatUint(uint64(number), 10)
			_, err := client.Submit(soon(t), job(func(r *pb.SubmitRequest) { r.AsUser, r.Spec.Dependency = "", text+":"+id }))
			if !strings.Contains(status.Convert(err).Message(), "job "+id+" is not known any more") {
				t.Errorf("%s:%s: %v", text, id, err)
			}
		}
	}
	if _, err := pb.NewControllerClient(c.daemon).Submit(soon(t), job(func(r *pb.SubmitRequest) {
		r.AsUser, r.Spec.Hold, r.Spec.Dependency = "", true, "afterok:"+strconv.FormatUint(uint64(c.runs), 10)
	})); err != nil {
		t.Errorf("a dependency on one's own: %v", err)
	}
	// Of all that happens from now on nobody hears of the others' jobs.
	follow, err := client.Follow(soon(t), &pb.FollowRequest{})
	if err == nil {
		_, err = follow.Recv() // Synced
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, conn := range []*grpc.ClientConn{c.daemon, c.nobody} {
		one := map[bool]uint32{true: c.held, false: c.own}[conn == c.daemon]
		if _, err := pb.NewControllerClient(conn).Cancel(soon(t), &pb.CancelRequest{Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: one}}}}); err != nil {
			t.Fatal(err)
		}
	}
	for {
		event, err := follow.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if id := event.GetJob().GetId().GetJob(); id == c.own {
			break
		} else if id != 0 || event.GetPurged() != nil {
			t.Fatalf("an event of somebody else's job: %v", event)
		}
	}
}

// TestOtherPrivateData: what the other words hide.
func TestOtherPrivateData(t *testing.T) {
	c := newPrivateCluster(t, "nodes", "partitions", "accounts", "users", "usage", "events")
	client := pb.NewControllerClient(c.root)
	name := func(record pb.AccountRecord, account, user string) *pb.AccountChange {
		return &pb.AccountChange{Action: pb.ChangeAction_CHANGE_ACTION_ADD, Record: record, Account: account, User: user}
	}
	if _, err := client.ChangeAccounts(soon(t), &pb.ChangeAccountsRequest{Changes: []*pb.AccountChange{
		name(pb.AccountRecord_ACCOUNT_RECORD_ACCOUNT, "physics", ""), name(pb.AccountRecord_ACCOUNT_RECORD_ACCOUNT, "chemistry", ""),
		name(pb.AccountRecord_ACCOUNT_RECORD_USER, "", "daemon"), name(pb.AccountRecord_ACCOUNT_RECORD_USER, "", "nobody"),
		name(pb.AccountRecord_ACCOUNT_RECORD_ASSOCIATION, "physics", "daemon"), name(pb.AccountRecord_ACCOUNT_RECORD_ASSOCIATION, "physics", "nobody"),
		name(pb.AccountRecord_ACCOUNT_RECORD_ASSOCIATION, "chemistry", "daemon"),
	}}); err != nil {
		t.Fatal(err)
	}
	owned, err := client.ShowConfig(soon(t), &pb.ShowConfigRequest{})
	if err == nil {
		owned.Policy.Owners = []*pb.Owner{{Account: "chemistry", Nodes: "n1"}}
		_, err = client.ApplyPolicy(soon(t), &pb.ApplyPolicyRequest{Policy: owned.Policy})
	}
	if err != nil {
		t.Fatal(err)
	}
	see := func(conn *grpc.ClientConn) string {
		client, said := pb.NewControllerClient(conn), []string{}
		add := func(message proto.Message, err error) {
			if err == nil {
				said = append(said, protojson.Format(message))
			}
		}
		accounts, err := client.ListAccounts(soon(t), &pb.ListAccountsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		add(accounts.Recv())
		shares, err := client.ListShares(soon(t), &pb.ListSharesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		add(shares.Recv())
		limits, err := client.ListLimits(soon(t), &pb.ListLimitsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		add(limits.Recv())
		nodes, err := client.ListNodes(soon(t), &pb.ListNodesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		add(nodes.Recv())
		add(client.ListPartitions(soon(t), &pb.ListPartitionsRequest{}))
		add(client.Status(soon(t), &pb.StatusRequest{}))
		config, err := client.ShowConfig(soon(t), &pb.ShowConfigRequest{})
		add(&pb.ShowConfigResponse{Policy: &pb.Policy{Partitions: config.GetPolicy().GetPartitions(), Owners: config.GetPolicy().GetOwners()}, Entries: config.GetEntries()}, err)
		_, err = client.Submit(soon(t), job(func(r *pb.SubmitRequest) { r.AsUser, r.Spec.Partitions = "", []string{"nosuch"} }))
		return strings.Join(append(said, status.Convert(err).Message()), "\n")
	}
	mine, all := see(c.nobody), see(c.root)
	for _, word := range []string{"daemon", "chemistry", `"n1"`, `"main"`, "main"} {
		if strings.Contains(mine, word) {
			t.Errorf("a user is told of %s:\n%s", word, mine)
		}
		if !strings.Contains(all, word) && word != "main" {
			t.Errorf("root is not told of %s:\n%s", word, all)
		}
	}
	if !strings.Contains(mine, "nobody") || !strings.Contains(mine, "physics") {
		t.Errorf("a user is not told of their own:\n%s", mine)
	}
}

// TestPrivateDataWords: a word that Slurm does not have is refused, with a list
// of those that exist.
func TestPrivateDataWords(t *testing.T) {
	c := newPrivateCluster(t)
	client := pb.NewControllerClient(c.root)
	shown, err := client.ShowConfig(soon(t), &pb.ShowConfigRequest{})
	if err != nil {
		t.Fatal(err)
	}
	shown.Policy.PrivateData = []string{"job"}
	_, err = client.ApplyPolicy(soon(t), &pb.ApplyPolicyRequest{Policy: shown.Policy})
	if said := status.Convert(err).Message(); !strings.Contains(said, "accounts, events, jobs, nodes") || !strings.Contains(said, "did you mean jobs") {
		t.Fatalf("private_data = [job]: %v", err)
	}
}
