package ctld

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// pastRuns asks for runs.
func pastRuns(t testing.TB, conn *grpc.ClientConn, request *pb.ListRunsRequest) (runs []*pb.PastRun) {
	t.Helper()
	stream, err := pb.NewControllerClient(conn).ListRuns(soon(t), request)
	if err != nil {
		t.Fatal(err)
	}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return runs
		}
		if err != nil {
			t.Fatal(err)
		}
		if answer.GetNotice() != "" {
			t.Error(answer.GetNotice())
		}
		runs = append(runs, answer.GetRuns()...)
	}
}

// TestHistoryOfSeveral: jobs end while controllers are stopped, and one loses its disk:
// whoever leads has all runs, each once, and the databases are equal.
func TestHistoryOfSeveral(t *testing.T) {
	c := startCluster(t, 3)
	ended := 0
	end := func(count int) {
		t.Helper()
		for range count {
			id := c.submit(c.leader(), job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))
			c.retry("cancel", func(ctx context.Context) error {
				_, err := c.client(c.leader()).Cancel(ctx, &pb.CancelRequest{RequestId: fmt.Sprintf("00000000-0000-4000-8000-%012d", id), Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: id}}}})
				return err
			})
			ended++
		}
	}
	end(10)
	away := c.other(c.leader())
	c.stop(away)
	end(10)
	c.start(away)
	// The leader has its database locked by somebody else, and goes.
	leader := c.leader()
	end(5)
	c.stop(leader)
	end(5)
	c.start(leader)
	through := func(name string) uint64 { return uint64(c.servers[name].history.Through()) }
	settled := func() bool {
		highest := uint64(0)
		for _, name := range c.names() {
			highest = max(highest, through(name))
		}
		for _, name := range c.names() {
			if through(name) != highest {
				return false
			}
		}
		return highest > 0
	}
	c.eventually("the databases have all", settled)
	c.eventually("the outbox is trimmed", func() bool {
		runs, _, _ := c.servers[c.leader()].cluster.View().HistorySize()
		return runs == 0
	})
	// One loses its database, and has it again from another one.
	lost := c.other(c.leader())
	c.stop(lost)
	for _, end := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(filepath.Join(c.configs[lost].DataDir, historyFile+end))
	}
	c.start(lost)
	c.eventually("the lost database is copied", settled)
	var want []string
	for _, name := range c.names() {
		got := contents(t, filepath.Join(c.configs[name].DataDir, historyFile))
		if len(got) != ended {
			t.Errorf("%s has %d runs, and %d ended", name, len(got), ended)
		}
		if want == nil {
			want = got
		}
		if fmt.Sprint(want) != fmt.Sprint(got) {
			t.Errorf("the database of %s differs", name)
		}
	}
}

// contents are the runs of a database with their positions, as they are stored.
func contents(t *testing.T, path string) (runs []string) {
	t.Helper()
	database, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	rows, err := database.Query("SELECT at, run FROM runs ORDER BY at")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	jobs := map[uint32]bool{}
	for rows.Next() {
		var at int64
		var raw []byte
		var run pb.PastRun
		if err := errors.Join(rows.Scan(&at, &raw), proto.Unmarshal(raw, &run)); err != nil {
			t.Fatal(err)
		}
		if id := run.GetJob().GetId().GetJob(); jobs[id] {
			t.Errorf("%s has job %d twice", path, id)
		} else {
			jobs[id] = true
		}
		runs = append(runs, fmt.Sprintf("%d %x", at, raw))
	}
	return runs
}

// TestRunsAreShownAsTheyEnd: what has just ended is in the answer at once, what runs and
// waits too if it is wanted, and with private_data only what is one's own.
func TestRunsAreShownAsTheyEnd(t *testing.T) {
	config := configIn(shortDir(t))
	startServer(t, config)
	conn := connectTo(t, "unix://"+config.Socket, "")
	held := submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))
	ended := submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.Hold = true; r.Spec.Name = "gone" }))
	if _, err := pb.NewControllerClient(conn).Cancel(soon(t), &pb.CancelRequest{RequestId: "00000000-0000-4000-8000-000000000001", Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: ended}}}}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // from the outbox, and from the database
		runs := pastRuns(t, conn, &pb.ListRunsRequest{Live: true})
		if len(runs) != 2 || runs[0].GetJob().GetId().GetJob() != held || !runs[0].GetLive() || runs[1].GetJob().GetId().GetJob() != ended || runs[1].GetLive() {
			t.Fatalf("%v", runs)
		}
		if runs := pastRuns(t, conn, &pb.ListRunsRequest{Live: true, Filter: &pb.JobFilter{Names: []string{"gone"}}}); len(runs) != 1 {
			t.Errorf("%v", runs)
		}
		if runs := pastRuns(t, conn, &pb.ListRunsRequest{Live: true, SinceMs: time.Now().Add(time.Hour).UnixMilli()}); len(runs) != 1 {
			t.Errorf("%v", runs)
		}
		if runs := pastRuns(t, conn, &pb.ListRunsRequest{Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: 99999}}}}); len(runs) != 0 {
			t.Errorf("%v", runs)
		}
		time.Sleep(time.Second)
	}
}

// TestPrivateRuns: what private_data hides of jobs stays hidden when they are over, however
// it is asked for; without it the sentences about a job are its user's.
func TestPrivateRuns(t *testing.T) {
	for _, hidden := range []bool{true, false} {
		var words []string
		if hidden {
			words = []string{"jobs", "usage"}
		}
		c := newPrivateCluster(t, words...)
		cancel := &pb.CancelRequest{RequestId: "00000000-0000-4000-8000-000000000002", Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: c.held}}}}
		if _, err := pb.NewControllerClient(c.root).Cancel(soon(t), cancel); err != nil {
			t.Fatal(err)
		}
		for range 2 { // from the outbox, and from the database
			for _, filter := range []*pb.JobFilter{
				nil, {Ids: []*pb.JobId{{Job: c.held}, {Job: c.array}}}, {Uids: []uint32{daemonUID}}, {Users: []string{"daemon"}}, {Ids: []*pb.JobId{{Job: c.array, ArrayTask: proto.Uint32(3)}}},
			} {
				seen := 0
				for _, run := range pastRuns(t, c.nobody, &pb.ListRunsRequest{Filter: filter, Live: true, Duplicates: true}) {
					if run.GetJob().GetOwner().GetUid() == daemonUID {
						seen++
						if run.GetJob().GetReasonDetail() != "" || len(run.GetJob().GetOwner().GetGroups()) > 0 {
							t.Errorf("nobody is told %v", run)
						}
					}
				}
				if hidden != (seen == 0) {
					t.Errorf("private_data %v, filter %v: nobody sees %d runs of daemon", words, filter, seen)
				}
				if all := pastRuns(t, c.daemon, &pb.ListRunsRequest{Filter: filter, Live: true}); len(all) == 0 {
					t.Errorf("filter %v: daemon does not see its own", filter)
				}
			}
			time.Sleep(time.Second)
		}
	}
}

// TestHistorySettings: what cannot work is refused at the start, without a password.
func TestHistorySettings(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{HistoryDatabase: "postgres://gleaner@db.lab/gleaner?sslmode=verify-full"}, ""},
		{Config{HistoryDatabase: "mysql://gleaner:secret@db.lab/gleaner"}, "must begin with postgres://"},
		{Config{HistoryDatabase: "postgres://gleaner:secret@db.lab/gleaner?sslmode=perhaps"}, "history_database"},
		{Config{HistoryDays: -1}, "history_days"},
		{Config{HistoryArchive: "old"}, "absolute"},
	} {
		err := c.config.checkHistory()
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
}

// nodeEvents asks for events of nodes, as "node state reason".
func nodeEvents(t testing.TB, conn *grpc.ClientConn, request *pb.ListNodeEventsRequest) (events []string) {
	t.Helper()
	stream, err := pb.NewControllerClient(conn).ListNodeEvents(soon(t), request)
	if err != nil {
		t.Fatal(err)
	}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range answer.GetEvents() {
			events = append(events, fmt.Sprintf("%s %s %s %t", event.Node, event.State, event.Reason, event.EndMs != 0))
		}
	}
}

// TestNodeEvents: an event of a node is told once, from the outbox and later from the
// database, is no run, and hides where events do.
func TestNodeEvents(t *testing.T) {
	c := newPrivateCluster(t, "events")
	client := pb.NewControllerClient(c.root)
	for i, action := range []pb.NodeAction{pb.NodeAction_NODE_ACTION_DRAIN, pb.NodeAction_NODE_ACTION_RESUME, pb.NodeAction_NODE_ACTION_DRAIN} {
		request := &pb.UpdateNodeRequest{RequestId: fmt.Sprintf("00000000-0000-4000-8000-%012d", i+1), Names: "n1", Action: action, Reason: fmt.Sprintf("fan %d", i)}
		if _, err := client.UpdateNode(soon(t), request); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond) // an event has a length
	}
	want := "n1 DRAIN fan 0 true, n1 DRAIN fan 2 false"
	database, err := sql.Open("sqlite3", "file:"+c.history+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	for kept, until := 0, time.Now().Add(prototest.Patience); kept == 0 && time.Now().Before(until); {
		if got := strings.Join(nodeEvents(t, c.root, &pb.ListNodeEventsRequest{}), ", "); got != want {
			t.Fatalf("events are %s, want %s", got, want)
		}
		if err := database.QueryRow("SELECT count(*) FROM runs WHERE job = 0").Scan(&kept); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(nodeEvents(t, c.root, &pb.ListNodeEventsRequest{}), ", "); got != want {
		t.Errorf("events of the database are %s, want %s", got, want)
	}
	for request, want := range map[*pb.ListNodeEventsRequest]string{
		{Lasting: true}:   "n1 DRAIN fan 2 false",
		{Nodes: "n[2-3]"}: "",
		{UntilMs: 1}:      "",
		{SinceMs: time.Now().UnixMilli() + 60_000}:   "n1 DRAIN fan 2 false", // it may last until then
		{Nodes: "n[1-2]", SinceMs: 1, UntilMs: 9e15}: want,
	} {
		if got := strings.Join(nodeEvents(t, c.root, request), ", "); got != want {
			t.Errorf("%v: %s, want %s", request, got, want)
		}
	}
	if got := nodeEvents(t, c.daemon, &pb.ListNodeEventsRequest{}); len(got) > 0 {
		t.Errorf("private events are told: %s", got)
	}
	for _, run := range pastRuns(t, c.root, &pb.ListRunsRequest{Live: true, Duplicates: true}) {
		if run.GetEvent() != nil || run.GetJob() == nil {
			t.Errorf("an event is told as a run: %v", run)
		}
	}
}
