package ctld

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/api"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/tomlfile"
)

func TestListFilters(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	node := newFakeNode(t, "n1", -1)
	t.Cleanup(node.connect(conn))
	held := func(r *pb.SubmitRequest) { r.Spec.Hold = true }
	named := submit(t, conn, job(held, func(r *pb.SubmitRequest) { r.Spec.Name = "special"; r.Spec.Account = "physics" }))
	array := submit(t, conn, job(held, func(r *pb.SubmitRequest) {
		r.Spec.Array = &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 0, Last: 9, Step: 1}}}
	}))
	running := submit(t, conn, job())
	waitState(t, conn, running, pb.JobState_JOB_STATE_RUNNING)
	cancelled := submit(t, conn, job(held))
	if _, err := pb.NewControllerClient(conn).Cancel(soon(t), &pb.CancelRequest{Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: cancelled}}}}); err != nil {
		t.Fatal(err)
	}
	task := uint32(3)
	user := list(t, conn, &pb.JobFilter{Ids: []*pb.JobId{{Job: named}}})[0].GetOwner().GetUser()
	cases := []struct {
		name   string
		filter *pb.JobFilter
		want   []uint32
	}{
		{"active", nil, []uint32{named, array, running}},
		{"all", all(), []uint32{named, array, running, cancelled}},
		{"name", &pb.JobFilter{Names: []string{"special", "x"}}, []uint32{named}},
		{"account", &pb.JobFilter{Accounts: []string{"physics"}}, []uint32{named}},
		{"user", &pb.JobFilter{Users: []string{user}}, []uint32{named, array, running}},
		{"another user", &pb.JobFilter{Users: []string{"nemo"}}, nil},
		{"partition", &pb.JobFilter{Partitions: []string{"other"}}, nil},
		{"state", &pb.JobFilter{States: []pb.JobState{pb.JobState_JOB_STATE_RUNNING}}, []uint32{running}},
		{"finished state", &pb.JobFilter{States: []pb.JobState{pb.JobState_JOB_STATE_CANCELLED}}, []uint32{cancelled}},
		{"node", &pb.JobFilter{Nodes: []string{"n1"}}, []uint32{running}},
		{"name and state", &pb.JobFilter{Names: []string{"special"}, States: []pb.JobState{pb.JobState_JOB_STATE_RUNNING}}, nil},
		{"id of a finished job", &pb.JobFilter{Ids: []*pb.JobId{{Job: cancelled}}}, nil},
		{"two ids, one unknown", &pb.JobFilter{Ids: []*pb.JobId{{Job: 999}, {Job: named}}}, []uint32{named}},
		{"array task", &pb.JobFilter{Ids: []*pb.JobId{{Job: array, ArrayTask: &task}}}, []uint32{array}},
	}
	for _, c := range cases {
		var got []uint32
		for _, found := range list(t, conn, c.filter) {
			got = append(got, found.GetId().GetJob())
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	one := list(t, conn, &pb.JobFilter{Ids: []*pb.JobId{{Job: array, ArrayTask: &task}}})[0]
	if ranges := one.GetWaitingTasks().GetRanges(); len(ranges) != 1 || ranges[0].GetFirst() != 3 || ranges[0].GetLast() != 3 {
		t.Errorf("the task asked for is shown as %v", ranges)
	}
	if one.GetReason() != "JobHeldUser" {
		t.Errorf("a held job waits for %q", one.GetReason())
	}
	_, err := tryList(t, conn, &pb.ListJobsRequest{Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: 999}}}})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "Invalid job id specified") {
		t.Errorf("a single unknown id: %v", err)
	}
}

func TestReasonsAndRefusals(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	client := pb.NewControllerClient(conn)
	early := submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.MinNodes = 50 }))
	t.Cleanup(newFakeNode(t, "n1", -1).connect(conn))
	gpus := func(count uint32) func(*pb.SubmitRequest) {
		return func(r *pb.SubmitRequest) {
			r.Spec.Gpus = []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: count}}
		}
	}
	for name, change := range map[string]func(*pb.SubmitRequest){
		"partition": func(r *pb.SubmitRequest) { r.Spec.Partitions = []string{"nope"} },
		"nodes":     func(r *pb.SubmitRequest) { r.Spec.MinNodes = 2 },
		"GPUs":      gpus(5),
		"memory":    func(r *pb.SubmitRequest) { r.Spec.MemoryPerCpuBytes, r.Spec.MemoryPerNodeBytes = 0, 1<<40 },
		"CPUs":      func(r *pb.SubmitRequest) { r.Spec.CpusPerTask = 65 },
	} {
		_, err := client.Submit(soon(t), job(change))
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %s", name, status.Convert(err).Message())
	}
	first := submit(t, conn, job(gpus(3)))
	waitState(t, conn, first, pb.JobState_JOB_STATE_RUNNING)
	second := submit(t, conn, job(gpus(2)))
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		waiting := list(t, conn, &pb.JobFilter{Ids: []*pb.JobId{{Job: second}, {Job: early}}})
		if waiting[1].GetReason() == "Resources" && strings.Contains(waiting[1].GetReasonDetail(), "GPU") && waiting[0].GetReason() == "PartitionConfig" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("reasons: %s (%s), %s (%s)", waiting[0].GetReason(), waiting[0].GetReasonDetail(), waiting[1].GetReason(), waiting[1].GetReasonDetail())
		}
	}
}

func TestFollow(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	stream, err := pb.NewControllerClient(conn).Follow(soon(t), &pb.FollowRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if event, err := stream.Recv(); err != nil || event.GetSynced() == nil {
		t.Fatalf("first event: %v, %v", event, err)
	}
	t.Cleanup(newFakeNode(t, "n1", 0).connect(conn))
	id := submit(t, conn, job())
	var states []string
	sawNode := false
	for len(states) == 0 || states[len(states)-1] != "JOB_STATE_COMPLETED" {
		event, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		sawNode = sawNode || event.GetNode().GetName() == "n1"
		if event.GetJob().GetId().GetJob() == id {
			states = append(states, event.GetJob().GetState().String())
		}
	}
	if !sawNode || states[0] != "JOB_STATE_PENDING" {
		t.Fatalf("states %v, node seen: %v", states, sawNode)
	}
}

func TestSlowFollowerIsCutOff(t *testing.T) {
	f := newFeed()
	slow, stopSlow := f.follow()
	defer stopSlow()
	quick, stopQuick := f.follow()
	for range feedLength + 8 {
		f.publish(api.Change{})
		<-quick
	}
	got := 0
	for range slow { // ends because the channel was closed
		got++
	}
	if got != feedLength {
		t.Fatalf("%d changes were kept for a follower that does not read", got)
	}
	stopQuick()
	if _, open := <-quick; open || f.followed() {
		t.Fatal("a follower that stopped is still served")
	}
}

// TestUnknownCommandStopsController: continuing without it would make this peer
// differ from the others.
func TestUnknownCommandStopsController(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	if _, err := server.cluster.peer.Propose(soon(t), []byte("nonsense")); !errors.Is(err, state.ErrCorruptCommand) {
		t.Fatalf("nonsense was applied: %v", err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Wait() }()
	if err := prototest.Receive(t, "the controller stops", stopped); !errors.Is(err, state.ErrCorruptCommand) {
		t.Fatalf("stopped with %v", err)
	}
}

func TestSilentNodeIsLostAndComesBack(t *testing.T) {
	t.Parallel() // it waits more than it works
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	client := pb.NewControllerClient(conn)
	shortenLease(t, client)
	node := newFakeNode(t, "n1", -1)
	t.Cleanup(node.connect(conn))
	id := submit(t, conn, job())
	waitState(t, conn, id, pb.JobState_JOB_STATE_RUNNING)
	silent := func() bool {
		stream, err := client.ListNodes(soon(t), &pb.ListNodesRequest{Names: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		message, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return message.GetNodes()[0].GetNotResponding()
	}
	prototest.Eventually(t, "the node is silent", silent)
	if state := list(t, conn, all())[0].GetState(); state != pb.JobState_JOB_STATE_RUNNING {
		t.Fatalf("the job on the silent node is %v", state)
	}
	prototest.Eventually(t, "the node is back", func() bool { node.renew(); return !silent() })
	if begun := node.begun()[id]; begun != 1 {
		t.Fatalf("begun %d times", begun)
	}
}

func TestLoadConfig(t *testing.T) {
	cases := []struct{ text, want string }{
		{"name = \"c1\"\nlisten = \"0.0.0.0:6817\"\n", ""},
		{"data_dir = \"/x\"\n\nlissten = \"y\"\n", "gctld.toml:3:1: unknown key \"lissten\": did you mean listen?"},
		{"name = 5\n", "gctld.toml:1:8:"},
		{"name = \n", "gctld.toml:1:"},
		{"\x7fELF\x02\x01", "gctld.toml:1:1:"},
		{strings.Repeat("#\n", 1<<20), "too many"},
		{"listen = \"h:99999\"", "HOST:PORT"},
	}
	for _, c := range cases {
		path := filepath.Join(t.TempDir(), "gctld.toml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadConfig(path)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	bad := DefaultConfig()
	for name, change := range map[string]func(*Config){
		"socket": func(c *Config) { c.Socket = "x" }, "long": func(c *Config) { c.Socket = "/" + strings.Repeat("x", 120) },
		"data": func(c *Config) { c.DataDir = "" }, "listen": func(c *Config) { c.Listen = "nohost" }, "level": func(c *Config) { c.LogLevel = "loud" },
	} {
		config := bad
		change(&config)
		if config.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, seed := range []string{"name = \"c1\"\ndata_dir = '/d'\nsocket = '/s'\nlisten = ':1'\npeer_listen = 'h:2'\nlog_level = 'debug'", "log_level = 'error+9999999999999'", "[x]\ny = 1", "name = [", "data_dir = '''\n'''", "\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		config := DefaultConfig()
		err := tomlfile.Decode(text, &config)
		if err == nil {
			err = config.Check()
		}
		if err != nil {
			if len(err.Error()) > len(text)+1024 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if _, err := config.Level(); err != nil || !filepath.IsAbs(config.DataDir) || !filepath.IsAbs(config.Socket) || len(config.Socket) > 100 {
			t.Errorf("accepted %+v", config)
		}
	})
}
