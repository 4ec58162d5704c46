package dev

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A daemon that dies is started again after the delay, unless so many starts
// in a row did not even live for a short while.
const (
	restartDelay  = 500 * time.Millisecond
	shortLife     = time.Second
	maxShortLives = 5
)

// child is one daemon of the cluster.
type child struct {
	name      string
	logFile   string
	program   string
	arguments []string
	command   *exec.Cmd
	started   time.Time
	short     int           // starts in a row that ended within shortLife
	ended     chan struct{} // closed when the process is gone
	result    error         // of Wait; like short, read only after ended is closed
}

// startChild starts a daemon that logs into directory.
func startChild(directory, name, program string, arguments ...string) (*child, error) {
	c := &child{name: name, logFile: filepath.Join(directory, name+".log"), program: program, arguments: arguments}
	return c, c.start()
}

// start starts the daemon, for the first time or again, in a process group of
// its own, so that Ctrl-C reaches only us and the order of the stop is ours.
// If we are killed the kernel sends it TERM.
func (c *child) start() error {
	log, err := os.OpenFile(c.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(c.program, c.arguments...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	// To see what happens when a daemon is killed, find its pid here.
	pidFile := strings.TrimSuffix(c.logFile, ".log") + ".pid"
	if err := os.WriteFile(pidFile, fmt.Appendln(nil, command.Process.Pid), 0o644); err != nil {
		_ = command.Process.Kill()
		_ = command.Wait()
		return err
	}
	ended := make(chan struct{})
	c.command, c.ended, c.started = command, ended, time.Now()
	go func() {
		c.result = command.Wait()
		if c.short++; time.Since(c.started) > shortLife {
			c.short = 0
		}
		close(ended)
	}()
	return nil
}

// stop asks the daemon to end, and kills it when it does not within the
// deadline.
func (c *child) stop(deadline time.Duration) {
	_ = c.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.ended:
	case <-time.After(deadline):
		_ = c.command.Process.Kill()
		<-c.ended
	}
}

// died explains the unexpected end of a daemon with the end of its log.
func (c *child) died() error {
	return fmt.Errorf("%s ended (%v); the end of %s:\n%s", c.name, c.result, c.logFile, lastLines(c.logFile, 8))
}

// lastLines returns up to n last lines of a file.
func lastLines(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-n):], "\n  ")
}

// runOnce runs a program to its end, and returns its output in the error when
// it fails.
func runOnce(ctx context.Context, program string, arguments ...string) error {
	output, err := exec.CommandContext(ctx, program, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
