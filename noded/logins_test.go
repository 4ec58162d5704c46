package noded

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLoginsNow: a login that this machine knows, at a terminal that is used, counts until it
// ends. The machine's own programs see the same.
func TestLoginsNow(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: it logs somebody in")
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("needs terminals: ", err)
	}
	defer terminal.Close()
	number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	line, name := fmt.Sprint("pts/", number), fmt.Sprint("gleaner", os.Getpid())
	used := func(at time.Time) {
		t.Helper()
		if err := os.Chtimes("/dev/"+line, at, at); err != nil {
			t.Fatal(err)
		}
	}
	used(time.Now())
	if sight := loginsNow([]string{name}); sight.Seen {
		t.Fatalf("before the login: %+v", sight)
	}
	_, missing := os.Stat(loginsFile)
	file, err := os.OpenFile(loginsFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(login(userProcess, line, name)); err != nil {
		t.Fatal(err)
	}
	defer func() { // nobody else logs in here meanwhile
		info, err := file.Stat()
		if missing != nil {
			err = os.Remove(loginsFile)
		} else if err == nil {
			err = os.Truncate(loginsFile, info.Size()-loginBytes)
		}
		if err != nil {
			t.Error(err)
		}
	}()
	if sight := loginsNow([]string{name}); !sight.Seen || sight.By != name || sight.Detail != "on "+line {
		t.Errorf("%s is logged in: %+v", name, sight)
	}
	if said, err := exec.Command("who", loginsFile).Output(); err == nil && !strings.Contains(string(said), name) {
		t.Errorf("the machine's own program sees others: %q", said)
	}
	if sight := loginsNow([]string{"x" + name}); sight.Seen {
		t.Errorf("somebody else is logged in: %+v", sight)
	}
	used(time.Now().Add(-2 * activeFor))
	if sight := loginsNow([]string{name}); sight.Seen {
		t.Errorf("nobody has typed for long: %+v", sight)
	}
}
