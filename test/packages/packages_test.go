// Package packages looks at the Debian packages that make deb makes: what is in them,
// whose it is, and what their scripts may do. make packages installs them in a clean
// Debian (clean-root.sh).
package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// holds are what each package must have.
var holds = map[string][]string{
	"gleaner-ctld": {"/usr/sbin/gctld", "/usr/lib/systemd/system/gctld.service", "/usr/share/man/man8/gctld.8.gz",
		"/etc/gleaner/gctld.toml", "/etc/gleaner/cluster.toml", "/etc/logrotate.d/gleaner-ctld"},
	"gleaner-node": {"/usr/sbin/gnoded", "/usr/sbin/ginit", "/usr/lib/systemd/system/gnoded.service", "/usr/share/man/man8/gnoded.8.gz",
		"/etc/gleaner/gnoded.toml", "/usr/share/gleaner/setup/criu.sh"},
	"gleaner-client": {"/etc/gleaner/agent.toml", "/etc/gleaner/client.toml", "/usr/lib/systemd/system/gleaner-agent.service", "/usr/bin/gleaner", "/usr/bin/gsubmit", "/usr/bin/gdoctor", "/usr/lib/gleaner/slurm/sbatch", "/usr/share/man/man1/gsubmit.1.gz",
		"/usr/share/bash-completion/completions/gsubmit", "/usr/share/zsh/vendor-completions/_gleaner", "/usr/share/fish/vendor_completions.d/gsubmit.fish"},
}

// TestPackages makes the packages, without compressing them, and opens them.
func TestPackages(t *testing.T) {
	if _, err := os.Stat("../../bin/gctld"); err != nil {
		t.Skip("needs the programs that it packs: make build")
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("needs dpkg-deb: it makes and opens packages")
	}
	out := t.TempDir()
	architecture := strings.TrimSpace(output(t, "dpkg", "--print-architecture"))
	command := exec.Command("../../contrib/package/deb.sh", architecture, "../../bin", out)
	command.Env = append(os.Environ(), "VERSION=1.2", "COMPRESS=-Znone")
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	owner := make(map[string]string) // of each file: the package
	for name, files := range holds {
		path := filepath.Join(out, name+"_1.2_"+architecture+".deb")
		t.Run(name, func(t *testing.T) { checkPackage(t, path, files) })
		for _, file := range contents(t, path) {
			if other := owner[file.path]; other != "" && !file.directory {
				t.Errorf("%s is in %s and in %s", file.path, other, name)
			}
			owner[file.path] = name
		}
	}
}

func checkPackage(t *testing.T, path string, wanted []string) {
	files := contents(t, path)
	for _, want := range wanted {
		if !slices.ContainsFunc(files, func(f file) bool { return f.path == want }) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, f := range files {
		switch {
		case f.owner != "root/root":
			t.Errorf("%s belongs to %s", f.path, f.owner)
		case f.mode[0] != 'l' && (f.mode[5] == 'w' || f.mode[8] == 'w'):
			t.Errorf("%s has mode %s: others may write it", f.path, f.mode)
		case strings.ContainsAny(f.mode, "sS"):
			t.Errorf("%s has mode %s: nothing of Gleaner needs that", f.path, f.mode)
		case strings.HasPrefix(f.path, "/usr/local/"):
			t.Errorf("%s: /usr/local is the administrator's", f.path)
		}
	}
	checkControl(t, path, files)
}

// checkControl looks at what dpkg reads and runs.
func checkControl(t *testing.T, path string, files []file) {
	control := t.TempDir()
	output(t, "dpkg-deb", "--control", path, control)
	conffiles, _ := os.ReadFile(filepath.Join(control, "conffiles"))
	for _, f := range files {
		if strings.HasPrefix(f.path, "/etc/") && !f.directory && !strings.Contains("\n"+string(conffiles), "\n"+f.path+"\n") {
			t.Errorf("%s is no conffile: an upgrade would overwrite what the administrator wrote", f.path)
		}
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		text, err := os.ReadFile(filepath.Join(control, script))
		if err != nil {
			continue
		}
		output(t, "sh", "-n", filepath.Join(control, script))
		for line := range strings.Lines(string(text)) {
			if removes := regexp.MustCompile(`\brm -r`); removes.MatchString(line) && !strings.Contains(line, "--one-file-system") {
				t.Errorf("%s may remove what is mounted: %s", script, line)
			}
		}
		if strings.Contains(string(text), "systemctl") && !strings.Contains(string(text), "-d /run/systemd/system") {
			t.Errorf("%s asks systemd where it may not run", script)
		}
	}
	if text := output(t, "dpkg-deb", "--field", path, "Depends"); strings.Contains(text, "@") || strings.Contains(text, "(>= )") {
		t.Errorf("depends on %s", text)
	}
}

// TestUnitsStartWhatIsPacked: a unit of a package starts a program of that package.
func TestUnitsStartWhatIsPacked(t *testing.T) {
	for name, files := range holds {
		for _, f := range files {
			unit, ok := strings.CutSuffix(filepath.Base(f), ".service")
			if ok && unit != "gleaner-agent" && !slices.Contains(files, "/usr/sbin/"+unit) {
				t.Errorf("%s has the unit of %s and not the program", name, unit)
			}
		}
	}
}

type file struct {
	mode, owner, path string
	directory         bool
}

// contents are the files of a package, as dpkg-deb lists them.
func contents(t *testing.T, path string) (files []file) {
	t.Helper()
	for line := range strings.Lines(output(t, "dpkg-deb", "--contents", path)) {
		words := strings.Fields(line)
		if len(words) < 6 {
			t.Fatalf("dpkg-deb lists %q", line)
		}
		name := strings.TrimPrefix(words[5], ".")
		files = append(files, file{words[0], words[1], strings.TrimSuffix(name, "/"), strings.HasSuffix(name, "/")})
	}
	return files
}

func output(t *testing.T, name string, words ...string) string {
	t.Helper()
	text, err := exec.Command(name, words...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(words, " "), err, text)
	}
	return string(text)
}
