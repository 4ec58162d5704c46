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
	answer, err := client.Status(soon(t), &pb.StatusRequest{})
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

// untilStatus waits until the status is as it should be.
func untilStatus(t *testing.T, client pb.ControllerClient, what string, right func(*pb.StatusResponse) bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		s := statusOf(t, client)
		if right(s) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, s)
		}
	}
}

// TestStatus: leases, counts, and what is wrong with what to do.
func TestStatus(t *testing.T) {
	t.Parallel() // it waits more than it works
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
	node.renew()
	s := statusOf(t, client)
	if s.GetJobsRunning() != 1 || s.GetJobsWaiting() != 1 || len(s.GetLeases()) != 1 || len(s.GetProblems()) != 0 {
		t.Errorf("with a node: %v", s)
	}
	if l := s.GetLeases()[0]; l.GetNode() != "n1" || !l.GetConnected() || l.GetAgeMs() < 0 || l.GetLeftMs() <= 0 || l.GetAgeMs()+l.GetLeftMs() < 500 {
		t.Errorf("its lease: %v", l)
	}
	if _, err := client.UpdateNode(soon(t), &pb.UpdateNodeRequest{Names: "n1", Action: pb.NodeAction_NODE_ACTION_DRAIN, Reason: "fan"}); err != nil {
		t.Fatal(err)
	}
	if s := statusOf(t, client); !hasProblem(s, "node n1 does not take jobs", "State=RESUME") {
		t.Errorf("drained: %v", s.GetProblems())
	}
	stop()
	untilStatus(t, client, "silent", func(s *pb.StatusResponse) bool {
		return hasProblem(s, "node n1 does not answer", "gcontrol fence NODE") && len(s.GetLeases()) == 1 && !s.GetLeases()[0].GetConnected() && s.GetLeases()[0].GetLeftMs() < 0
	})
}

// TestStatusOfThree: any controller passes the leader's word on, and says so;
// one that is down is named with what to do, and counted.
func TestStatusOfThree(t *testing.T) {
	c := startCluster(t, 3, func(config *Config) { config.MetricsListen = "127.0.0.1:0" })
	leader := c.leader()
	follower := c.other(leader)
	// A controller that is slow to say how it is counts as one that is away.
	untilStatus(t, c.client(follower), "all up", func(s *pb.StatusResponse) bool {
		return s.GetLeader() == leader && s.GetAnsweredBy() == follower && len(s.GetPeers()) == 3 && len(s.GetProblems()) == 0
	})
	third := c.names()[slices.IndexFunc(c.names(), func(name string) bool { return name != leader && name != follower })]
	c.stop(third)
	untilStatus(t, c.client(follower), "one down", func(s *pb.StatusResponse) bool {
		return hasProblem(s, "no further controller may fail") && hasProblem(s, "controller "+third+" cannot be reached", "look at gctld there")
	})
	leader = c.leader() // it may have been the third that led while that stopped
	wantSamples(t, c.servers[leader], map[string]string{
		`gleaner_peer_reachable{peer="` + third + `"}`: "0", `gleaner_peer_reachable{peer="` + leader + `"}`: "1", `gleaner_raft_voters`: "3",
	})
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
