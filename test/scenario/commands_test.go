package scenario

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// asScript runs a command as one of the test's users, in the user's own
// folder for this story.
const asScript = `#!/bin/sh
user=$1; shift
cd "/home/$user/$STORY" || exit 1
exec setpriv --reuid "$user" --regid "$user" --init-groups env HOME="/home/$user" USER="$user" LOGNAME="$user" SHELL=/bin/bash "$@"
`

// setUp prepares the environment of one story: $STORY is its name, /home/USER/$STORY
// a folder of each user for it, and the files of the story lie there too.
func setUp(env *testscript.Env, binaries string) error {
	story := filepath.Base(env.WorkDir)
	tools := filepath.Join(env.WorkDir, ".tools")
	if err := os.Mkdir(tools, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tools, "as"), []byte(asScript), 0o755); err != nil {
		return err
	}
	for _, u := range users {
		if err := giveFiles(env.WorkDir, filepath.Join("/home", u.name, story), u); err != nil {
			return err
		}
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	env.Setenv("PORT", port)
	env.Setenv("STORY", story)
	env.Setenv("ROUNDS", strconv.Itoa(prototest.Soak(8, 300))) // of stories that do something again and again
	env.Setenv("ALICE", filepath.Join("/home/alice", story))
	env.Setenv("BOB", filepath.Join("/home/bob", story))
	env.Setenv("PATH", tools+":"+binaries+":/usr/sbin:/usr/bin:/sbin:/bin")
	return nil
}

// freePort is a port of the loopback address that nobody listened on just now.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

// giveFiles copies the story's own files into a user's folder.
func giveFiles(from, to string, u user) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(from, entry.Name()))
		if err != nil {
			return err
		}
		target := filepath.Join(to, entry.Name())
		if err := os.WriteFile(target, text, 0o644); err != nil {
			return err
		}
		if err := os.Chown(target, u.id, u.id); err != nil {
			return err
		}
	}
	return os.Chown(to, u.id, u.id)
}

var commands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"cluster": startCluster,
	"capture": capture,
	"waitjob": waitJob,
	"retry":   retry,
	"kill9":   kill9,
	"waitup":  waitUp,
	"storm":   storm,
	"node":    startNode,
	"machine": machine,
}

// startCluster is `cluster [flags of gleaner dev]`: starts a cluster for this
// story, and at the story's end stops it and looks for what it left.
func startCluster(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! cluster")
	}
	directory, err := os.MkdirTemp("/var/tmp", "gl-")
	ts.Check(err)
	ts.Check(os.Chmod(directory, 0o755))
	program, err := lookPath("gleaner", ts.Getenv("PATH"))
	ts.Check(err)
	command := exec.Command(program, append([]string{"dev", "--dir", directory}, args...)...)
	// Several stories share the processors: daemons that each keep threads for all of them
	// spend a fifth more thread switches, and small heaps are collected often: a tenth of all.
	// Chaos and the runbook leave both to the daemons, and so may a story.
	command.Env = []string{"PATH=" + ts.Getenv("PATH"), "GOMAXPROCS=1", "GOGC=" + cmp.Or(ts.Getenv("GOGC"), "400")}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := command.StdoutPipe()
	ts.Check(err)
	command.Stderr = command.Stdout
	ts.Check(prototest.StartTied(command))

	ready := make(chan bool, 1)
	log := &strings.Builder{}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			log.WriteString(lines.Text() + "\n")
			if lines.Text() == "ready" {
				ready <- true
			}
		}
		close(ready)
	}()
	ts.Defer(func() { stopCluster(ts, command, directory, drained, log) })
	select {
	case ok := <-ready:
		if !ok {
			ts.Fatalf("the cluster did not start")
		}
	case <-time.After(patience(60 * time.Second)):
		ts.Fatalf("the cluster was not ready in %v", patience(60*time.Second))
	}
	ts.Setenv("CLUSTER", directory)
	sockets, err := filepath.Glob(filepath.Join(directory, "gctld*.sock"))
	ts.Check(err)
	for i, socket := range sockets {
		sockets[i] = "unix://" + socket
	}
	ts.Setenv("GLEANER_CONTROLLER", strings.Join(sockets, ","))
	ts.Setenv("GLEANER_NODED", "unix://"+filepath.Join(directory, "nodes", "%n", "gnoded.sock"))
}

func lookPath(program, path string) (string, error) {
	for _, directory := range filepath.SplitList(path) {
		candidate := filepath.Join(directory, program)
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("%s: not in %s", program, path)
}

// complaints are what was found after a story had ended, when the story itself
// can no longer fail.
type complaints struct {
	mutex sync.Mutex
	texts []string
}

var unclean complaints

func (c *complaints) add(format string, args ...any) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.texts = append(c.texts, fmt.Sprintf(format, args...))
}

// stopCluster ends the cluster and complains when anything is left.
func stopCluster(ts *testscript.TestScript, command *exec.Cmd, directory string, drained chan struct{}, log *strings.Builder) {
	_ = command.Process.Signal(syscall.SIGTERM)
	select {
	case <-drained:
	case <-time.After(patience(90 * time.Second)):
		_ = command.Process.Kill()
		<-drained
		ts.Logf("the cluster did not end in %v and was killed", patience(90*time.Second))
	}
	err := command.Wait()
	ts.Logf("cluster in %s: %v\n%s", directory, err, log)
	left := leftOvers(directory)
	showLogs(ts, directory)
	if err != nil || len(left) > 0 {
		unclean.add("%s: after the cluster's end: %v; left over: %q; it said:\n%s", ts.Name(), err, left, log)
	}
	if err := removeAll(directory); err != nil {
		unclean.add("%s: remove %s: %v", ts.Name(), directory, err)
	}
}

// showLogs puts the end of each daemon's log next to the story, for readers of
// a failed story.
func showLogs(ts *testscript.TestScript, directory string) {
	logs, _ := filepath.Glob(filepath.Join(directory, "*.log"))
	for _, path := range logs {
		text, _ := os.ReadFile(path)
		ts.Logf("--- %s\n%s", filepath.Base(path), text[max(0, len(text)-4000):])
	}
}

// capture is `capture NAME`: puts the last command's output into a variable.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: capture NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// waitJob is `waitjob JOB STATE [seconds]`: waits until every task of the job
// is in the state, and fails at once when one ended in another.
func waitJob(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: waitjob JOB STATE [seconds]")
	}
	seconds := 60
	if len(args) == 3 {
		n, err := strconv.Atoi(args[2])
		ts.Check(err)
		seconds = n
	}
	var states string
	deadline := time.Now().Add(patience(time.Duration(seconds) * time.Second))
	for time.Now().Before(deadline) {
		asked := time.Now()
		out, err := quietly(ts, "gqueue", "--noheader", "--states=all", "--array", "--jobs="+args[0], "--format=%T %r")
		ts.Check(err)
		states = strings.TrimSpace(out)
		reached, missed := compare(states, args[1])
		if reached {
			return
		}
		if missed {
			break
		}
		askAgain(asked)
	}
	out, _ := quietly(ts, "gcontrol", "show", "job", args[0])
	ts.Fatalf("job %s is not %s (waited up to %v) but:\n%s\n%s", args[0], args[1], patience(time.Duration(seconds)*time.Second), states, out)
}

// quietly runs a program without a line in the story's log, for what is asked
// again and again.
func quietly(ts *testscript.TestScript, program string, args ...string) (string, error) {
	path, err := lookPath(program, ts.Getenv("PATH"))
	if err != nil {
		return "", err
	}
	command := exec.Command(path, args...)
	command.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "GLEANER_CONTROLLER", "GLEANER_NODED", "GLEANER_TLS_DIR", "STORY", "ALICE", "BOB", "CLUSTER"} {
		command.Env = append(command.Env, name+"="+ts.Getenv(name))
	}
	var complaint strings.Builder
	command.Stderr = &complaint
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", program, strings.Join(args, " "), err, out, &complaint)
	}
	return string(out), err
}

// compare reports whether every task has reached the wanted state, and whether
// one has ended in another.
func compare(states, wanted string) (reached, missed bool) {
	reached = states != ""
	for line := range strings.Lines(states) {
		state, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		reached = reached && state == wanted
		missed = missed || state != wanted && slices.Contains(finalStates, state)
	}
	return reached, missed
}

var finalStates = []string{"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}

// retry is `retry SECONDS COMMAND…`: runs the command until it succeeds.
func retry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: retry SECONDS COMMAND...")
	}
	seconds, err := strconv.Atoi(args[0])
	ts.Check(err)
	deadline := time.Now().Add(patience(time.Duration(seconds) * time.Second))
	for {
		asked := time.Now()
		_, err := quietly(ts, args[1], args[2:]...)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%v", err)
		}
		askAgain(asked)
	}
}

// leastPatience is how long is waited for what has to come, at the least: no
// story fails because a machine is slow.
const leastPatience = 2 * time.Minute

// patience is how long is waited for what takes d at most on a machine that does
// nothing else. GLEANER_SCENARIO_PATIENCE is a factor for machines that are much
// slower than others.
func patience(d time.Duration) time.Duration {
	if factor, err := strconv.Atoi(os.Getenv("GLEANER_SCENARIO_PATIENCE")); err == nil && factor > 1 {
		d *= time.Duration(factor)
	}
	return max(d, leastPatience)
}

// askAgain waits before the next of many questions. Several stories ask at once, and
// the asking must not take the time of what is asked about: it takes a seventh of
// each story's at most.
func askAgain(asked time.Time) {
	time.Sleep(min(max(50*time.Millisecond, 6*time.Since(asked)), time.Second))
}

// kill9 is `kill9 DAEMON`: kills gctld or a node's daemon, by the pid it left.
func kill9(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: kill9 DAEMON")
	}
	pid, err := daemonPID(ts.Getenv("CLUSTER"), args[0])
	ts.Check(err)
	ts.Check(syscall.Kill(pid, syscall.SIGKILL))
}

// startNode is `node CONFIG`: starts a node daemon, and at the story's end stops
// it and ends its jobs.
func startNode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: node CONFIG")
	}
	program, err := lookPath("gnoded", ts.Getenv("PATH"))
	ts.Check(err)
	command := exec.Command(program, "--config", args[0])
	command.Env = append(os.Environ(), "DBUS_SYSTEM_BUS_ADDRESS="+ts.Getenv("DBUS_SYSTEM_BUS_ADDRESS"))
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	runNode(ts, command, args[0])
}

// runNode runs a node daemon until the story's end.
func runNode(ts *testscript.TestScript, command *exec.Cmd, config string) {
	var log strings.Builder
	command.Stdout, command.Stderr = &log, &log
	ts.Check(prototest.StartTied(command))
	ts.Defer(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		ts.Logf("--- gnoded\n%s", &log)
		if _, err := quietly(ts, "gnoded", "stop-jobs", "--config", config); err != nil {
			unclean.add("%s: %v", ts.Name(), err)
		}
	})
}

// waitUp is `waitup DAEMON PID`: waits until the daemon runs under another pid.
func waitUp(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitup DAEMON FORMER-PID")
	}
	for deadline := time.Now().Add(patience(10 * time.Second)); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if pid, err := daemonPID(ts.Getenv("CLUSTER"), args[0]); err == nil && strconv.Itoa(pid) != args[1] {
			return
		}
	}
	ts.Fatalf("%s was not started again", args[0])
}

func daemonPID(cluster, daemon string) (int, error) {
	text, err := os.ReadFile(filepath.Join(cluster, daemon+".pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
