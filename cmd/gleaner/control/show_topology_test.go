package control

import (
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestShowTopology: the eight nodes of Slurm's topology page, with one switch
// above the first two leaves and one above all.
func TestShowTopology(t *testing.T) {
	clienttest.FixTime(t)
	stub := clienttest.StubCluster()
	clienttest.ServeStub(t, stub)
	show := func(words string) (stdout, stderr string, status int) {
		t.Helper()
		return typed(t, t.Context(), nil, strings.TrimSpace("gcontrol show topology "+words))
	}
	if out, _, status := show(""); out != "No topology information available\n" || status != 0 {
		t.Errorf("without switches: %q, status %d", out, status)
	}
	stub.Policy = &pb.Policy{Switches: []*pb.Switch{
		{Name: "s0", Nodes: "tux[0-1]"}, {Name: "s1", Nodes: "tux[2-3]"}, {Name: "s2", Nodes: "tux[4-7]"},
		{Name: "s4", Switches: "s[0-1]"}, {Name: "s6", Switches: "s[2,4]"},
	}}
	lines := []string{
		"SwitchName=s0 Level=0 LinkSpeed=1 Nodes=tux[0-1]\n",
		"SwitchName=s1 Level=0 LinkSpeed=1 Nodes=tux[2-3]\n",
		"SwitchName=s2 Level=0 LinkSpeed=1 Nodes=tux[4-7]\n",
		"SwitchName=s4 Level=1 LinkSpeed=1 Nodes=tux[0-3] Switches=s[0-1]\n",
		"SwitchName=s6 Level=2 LinkSpeed=1 Nodes=tux[0-7] Switches=s[2,4]\n",
	}
	for words, want := range map[string]string{
		"":          strings.Join(lines, ""),
		"s4":        lines[3],
		"tux3":      lines[1] + lines[3] + lines[4],
		"tux[0,3]":  lines[3] + lines[4],
		"tux[0,4]":  lines[4],
		"s4 --json": "",
	} {
		out, stderr, status := show(words)
		if want == "" {
			want = out
			if !strings.Contains(out, `"level": 1`) && !strings.Contains(out, `"level":1`) || !strings.Contains(out, `"tux3"`) {
				t.Errorf("%s: %q", words, out)
			}
		}
		if out != want || status != 0 {
			t.Errorf("%q: %q, want %q; %s", words, out, want, stderr)
		}
	}
	if _, stderr, status := show("tux9"); status != 1 || !strings.Contains(stderr, "no switch or node named tux9") {
		t.Errorf("an unknown node: %q, status %d", stderr, status)
	}
	stub.Policy = &pb.Policy{Switches: []*pb.Switch{{Name: "a", Switches: "b"}, {Name: "b", Switches: "a,a,c"}}}
	if out, _, status := show(""); status != 0 || strings.Count(out, "SwitchName") != 2 {
		t.Errorf("a circle: %q, status %d", out, status)
	}
}
