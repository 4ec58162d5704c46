package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/finding"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want looks for a finding of the check with a status and words in all that it
// says.
func want(t *testing.T, found []finding.Finding, check string, status finding.Status, words ...string) {
	t.Helper()
	for _, f := range found {
		if bad := f.Status == finding.Failed || f.Status == finding.Warning; bad != (f.Fix != "") || bad != (f.Means != "") || f.Seen == "" {
			t.Errorf("a finding without what it needs: %+v", f)
		}
		text, all := f.Seen+"\n"+f.Means+"\n"+f.Fix, true
		for _, word := range words {
			all = all && strings.Contains(text, word)
		}
		if f.Check == check && f.Status == status && all {
			return
		}
	}
	t.Errorf("no %q, %s, %q among %+v", check, status, words, found)
}

// script makes a program.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	return path
}

// A daemon's program may answer as it likes.
func TestAskProgram(t *testing.T) {
	report := finding.Report{Host: finding.Host{Role: finding.Node, Name: "n1"}, Findings: []finding.Finding{finding.Good("x", "y")}}
	text, err := json.Marshal(report)
	must(t, err)
	for _, more := range []string{"", "exec sleep 600"} { // it need not end
		got, err := askProgram(t.Context(), script(t, "echo '"+string(text)+"'\n"+more), nil)
		if err != nil || got.Host.Name != "n1" || len(got.Findings) != 1 {
			t.Errorf("%q: %+v, %v", more, got, err)
		}
	}
	for name, c := range map[string]struct{ script, want string }{
		"old": {"echo unknown command >&2; exit 1", "unknown command"}, "silent": {"true", "EOF"},
		"garbage": {"echo no JSON", "invalid character"}, "endless": {"yes '[[[' | head -c 9000000", "cannot unmarshal"},
	} {
		if _, err := askProgram(t.Context(), script(t, c.script), nil); err == nil || !strings.Contains(err.Error(), c.want) && name != "endless" {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := askProgram(ctx, script(t, "exec sleep 600"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("one that hangs: %v", err)
	}
}

func TestFindSites(t *testing.T) {
	for _, c := range []struct {
		o    examination
		want string
	}{
		{examination{Config: "/x/gnoded-1.toml"}, "node /x/gnoded-1.toml"},
		{examination{Config: "/x/gctld.toml"}, "controller /x/gctld.toml"},
		{examination{Config: "/x/mine.toml", Roles: []string{"node"}}, "node /x/mine.toml"},
		{examination{Config: "/x/mine.toml"}, "bad options"},
		{examination{Config: "/x/mine.toml", Roles: []string{"node", "controller"}}, "bad options"},
		{examination{Config: "/x/mine.toml", Roles: []string{userRole}}, "bad options"},
		{examination{Roles: []string{userRole}}, "user "},
	} {
		sites, _, err := findSites(c.o)
		got := fmt.Sprint(err)
		if err == nil {
			got = sites[0].role + " " + sites[0].config
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v: %s", c.o, got)
		}
	}
}

// Processes as /proc shows them.
func TestDaemons(t *testing.T) {
	proc := t.TempDir()
	for pid, words := range map[string][]string{
		"10": {"/usr/local/sbin/gnoded", "--config", "/etc/gleaner/gnoded.toml"},
		"9":  {"gctld", "--join", "--listen=0.0.0.0:1", "-config=c.toml"},
		"11": {"/usr/local/sbin/gnoded", "shim", "/var/lib/gleaner/noded/jobs/1.1"},
		"12": {"gctld", "--config", "/x", "cert", "--out", "y"},
		"13": {"vim", "gctld"}, "14": {""}, "self": {"gctld"},
	} {
		must(t, os.MkdirAll(filepath.Join(proc, pid), 0o755))
		must(t, os.WriteFile(filepath.Join(proc, pid, "cmdline"), []byte(strings.Join(words, "\x00")+"\x00"), 0o644))
	}
	must(t, os.Symlink("/home/ann", filepath.Join(proc, "9", "cwd")))
	got := fmt.Sprint(daemons(proc))
	if got != "[{9 gctld /home/ann/c.toml} {10 gnoded /etc/gleaner/gnoded.toml}]" {
		t.Error(got)
	}
}

func TestListening(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	s := &site{role: finding.Node, running: os.Getpid()}
	want(t, s.checkListening(t.Context()), "listening", finding.Failed, "tcp port "+port, "dial out only")
	must(t, listener.Close())
	want(t, s.checkListening(t.Context()), "listening", finding.OK)
	if files, err := openFiles(os.Getpid()); err != nil || files == 0 {
		t.Errorf("open files: %d, %v", files, err)
	}
	want(t, (&site{role: finding.Controller}).checkProcess(t.Context()), "gctld", finding.Warning, "does not run", "systemctl start gctld")
}

func TestUnit(t *testing.T) {
	for shown, c := range map[string]struct {
		status finding.Status
		word   string
	}{
		"LoadState=not-found\nUnitFileState=\nActiveState=inactive\n":     {finding.Warning, "contrib/systemd/gnoded.service"},
		"LoadState=loaded\nUnitFileState=enabled\nActiveState=failed\n":   {finding.Warning, "is failed"},
		"LoadState=loaded\nUnitFileState=disabled\nActiveState=active\n":  {finding.Warning, "systemctl enable gnoded.service"},
		"LoadState=loaded\nUnitFileState=enabled\nActiveState=active\n\n": {finding.OK, ""},
	} {
		want(t, []finding.Finding{judgeUnit("gnoded unit", "gnoded.service", shown)}, "gnoded unit", c.status, c.word)
	}
}

func TestSeveralNodes(t *testing.T) {
	sites := []*site{{role: finding.Node}, {role: finding.Node}, {role: finding.Controller}}
	found := []finding.Finding{finding.Good("kernel", "new")}
	if got := mark(found, sites, finding.Controller, "c1"); got[0].Check != "kernel" {
		t.Errorf("%+v", got)
	}
	if got := mark(found, sites, finding.Node, "n2"); got[0].Check != "node n2: kernel" {
		t.Errorf("%+v", got)
	}
	twice := once([]finding.Finding{finding.Good("a", "b"), finding.Good("c", "d"), finding.Good("a", "b")})
	if len(twice) != 2 {
		t.Errorf("%+v", twice)
	}
}
