package pki

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/dial"
)

func bundleOf(t *testing.T, a *Authority, kind Kind, name string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	if err := a.WriteBundle(kind, name, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestJoinedController: with what was issued to it a controller serves clients
// and nodes and speaks with others, and issues nothing.
func TestJoinedController(t *testing.T) {
	first := open(t, t.TempDir())
	dir := filepath.Join(t.TempDir(), "pki")
	name, err := Install(bundleOf(t, first, Controller, "c2"), dir)
	if err != nil || name != "c2" || Name(dir) != "c2" || !Present(dir) {
		t.Fatalf("installed as %q, %q: %v", name, Name(dir), err)
	}
	joined := open(t, dir)
	if info, err := os.Stat(filepath.Join(dir, "key.pem")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its key: %v, %v", info.Mode(), err)
	}
	_, _, err = joined.Issue(Node, "n1")
	if host, _ := os.Hostname(); !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), host) || !strings.Contains(err.Error(), first.path("ca-key.pem")) {
		t.Errorf("issue on a controller that joined: %v", err)
	}
	server, err := joined.ServerConfig("c2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shake(t, server, clientConfig(first, issue(t, first, Node, "n1"))); err != nil {
		t.Errorf("a node of the cluster: %v", err)
	}
	mine, mineClient, err := joined.PeerConfigs("c2")
	if err != nil {
		t.Fatal(err)
	}
	theirs, theirClient, err := first.PeerConfigs("c1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shake(t, mine, theirClient); err != nil {
		t.Errorf("from the first to it: %v", err)
	}
	if _, err := shake(t, theirs, mineClient); err != nil {
		t.Errorf("from it to the first: %v", err)
	}
	if _, err := joined.ServerConfig("c3"); !errors.Is(err, ErrAuthority) || !strings.Contains(err.Error(), "--name c2") {
		t.Errorf("under another name: %v", err)
	}
	conn, err := dial.Dial([]string{"localhost:1"}, dir)
	if err != nil {
		t.Errorf("what it has is no bundle for package dial: %v", err)
	} else {
		_ = conn.Close()
	}
}

func TestInstallRefuses(t *testing.T) {
	first, other := open(t, t.TempDir()), open(t, t.TempDir())
	dir := filepath.Join(t.TempDir(), "pki")
	mixed := bundleOf(t, first, Controller, "c2")
	if err := os.WriteFile(filepath.Join(mixed, "ca.pem"), other.pem, 0o600); err != nil {
		t.Fatal(err)
	}
	incomplete := bundleOf(t, first, Controller, "c2")
	if err := os.Remove(filepath.Join(incomplete, "key.pem")); err != nil {
		t.Fatal(err)
	}
	for from, remedy := range map[string]string{
		bundleOf(t, first, Node, "c2"):   "issued-on",
		mixed:                            "not issued by the authority",
		incomplete:                       "key.pem",
		filepath.Join(dir, "not", "one"): "no such file",
	} {
		if _, err := Install(from, dir); !errors.Is(err, ErrAuthority) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s: %v", remedy, err)
		}
		if Present(dir) {
			t.Fatalf("%s: something was installed", remedy)
		}
	}
	if _, err := Install(bundleOf(t, first, Controller, "c2"), dir); err != nil {
		t.Fatal(err)
	}
	was, err := open(t, dir).own("c2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Install(bundleOf(t, first, Controller, "c2"), dir); err != nil {
		t.Errorf("a newer one of the same controller: %v", err)
	}
	if is, err := open(t, dir).own("c2"); err != nil || is.Leaf.Equal(was.Leaf) {
		t.Errorf("the newer one was not taken: %v", err)
	}
	for what, from := range map[string]string{"another name": bundleOf(t, first, Controller, "c3"), "another cluster": bundleOf(t, other, Controller, "c2")} {
		if _, err := Install(from, dir); !errors.Is(err, ErrAuthority) || !strings.Contains(err.Error(), "empty the data directory") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := Install(bundleOf(t, first, Controller, "c2"), first.dir); !errors.Is(err, ErrAuthority) {
		t.Errorf("into the authority's own directory: %v", err)
	}
}
