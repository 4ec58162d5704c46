package doctor

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// TestWayOut: a host whose firewall drops what it forwards is told so, in a network of the
// test's own.
func TestWayOut(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs nft: it plays an administrator of the host's firewall")
	}
	config := func(text string) string {
		path := filepath.Join(t.TempDir(), "gnoded.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const node = "name = \"n1\"\n"
	const drops = "nft 'add table inet mine; add chain inet mine forward { type filter hook forward priority 0; policy drop; }'"
	for _, c := range []struct {
		before, config string
		status         finding.Status
		words          string
	}{
		{"true", node, finding.OK, "10.213.0.0/16"},
		{drops, node, finding.Warning, "its firewall drops what it forwards"},
		{drops, node + "[network]\nway_out = \"none\"\n", finding.OK, "way_out"},
	} {
		command := exec.Command("unshare", "--net", "sh", "-c", "ip link set lo up && "+c.before+" && exec \"$0\" \"$@\"", os.Args[0], wayOutWord, config(c.config))
		command.Stderr = os.Stderr
		out, err := command.Output()
		var found []finding.Finding
		if err == nil {
			err = json.Unmarshal(out, &found)
		}
		if err != nil || len(found) != 1 || found[0].Status != c.status || !strings.Contains(found[0].Seen, c.words) {
			t.Errorf("%s, %q: %+v, %v", c.before, c.config, found, err)
		}
	}
}
