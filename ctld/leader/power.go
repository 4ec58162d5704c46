package leader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// Limits of the power hook. Variables for tests.
var (
	hookLimit = time.Minute // for one run
	firstRest = 5 * time.Second
	lastRest  = 5 * time.Minute
)

const (
	maxHooks      = 4       // at once
	maxHookOutput = 4 << 10 // bytes kept for the log
)

// power runs the site's command that switches silent nodes off: once their
// leases are over, until it succeeds or the node answers again. A node that is
// off runs nothing, so then its run-on jobs are released too.
type power struct {
	command []string // and its arguments; the node's name follows. Empty = none
	log     *slog.Logger
	slots   chan struct{}

	mu    sync.Mutex
	nodes map[string]*hook
}

// hook is what the command did for one node.
type hook struct {
	running bool
	off     bool
	rest    *backoff.ExponentialBackOff
	next    time.Time // not before
	said    string    // the last result
}

func newPower(command []string, log *slog.Logger) *power {
	return &power{command: command, log: log, slots: make(chan struct{}, maxHooks), nodes: make(map[string]*hook)}
}

// wanted notes that a node should be switched off.
func (p *power) wanted(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.command) == 0 || p.nodes[node] != nil {
		return
	}
	rest := backoff.NewExponentialBackOff()
	rest.InitialInterval, rest.MaxInterval = firstRest, lastRest
	p.nodes[node] = &hook{rest: rest}
}

// due are the nodes for which the command should run now, with a slot taken for
// each. Nodes that answer again, or are gone, are forgotten.
func (p *power) due(view *state.View, now time.Time) (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, h := range p.nodes {
		node, known := view.Node(name)
		switch {
		case h.running:
		case !known || !node.NotResponding:
			delete(p.nodes, name)
		case h.off || now.Before(h.next):
		default:
			select {
			case p.slots <- struct{}{}:
				h.running = true
				names = append(names, name)
			default:
			}
		}
	}
	return names
}

// ran notes the result of the command, and frees the slot.
func (p *power) ran(node string, now time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	<-p.slots
	h := p.nodes[node]
	h.running = false
	if err == nil {
		h.off, h.said = true, "fence_command has switched it off"
		return
	}
	h.next = now.Add(h.rest.NextBackOff())
	h.said = "fence_command failed and is tried again: " + err.Error()
}

func (p *power) said(node string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.nodes[node]
	switch {
	case h == nil:
		return ""
	case h.running:
		return "fence_command is switching it off"
	default:
		return h.said
	}
}

// forget is for a controller that no longer leads: the next leader starts over.
func (p *power) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, h := range p.nodes {
		if !h.running {
			delete(p.nodes, name)
		}
	}
}

// switchOff starts the command for the nodes whose turn it is.
func (l *Leader) switchOff(ctx context.Context, view *state.View, now time.Time) {
	for _, node := range l.power.due(view, now) {
		l.hooks.Go(func() {
			err := l.fenceByPower(ctx, node)
			l.power.ran(node, l.clock(), err)
			if err != nil && ctx.Err() == nil {
				l.log.Warn("fence_command failed; it is tried again: look at the machine, or switch it off and type gcontrol fence", "node", node, "error", err)
			}
		})
	}
}

// fenceByPower runs the command and, when it succeeds, declares the node off.
func (l *Leader) fenceByPower(ctx context.Context, node string) error {
	// A leader that was paused must not switch off a node that answers another
	// leader.
	if _, ok := l.propose(ctx, state.Barrier{Term: l.currentLeadership().term}); !ok {
		return errors.New("this controller could not confirm that it leads")
	}
	said, err := runHook(ctx, l.power.command, node)
	l.log.Info("fence_command has run", "node", node, "error", err, "output", said)
	if err != nil {
		return err
	}
	_, ok := l.propose(ctx, state.UpdateNodes{
		Names: []string{node}, Action: state.FenceNode, Reason: "switched off by fence_command, since it did not respond", User: "gleaner",
	})
	if !ok {
		return errors.New("the node was switched off, but that could not be noted")
	}
	return nil
}

// runHook runs the command without a shell, with little in its environment,
// and kills all that it started when it takes too long.
func runHook(ctx context.Context, command []string, node string) (said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, hookLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], node)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "GLEANER_NODE=" + node}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var output clipped
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Run()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("it did not end within %v", hookLimit)
	}
	said = strings.ToValidUTF8(strings.TrimSpace(output.String()), "?")
	if err != nil && said != "" {
		line, _, _ := strings.Cut(said, "\n")
		err = fmt.Errorf("%w: %s", err, line)
	}
	return said, err
}

// clipped keeps the beginning of what is written to it.
type clipped struct{ bytes.Buffer }

// Write implements io.Writer.
func (c *clipped) Write(data []byte) (int, error) {
	c.Buffer.Write(data[:min(len(data), max(maxHookOutput-c.Len(), 0))])
	return len(data), nil
}
