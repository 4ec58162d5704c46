package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
	"github.com/gleaner-hpc/gleaner/test/chaos/host"
)

// processFaults hit what works for single jobs.
var processFaults = []fault{
	{"kill-shim", 3, 0, 0, false, func(w *weather, c cast) (*strike, error) {
		return w.hitProcess(c, isShim, syscall.SIGKILL, history.Kills)
	}},
	{"stop-shim", 3, 300 * time.Millisecond, 9 * time.Second, false, func(w *weather, c cast) (*strike, error) {
		return w.hitProcess(c, isShim, syscall.SIGSTOP, history.Harmless)
	}},
	{"kill-ginit", 2, 0, 0, false, func(w *weather, c cast) (*strike, error) {
		return w.hitProcess(c, isInit, syscall.SIGKILL, history.Kills)
	}},
	{"stop-ginit", 2, 300 * time.Millisecond, 9 * time.Second, false, func(w *weather, c cast) (*strike, error) {
		return w.hitProcess(c, isInit, syscall.SIGSTOP, history.Harmless)
	}},
	{"kill-grun", 2, 0, 0, false, func(w *weather, c cast) (*strike, error) {
		return w.hitProcess(c, isNamed("grun"), syscall.SIGKILL, history.Harmless)
	}},
	{"stop-grun", 2, 300 * time.Millisecond, 6 * time.Second, false, func(w *weather, c cast) (*strike, error) {
		return w.hitProcess(c, isNamed("grun"), syscall.SIGSTOP, history.Harmless)
	}},
	{"kill-client", 3, 0, 0, false, func(w *weather, c cast) (*strike, error) {
		return w.hitProcess(c, isNamed("gsubmit"), syscall.SIGKILL, history.Harmless)
	}},
	{"stop-client", 2, 300 * time.Millisecond, 6 * time.Second, false, func(w *weather, c cast) (*strike, error) {
		return w.hitProcess(c, isNamed("gsubmit"), syscall.SIGSTOP, history.Harmless)
	}},
}

func isShim(words []string) bool {
	return len(words) > 2 && strings.HasSuffix(words[0], "gnoded") && words[1] == "shim"
}

// isInit: process 1 of a container.
func isInit(words []string) bool { return strings.HasSuffix(words[0], "/ginit") }

func isNamed(name string) func([]string) bool {
	return func(words []string) bool { return words[0] == name || strings.HasSuffix(words[0], "/"+name) }
}

// find picks one of the processes of that kind; false if there is none.
func (w *weather) find(c cast, wanted func([]string) bool) (host.Process, bool) {
	var found []host.Process
	for _, process := range host.Processes() {
		if wanted(process.Words) {
			found = append(found, process)
		}
	}
	if len(found) == 0 {
		return host.Process{}, false
	}
	return of(found, c.pick), true
}

// nodeOf is the node on whose host a process is.
func (w *weather) nodeOf(process host.Process) []string {
	for _, namespace := range process.Namespaces() {
		for _, n := range w.nodes {
			if n.host.Namespace() == namespace {
				return []string{n.name}
			}
		}
	}
	return nil
}

func (w *weather) hitProcess(c cast, wanted func([]string) bool, signal syscall.Signal, harm history.Harm) (*strike, error) {
	process, ok := w.find(c, wanted)
	if !ok {
		return nil, nil
	}
	nodes := w.nodeOf(process) // afterwards it may have ended
	if err := syscall.Kill(process.PID, signal); err != nil {
		return nil, err
	}
	s := &strike{target: describe(process, nodes), nodes: nodes, harm: harm}
	if signal == syscall.SIGSTOP {
		s.heal = func(context.Context) error {
			_ = syscall.Kill(process.PID, syscall.SIGCONT) // unless it has ended
			return nil
		}
	}
	return s, nil
}

// describe says which process it is.
func describe(process host.Process, where []string) string {
	last := process.Words[len(process.Words)-1]
	return fmt.Sprintf("%d (%s %s)", process.PID, strings.Join(where, ""), last[strings.LastIndex(last, "/")+1:])
}
