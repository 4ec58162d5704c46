package noded

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// runWaiting starts a program that waits for its input to end, and answers its id.
func runWaiting(t *testing.T, command *exec.Cmd) int {
	t.Helper()
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = command.Wait()
	})
	return command.Process.Pid
}

// copyOf copies a program to where it has another name.
func copyOf(t *testing.T, program, to string) string {
	t.Helper()
	from, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := io.Copy(file, from); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestForeignByName: whoever takes the name of one of ours, or of the driver's, stays
// foreign; this program is not.
func TestForeignByName(t *testing.T) {
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	var foreign []int
	for _, name := range []string{"gnoded", "ginit", "nvidia-persistenced", "nv-hostengine"} {
		foreign = append(foreign, runWaiting(t, exec.Command(copyOf(t, cat, filepath.Join(t.TempDir(), name)))))
	}
	pids, err := foreignPIDs("/gleaner-nowhere/n1")
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range foreign {
		if !slices.Contains(pids, pid) {
			t.Errorf("process %d only has the name of one of ours, and is not looked at", pid)
		}
	}
	if slices.Contains(pids, os.Getpid()) {
		t.Error("this program counts as a foreign one")
	}
}

// TestForeignExecutable: the file that is executed decides, and who runs it.
func TestForeignExecutable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it runs programs as two users")
	}
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	for dir := directory; dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // others have to reach the program
			t.Fatal(err)
		}
	}
	program := copyOf(t, cat, filepath.Join(directory, "daemon"))
	o, err := newOurs("/gleaner-nowhere/n1")
	if err != nil {
		t.Fatal(err)
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(program, &stat); err != nil {
		t.Fatal(err)
	}
	o.program, o.file = program, fileID{stat.Dev, stat.Ino}
	roots := runWaiting(t, exec.Command(program))
	users := exec.Command(program)
	users.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	usersPID := runWaiting(t, users)
	want := func(when string, pid int, foreign bool) {
		t.Helper()
		if got := o.isForeign(filepath.Join("/proc", strconv.Itoa(pid))); got != foreign {
			t.Errorf("%s: foreign %v, want %v", when, got, foreign)
		}
	}
	want("root runs it", roots, false)
	want("a user runs it", usersPID, true)
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	o.file = fileID{}
	want("root has run it since before an upgrade", roots, false)
	want("a user has", usersPID, true)
	o.mounts = "mnt:[1]"
	want("it was at that path of another mount namespace", roots, true)
}

// TestInGroups: a job's group counts in any hierarchy, of this node and of the others of
// this machine; a group that is only called like it does not.
func TestInGroups(t *testing.T) {
	for lines, want := range map[string]bool{
		"5:devices:/gleaner/n1/7.1\n0::/\n":               true,
		"0::/gleaner/n2/7.1/steps\n":                      true,
		"0::/user.slice/gleaner/n1/7.1\n":                 false,
		"0::/gleaner\n":                                   false,
		"0::/gleanerish/n1\n":                             false,
		"3:name=gleaner:/user.slice\n0::/a:/gleaner/n1\n": false,
		"": false,
	} {
		if got := inGroups([]byte(lines), groupsOf("/gleaner/n1")); got != want {
			t.Errorf("%q: %v, want %v", lines, got, want)
		}
	}
	if got := groupsOf("/jobs"); got != "/jobs" {
		t.Errorf("all below %s count as jobs", got)
	}
}
