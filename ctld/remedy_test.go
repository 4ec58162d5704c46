package ctld

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/replica"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestDamagedPeerRejoins: a controller with a damaged file stops with a message,
// the others continue, and what the message says brings it back. The first one,
// which has the authority, as well as one that joined.
func TestDamagedPeerRejoins(t *testing.T) {
	c := startCluster(t, 3)
	held := func(r *pb.SubmitRequest) { r.Spec.Hold = true }
	for range 5 {
		c.submit("c1", job(held))
	}
	for name, damage := range map[string]func(raft string) string{
		"c1": func(raft string) string { // a flipped bit
			path := filepath.Join(raft, "raft.db")
			flipOne(t, path, 24, 3)
			return path
		},
		"c3": func(raft string) string { // a snapshot that was cut off
			found, err := filepath.Glob(filepath.Join(raft, "snapshots", "*", "state.bin"))
			if err != nil || len(found) == 0 {
				t.Fatal("no snapshot", err)
			}
			newest := found[len(found)-1]
			if err := os.Truncate(newest, 100); err != nil {
				t.Fatal(err)
			}
			return filepath.Dir(newest)
		},
	} {
		if err := c.servers[name].cluster.peer.Snapshot(); err != nil {
			t.Fatal(err)
		}
		c.stop(name)
		path := damage(filepath.Join(c.configs[name].DataDir, "raft"))
		_, err := Start(c.configs[name], "test", slog.New(slog.DiscardHandler))
		if !errors.Is(err, replica.ErrDamaged) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "the cluster continues without this one") {
			t.Fatalf("%s: %v", name, err)
		}
		c.submit(c.other(name), job(held))

		_, rest, _ := strings.Cut(err.Error(), "it can rejoin: ")
		commands, rest, _ := strings.Cut(rest, "; start gctld as before with --join --name "+name+" added; on another controller gcontrol peer add ")
		address, _, _ := strings.Cut(rest, ". ")
		if address != name+" "+c.configs[name].PeerListen {
			t.Fatalf("the message %v names %q", err, address)
		}
		if out, err := exec.Command("sh", "-euc", commands).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", commands, err, out)
		}
		config := c.configs[name]
		config.Join, config.Certificates = true, ""
		c.configs[name] = config
		c.start(name)
		c.add(name)
		c.eventually(name+" has all", func() bool {
			return c.servers[name].cluster.View().Counts().Jobs == c.servers[c.other(name)].cluster.View().Counts().Jobs
		})
	}
}
