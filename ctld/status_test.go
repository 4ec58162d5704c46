package ctld

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/logs"
)

func statusOf(t *testing.T, client pb.ControllerClient) *pb.StatusResponse {
	t.Helper()
	answer, err := client.Status(within(t, 10*time.Second), &pb.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func hasProblem(answer *pb.StatusResponse, words ...string) bool {
	return slices.ContainsFunc(answer.GetProblems(), func(problem string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(problem, word) })
	})
}

// TestStatus: leases, counts, and what is wrong with what to do.
func TestStatus(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	client := pb.NewControllerClient(conn)
	if s := statusOf(t, client); s.GetLeader() != "c1" || s.GetAnsweredBy() != "c1" || s.GetTerm() == 0 || len(s.GetPeers()) != 1 || len(s.GetLeases()) != 0 || len(s.GetProblems()) != 0 {
		t.Errorf("alone: %v", s)
	}
	shortenLease(t, client)
	node := newFakeNode(t, "n1", time.Hour)
	stop := node.connect(conn)
	running := submit(t, conn, job())
	submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))
	waitState(t, conn, running, pb.JobState_JOB_STATE_RUNNING)
	s := statusOf(t, client)
	if s.GetJobsRunning() != 1 || s.GetJobsWaiting() != 1 || len(s.GetLeases()) != 1 || len(s.GetProblems()) != 0 {
		t.Errorf("with a node: %v", s)
	}
	if l := s.GetLeases()[0]; l.GetNode() != "n1" || !l.GetConnected() || l.GetAgeMs() < 0 || l.GetLeftMs() <= 0 || l.GetAgeMs()+l.GetLeftMs() < 500 {
		t.Errorf("its lease: %v", l)
	}
	if _, err := client.UpdateNode(within(t, 5*time.Second), &pb.UpdateNodeRequest{Names: "n1", Action: pb.NodeAction_NODE_ACTION_DRAIN, Reason: "fan"}); err != nil {
		t.Fatal(err)
	}
	if s := statusOf(t, client); !hasProblem(s, "node n1 does not take jobs", "State=RESUME") {
		t.Errorf("drained: %v", s.GetProblems())
	}
	stop()
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		s := statusOf(t, client)
		if hasProblem(s, "node n1 does not answer", "gcontrol fence NODE") && len(s.GetLeases()) == 1 && !s.GetLeases()[0].GetConnected() && s.GetLeases()[0].GetLeftMs() < 0 {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("silent: %v", s)
		}
	}
}

// TestStatusOfThree: any controller passes the leader's word on, and says so;
// one that is down is named with what to do, and counted.
func TestStatusOfThree(t *testing.T) {
	c := startCluster(t, 3, func(config *Config) { config.MetricsListen = "127.0.0.1:0" })
	leader := c.leader()
	follower := c.other(leader)
	s := statusOf(t, c.client(follower))
	if s.GetLeader() != leader || s.GetAnsweredBy() != follower || len(s.GetPeers()) != 3 || len(s.GetProblems()) != 0 {
		t.Errorf("all up: %v", s)
	}
	third := c.names()[slices.IndexFunc(c.names(), func(name string) bool { return name != leader && name != follower })]
	c.stop(third)
	s = statusOf(t, c.client(follower))
	if !hasProblem(s, "no further controller may fail") || !hasProblem(s, "controller "+third+" can not be reached", "look at gctld there") {
		t.Errorf("one down: %v", s.GetProblems())
	}
	leader = c.leader() // it may have been the third that led while that stopped
	text := scrape(t, c.servers[leader])
	if sample(text, `gleaner_peer_reachable{peer="`+third+`"}`) != "0" || sample(text, `gleaner_peer_reachable{peer="`+leader+`"}`) != "1" || sample(text, `gleaner_raft_voters`) != "3" {
		t.Errorf("the leader's metrics:\n%s", text)
	}
	if text := scrape(t, c.servers[c.other(leader)]); sample(text, `gleaner_raft_is_leader`) != "0" || strings.Contains(text, "gleaner_peer_reachable{") {
		t.Errorf("the follower's metrics:\n%s", text)
	}
}

// TestLogsAcrossControllers: a request is told by the one that was asked, by
// the leader, and by each that applies it, under one request id.
func TestLogsAcrossControllers(t *testing.T) {
	journals := make(map[string]*journal)
	c := newTestCluster(t)
	c.log = func(name string) *slog.Logger {
		journals[name] = &journal{}
		return logs.New(journals[name], logs.Options{Format: logs.JSON, Level: slog.LevelDebug})
	}
	c.grow(3)
	leader := c.leader()
	follower := c.other(leader)
	id := uuid.NewString()
	jobID := c.submit(follower, job(func(r *pb.SubmitRequest) { r.RequestId, r.Spec.Hold = id, true }))
	c.eventually("all lines are there", func() bool {
		for name, written := range journals {
			if find(written.records(t), "applied", map[string]any{"request_id": id, "command": "SubmitJob"}) == nil {
				t.Logf("%s has not applied it", name)
				return false
			}
		}
		return find(journals[follower].records(t), "request passed on", map[string]any{"request_id": id, "leader": leader, "job": jobID}) != nil &&
			find(journals[leader].records(t), "request", map[string]any{"request_id": id, "peer": follower, "job": jobID, "level": "INFO"}) != nil
	})
	if find(journals[follower].records(t), "request", map[string]any{"request_id": id}) != nil {
		t.Error("the controller that passed the request on has the line of the one that answered")
	}
}
