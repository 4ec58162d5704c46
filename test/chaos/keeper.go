package main

import (
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/host"
)

// What a service manager does: start again after a pause, which grows while the
// daemon lives only for a moment.
const (
	restartPause = 500 * time.Millisecond
	maxPause     = 4 * time.Second
	longLife     = 5 * time.Second
	stopPatience = 15 * time.Second
)

// keeper keeps one daemon of one host running, as a service manager would.
type keeper struct {
	host  *host.Host
	log   string
	words []string

	mu      sync.Mutex
	wanted  bool
	current *host.Daemon
	pause   time.Duration
	starts  int
	last    string        // how it ended last
	changed chan struct{} // closed when wanted changes
}

func newKeeper(h *host.Host, log string, words ...string) *keeper {
	return &keeper{host: h, log: log, words: words, pause: restartPause, changed: make(chan struct{})}
}

// run keeps the daemon until ctx ends.
func (k *keeper) run(ctx context.Context) {
	for ctx.Err() == nil {
		k.mu.Lock()
		wanted, changed, pause := k.wanted, k.changed, k.pause
		k.mu.Unlock()
		if !wanted {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		if k.once(ctx) {
			continue // it was stopped
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// once starts the daemon and waits for its end; true if it was not wanted any
// more.
func (k *keeper) once(ctx context.Context) bool {
	k.mu.Lock()
	if !k.wanted {
		k.mu.Unlock()
		return true
	}
	started := time.Now()
	daemon, err := k.host.Start(k.log, k.words...)
	if err != nil {
		k.mu.Unlock()
		return false // the host is off
	}
	k.current = daemon
	k.starts++
	k.mu.Unlock()
	select {
	case <-daemon.Ended():
	case <-ctx.Done():
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current = nil
	k.last, _ = daemon.How()
	if k.pause = min(2*k.pause, maxPause); time.Since(started) > longLife {
		k.pause = restartPause
	}
	return !k.wanted
}

// want reports whether the daemon should run.
func (k *keeper) want(wanted bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wanted == wanted {
		return
	}
	k.wanted, k.pause = wanted, restartPause
	close(k.changed)
	k.changed = make(chan struct{})
}

func (k *keeper) daemon() *host.Daemon {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// signal sends the daemon a signal, if it runs.
func (k *keeper) signal(signal syscall.Signal) bool {
	daemon := k.daemon()
	return daemon != nil && daemon.Signal(signal) == nil
}

// stop stops the daemon for good: with the signal, and if that does not help
// with KILL.
func (k *keeper) stop(signal syscall.Signal) {
	k.want(false)
	daemon := k.daemon()
	if daemon == nil {
		return
	}
	_ = daemon.Signal(signal)
	_ = daemon.Signal(syscall.SIGCONT)
	select {
	case <-daemon.Ended():
	case <-time.After(stopPatience):
		_ = daemon.Signal(syscall.SIGKILL)
		select {
		case <-daemon.Ended():
		case <-time.After(stopPatience):
		}
	}
}
