package main

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// silence is how long a node may be unreachable before its lease may be over
// when it is back: reaching a controller again takes a while.
const silence = 1500 * time.Millisecond

// harmOf is the harm of cutting nodes off for so long.
func harmOf(length time.Duration) history.Harm {
	if length < silence {
		return history.Harmless
	}
	return history.Silences
}

// controllerFaults are those of gctld. A cluster without a leader for longer
// than a lease silences every node.
var controllerFaults = []fault{
	{"kill-gctld", 5, 0, 0, false, func(w *weather, c cast) (*strike, error) {
		return signalController(of(w.controllers, c.pick), syscall.SIGKILL)
	}},
	{"kill-leader", 5, 0, 0, false, func(w *weather, c cast) (*strike, error) { return signalController(w.watch.leading(), syscall.SIGKILL) }},
	{"restart-gctld", 2, 0, 0, false, func(w *weather, c cast) (*strike, error) {
		return signalController(of(w.controllers, c.pick), syscall.SIGTERM)
	}},
	{"stop-gctld", 3, 300 * time.Millisecond, 9 * time.Second, false, func(w *weather, c cast) (*strike, error) {
		return pauseController(of(w.controllers, c.pick), c.length)
	}},
	{"stop-leader", 3, 300 * time.Millisecond, 9 * time.Second, false, func(w *weather, c cast) (*strike, error) { return pauseController(w.watch.leading(), c.length) }},
	{"majority-down", 1, 2 * time.Second, 9 * time.Second, true, majorityDown},
	{"transfer", 3, 0, 0, true, transfer},
	{"damage", 1, 0, 0, true, damage},
	{"remove-add", 1, time.Second, 4 * time.Second, true, removeAndAdd},
}

func signalController(one *controller, signal syscall.Signal) (*strike, error) {
	if one == nil || !one.signal(signal) {
		return nil, nil
	}
	return &strike{target: one.name, harm: history.Silences, every: true}, nil
}

func pauseController(one *controller, length time.Duration) (*strike, error) {
	if one == nil {
		return nil, nil
	}
	s, err := pauseDaemon(one.keeper)
	if s != nil {
		s.target, s.harm, s.every = one.name, harmOf(length), true
	}
	return s, err
}

// pauseDaemon stops a daemon as SIGSTOP does, until it is healed.
func pauseDaemon(k *keeper) (*strike, error) {
	daemon := k.daemon()
	if daemon == nil || daemon.Signal(syscall.SIGSTOP) != nil {
		return nil, nil
	}
	return &strike{heal: func(context.Context) error {
		_ = daemon.Signal(syscall.SIGCONT) // unless it has ended
		return nil
	}}, nil
}

// majorityDown stops all controllers but one.
func majorityDown(w *weather, c cast) (*strike, error) {
	stays := c.pick % uint64(len(w.controllers))
	s := &strike{target: "all but " + w.controllers[stays].name, harm: history.Silences, every: true}
	for i, one := range w.controllers {
		if uint64(i) != stays {
			one.stop(syscall.SIGKILL)
		}
	}
	s.heal = func(context.Context) error {
		for _, one := range w.controllers {
			one.want(true)
		}
		return nil
	}
	return s, nil
}

// transfer hands the lead over, as an operator would before an upgrade.
func transfer(w *weather, c cast) (*strike, error) {
	to := of(w.controllers, c.pick)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if out, err := w.tool(ctx, "gcontrol", "peer", "transfer", to.name); err != nil {
		return nil, errors.New(out) // it leads already, or is away
	}
	return &strike{target: "to " + to.name, harm: history.Harmless}, nil
}

// nodeFaults are those of gnoded and of whole nodes.
var nodeFaults = []fault{
	{"kill-gnoded", 5, 0, 0, false, func(w *weather, c cast) (*strike, error) {
		return signalNode(of(w.nodes, c.pick), syscall.SIGKILL)
	}},
	{"restart-gnoded", 2, 0, 0, false, func(w *weather, c cast) (*strike, error) {
		return signalNode(of(w.nodes, c.pick), syscall.SIGTERM)
	}},
	{"stop-gnoded", 4, 300 * time.Millisecond, 14 * time.Second, false, func(w *weather, c cast) (*strike, error) {
		n := of(w.nodes, c.pick)
		s, err := pauseDaemon(n.keeper)
		if s != nil {
			s.target, s.nodes, s.harm = n.name, []string{n.name}, harmOf(c.length)
		}
		return s, err
	}},
	{"power-off", 2, 3 * time.Second, 8 * time.Second, false, powerOff},
}

func signalNode(n *node, signal syscall.Signal) (*strike, error) {
	if !n.signal(signal) {
		return nil, nil
	}
	// Started again in less than a lease, unless other faults meet it.
	return &strike{target: n.name, nodes: []string{n.name}, harm: history.Silences}, nil
}

// everythingFaults hit all hosts.
var everythingFaults = []fault{
	{"all-daemons-killed", 2, 0, 0, false, func(w *weather, c cast) (*strike, error) {
		for _, k := range w.all() {
			k.signal(syscall.SIGKILL)
		}
		return &strike{target: "at once", harm: history.Silences, every: true}, nil
	}},
	{"all-restarted", 1, time.Second, 8 * time.Second, false, allRestarted},
}

// allRestarted stops every daemon, and starts all again in another order.
func allRestarted(w *weather, c cast) (*strike, error) {
	for _, k := range w.all() {
		k.stop(syscall.SIGTERM)
	}
	return &strike{target: "everything", harm: history.Silences, every: true, heal: func(context.Context) error {
		all := w.all()
		for i := range all {
			one := all[(uint64(i)+c.pick)%uint64(len(all))]
			if !w.isOff(one.host.Name) {
				one.want(true)
			}
		}
		return nil
	}}, nil
}
