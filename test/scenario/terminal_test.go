package scenario

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/console"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// Somebody who sits at a terminal.
func init() {
	commands["terminal"] = startTerminal
	commands["type"] = typeText
	commands["shows"] = shows
	commands["leaves"] = leaves
	commands["resize"] = resizeTerminal
}

// userTerminal is a program at a terminal.
type userTerminal struct {
	master  console.Console
	command *exec.Cmd
	over    chan struct{} // closed when the program has ended

	mu     sync.Mutex
	screen string // all that was shown and not looked for yet
	eof    bool
}

var (
	terminalsMu sync.Mutex
	terminals   = map[string]*userTerminal{}
)

func terminalOf(ts *testscript.TestScript, name string) *userTerminal {
	terminalsMu.Lock()
	defer terminalsMu.Unlock()
	t := terminals[ts.Getenv("STORY")+"/"+name]
	if t == nil {
		ts.Fatalf("no terminal is called %q", name)
	}
	return t
}

// startTerminal is `terminal NAME PROGRAM…`.
func startTerminal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: terminal NAME PROGRAM...")
	}
	master, path, err := console.NewPty()
	ts.Check(err)
	ts.Check(master.Resize(console.WinSize{Height: 30, Width: 100}))
	theirs, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	ts.Check(err)
	defer theirs.Close()
	program, err := lookPath(args[1], ts.Getenv("PATH"))
	ts.Check(err)
	command := exec.Command(program, args[2:]...)
	for _, name := range []string{"PATH", "GLEANER_CONTROLLER", "GLEANER_NODED", "GLEANER_TLS_DIR", "STORY", "ALICE", "BOB", "CLUSTER"} {
		command.Env = append(command.Env, name+"="+ts.Getenv(name))
	}
	command.Env = append(command.Env, "TERM=dumb", "PS1=$ ")
	command.Dir = ts.MkAbs(".")
	command.Stdin, command.Stdout, command.Stderr = theirs, theirs, theirs
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	ts.Check(prototest.StartTied(command))
	t := &userTerminal{master: master, command: command, over: make(chan struct{})}
	go t.read()
	go func() { defer close(t.over); _ = command.Wait() }()
	terminalsMu.Lock()
	defer terminalsMu.Unlock()
	terminals[ts.Getenv("STORY")+"/"+args[0]] = t
	ts.Defer(func() {
		_ = command.Process.Kill()
		<-t.over
		_ = master.Close()
	})
}

func (t *userTerminal) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := t.master.Read(buffer)
		t.mu.Lock()
		t.screen += string(buffer[:n])
		t.eof = err != nil
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// typeText is `type NAME TEXT`, with \n for the return key and \xNN for others.
func typeText(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: type NAME TEXT")
	}
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(args[1], `"`, `\"`) + `"`)
	ts.Check(err)
	_, err = terminalOf(ts, args[0]).master.Write([]byte(text))
	ts.Check(err)
}

// shows is `shows NAME PATTERN`: waits until the screen has it. What is before
// its end is not looked at again.
func shows(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: shows NAME PATTERN")
	}
	t, pattern := terminalOf(ts, args[0]), regexp.MustCompile(args[1])
	deadline := time.Now().Add(patience(30 * time.Second))
	for {
		t.mu.Lock()
		place := pattern.FindStringIndex(t.screen)
		screen, eof := t.screen, t.eof
		if place != nil {
			t.screen = t.screen[place[1]:]
		}
		t.mu.Unlock()
		if place != nil {
			ts.Logf("%s shows %q", args[0], screen[:place[1]])
			return
		}
		if eof || time.Now().After(deadline) {
			ts.Fatalf("%s does not show %q but %q", args[0], args[1], screen)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// leaves is `leaves NAME [STATUS]`: waits until the program has ended, so.
func leaves(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: leaves NAME [STATUS]")
	}
	t, want := terminalOf(ts, args[0]), 0
	if len(args) == 2 {
		var err error
		want, err = strconv.Atoi(args[1])
		ts.Check(err)
	}
	select {
	case <-t.over:
	case <-time.After(patience(30 * time.Second)):
		t.mu.Lock()
		defer t.mu.Unlock()
		ts.Fatalf("%s does not end; it shows %q", args[0], t.screen)
	}
	if got := t.command.ProcessState.ExitCode(); got != want {
		t.mu.Lock()
		defer t.mu.Unlock()
		ts.Fatalf("%s ended with %d, not %d; it shows %q", args[0], got, want, t.screen)
	}
}

// resizeTerminal is `resize NAME ROWS COLUMNS`.
func resizeTerminal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: resize NAME ROWS COLUMNS")
	}
	rows, err := strconv.ParseUint(args[1], 10, 16)
	columns, columnsErr := strconv.ParseUint(args[2], 10, 16)
	ts.Check(errors.Join(err, columnsErr))
	ts.Check(terminalOf(ts, args[0]).master.Resize(console.WinSize{Height: uint16(rows), Width: uint16(columns)}))
}
