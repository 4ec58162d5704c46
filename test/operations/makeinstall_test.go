package operations

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMakeInstall: make install puts everything below DESTDIR and PREFIX, where a
// shell, man and systemd look for it, and make uninstall takes all of it away.
func TestMakeInstall(t *testing.T) {
	if _, err := os.Stat("../../bin/gctld"); err != nil {
		t.Skip("needs the programs that it installs: make build")
	}
	root := filepath.Join(t.TempDir(), "root")
	run := func(target string) {
		make := exec.Command("make", "-C", "../..", target, "DESTDIR="+root, "PREFIX=/usr")
		if out, err := make.CombinedOutput(); err != nil {
			t.Fatalf("make %s: %v\n%s", target, err, out)
		}
	}
	run("install")
	files := filesBelow(t, root)
	for _, want := range []string{
		"usr/sbin/gctld", "usr/sbin/gnoded", "usr/sbin/ginit", "usr/bin/gleaner", "usr/bin/gsubmit", "usr/bin/gdoctor",
		"usr/share/man/man1/gsubmit.1", "usr/share/bash-completion/completions/gsubmit", "usr/share/zsh/site-functions/_gleaner",
		"usr/share/fish/vendor_completions.d/gsubmit.fish", "usr/share/doc/gleaner/cluster.toml", "usr/lib/systemd/system/gnoded.service",
	} {
		if !slices.Contains(files, want) {
			t.Errorf("%s is not installed", want)
		}
	}
	if out, err := exec.Command(filepath.Join(root, "usr/bin/gsubmit"), "--version").CombinedOutput(); err != nil {
		t.Errorf("gsubmit --version: %v\n%s", err, out)
	}
	for _, unit := range []string{"gctld", "gnoded"} {
		text, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system", unit+".service"))
		if err != nil || !strings.Contains(string(text), "ExecStart=/usr/sbin/"+unit+" ") {
			t.Errorf("the unit of %s starts another program: %v\n%s", unit, err, text)
		}
	}
	run("uninstall")
	if left := filesBelow(t, root); len(left) > 0 {
		t.Errorf("make uninstall leaves %v", left)
	}
}

// filesBelow are the files and links below a directory.
func filesBelow(t *testing.T, root string) (files []string) {
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
