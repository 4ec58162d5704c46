package control

import (
	"encoding/json"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// TestPingAsksEachByItself: one that is down, one that accepts and says
// nothing and one that answers, all within one deadline.
func TestPingAsksEachByItself(t *testing.T) {
	defer func(before time.Duration) { client.PingTime = before }(client.PingTime)
	client.PingTime = 3 * time.Second
	directory := t.TempDir()
	up, mute, down := filepath.Join(directory, "up.sock"), filepath.Join(directory, "mute.sock"), filepath.Join(directory, "down.sock")
	t.Cleanup(clienttest.ListenStub(t, up, clienttest.StubCluster()))
	listener, err := net.Listen("unix", mute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	t.Setenv("GLEANER_CONTROLLER", "unix://"+down+",unix://"+mute+",unix://"+mute+"2,unix://"+up)

	stdout, stderr, exit := typed(t, t.Context(), nil, "gcontrol ping")
	want := "Slurmctld(primary) at unix://" + down + " is DOWN\nSlurmctld(backup1) at unix://" + mute + " is DOWN\n" +
		"Slurmctld(backup2) at unix://" + mute + "2 is DOWN\nSlurmctld(backup3) at c1 is UP\n"
	if stdout != want || exit != 0 {
		t.Errorf("exit %d:\n%s", exit, stdout)
	}
	if lines := strings.Split(strings.TrimSpace(stderr), "\n"); len(lines) != 3 || !strings.Contains(lines[0], "no such file") || !strings.Contains(lines[1], "does not answer") {
		t.Errorf("why they are down:\n%s", stderr)
	}

	stdout, _, exit = typed(t, t.Context(), nil, "gcontrol ping --json")
	var answer struct{ Pings []pinged }
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || exit != 0 || len(answer.Pings) != 4 {
		t.Fatalf("exit %d, %v:\n%s", exit, err, stdout)
	}
	if p := answer.Pings[3]; !p.Responding || p.Mode != "backup3" || p.Primary || p.Term != 3 || p.Lag != 2 || p.Leader != "c1" || p.Latency <= 0 {
		t.Errorf("%+v", p)
	}
	if p := answer.Pings[0]; p.Responding || !p.Primary || p.Pinged != "DOWN" || p.Error == "" || p.LastContact != -1 {
		t.Errorf("%+v", p)
	}
}

// TestStatusWithoutLeader: what those that were asked know is shown, and the
// command fails.
func TestStatusWithoutLeader(t *testing.T) {
	defer func(ping, status time.Duration) { client.PingTime, statusTime = ping, status }(client.PingTime, statusTime)
	client.PingTime, statusTime = prototest.Patience, 2*time.Second
	directory := t.TempDir()
	up, down := filepath.Join(directory, "up.sock"), filepath.Join(directory, "down.sock")
	stub := clienttest.StubCluster()
	stub.Health = nil
	stop := clienttest.ListenStub(t, up, stub)
	t.Setenv("GLEANER_CONTROLLER", "unix://"+down+",unix://"+up)

	stdout, stderr, exit := typed(t, t.Context(), nil, "gcontrol status")
	for _, want := range []string{"No controller leads", "c1  ", "  3     42       44", "DOWN   -", "no such file"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing:\n%s", want, stdout)
		}
	}
	if exit != 1 || !strings.Contains(stderr, "no controller leads yet") {
		t.Errorf("exit %d: %s", exit, stderr)
	}
	stdout, _, exit = typed(t, t.Context(), nil, "gcontrol status --json")
	var answer struct{ Status []statusRecord }
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || exit != 1 || len(answer.Status) != 1 {
		t.Fatalf("exit %d, %v:\n%s", exit, err, stdout)
	}
	if s := answer.Status[0]; s.Leader != "" || len(s.Pings) != 2 || s.Pings[1].Committed != 44 {
		t.Errorf("%+v", s)
	}

	stop()
	stdout, stderr, exit = typed(t, t.Context(), nil, "gcontrol status")
	if stdout != "" || exit != 1 || !strings.Contains(stderr, "Unable to contact slurm controller") {
		t.Errorf("exit %d: %s%s", exit, stdout, stderr)
	}
}

// TestStatusOfManyNodes: the worst come first and are shown, the rest counted.
func TestStatusOfManyNodes(t *testing.T) {
	stub := clienttest.StubCluster()
	stub.Health = clienttest.StubStatus(500)
	clienttest.ServeStub(t, stub)
	stdout, _, _ := typed(t, t.Context(), nil, "gcontrol status")
	at := 0
	for _, node := range []string{"x4", "x3", "x2", "x5", "x1", "n00", "n04", "and 495 more nodes (5 of all 505 need a look): --all shows them"} {
		found := strings.Index(stdout, "\n"+node)
		if found < at {
			t.Errorf("%s stands at %d, after %d", node, found, at)
		}
		at = found
	}
	if strings.Contains(stdout, "\nn05") {
		t.Error("more nodes are shown than fit a screen")
	}
	stdout, _, _ = typed(t, t.Context(), nil, "gcontrol status --all")
	if strings.Count(stdout, "\nn") != 500 || strings.Contains(stdout, "more nodes") {
		t.Errorf("--all does not show all:\n%.2000s", stdout)
	}
	stdout, _, _ = typed(t, t.Context(), nil, "gcontrol status --json")
	var answer struct{ Status []statusRecord }
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || len(answer.Status) != 1 {
		t.Fatalf("%v:\n%.2000s", err, stdout)
	}
	s := answer.Status[0]
	if len(s.Leases) != 505 || len(s.Peers) != 4 || s.Peers[1].Lag != 2 || s.Peers[2].Problem == "" || s.Jobs.Waiting != 12 || len(s.Problems) != 2 {
		t.Errorf("%+v", s)
	}
	if !slices.ContainsFunc(s.Leases, func(l leaseRow) bool { return l.FrozenAllocs == 2 }) {
		t.Error("frozen parts are missing")
	}
}
