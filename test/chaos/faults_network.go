package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
	"github.com/gleaner-hpc/gleaner/test/chaos/host"
)

// networkFaults cut and thin out the network.
var networkFaults = []fault{
	{"cut-node", 4, 500 * time.Millisecond, 15 * time.Second, false, func(w *weather, c cast) (*strike, error) {
		return w.cutOff(of(w.nodes, c.pick).host, c.length)
	}},
	{"unplug-node", 2, 500 * time.Millisecond, 15 * time.Second, false, func(w *weather, c cast) (*strike, error) {
		h := of(w.nodes, c.pick).host
		return w.struck(h.Name, c.length, []*host.Host{h}, h.Plug(false), func() error { return h.Plug(true) })
	}},
	{"cut-controller", 3, 500 * time.Millisecond, 12 * time.Second, false, func(w *weather, c cast) (*strike, error) {
		return w.cutOff(of(w.controllers, c.pick).host, c.length)
	}},
	{"split-controllers", 3, 500 * time.Millisecond, 12 * time.Second, true, splitControllers},
	{"one-way", 4, 500 * time.Millisecond, 12 * time.Second, false, oneWay},
	{"loss", 3, 2 * time.Second, 10 * time.Second, false, loss},
}

// struck is a strike that cuts some hosts off.
func (w *weather) struck(target string, length time.Duration, hosts []*host.Host, err error, heal func() error) (*strike, error) {
	s := &strike{target: target, harm: harmOf(length), heal: func(context.Context) error { return heal() }}
	for _, h := range hosts {
		if h.Number >= firstNode {
			s.nodes = append(s.nodes, h.Name)
		} else {
			s.every = true
		}
	}
	if err != nil {
		return nil, errors.Join(err, heal())
	}
	return s, nil
}

// others are the addresses of all but one host.
func (w *weather) others(h *host.Host) []net.IP {
	all := []net.IP{w.lab.Outside()}
	for _, other := range w.lab.Hosts() {
		if other != h {
			all = append(all, other.IP())
		}
	}
	return all
}

// cutOff drops everything from and to a host.
func (w *weather) cutOff(h *host.Host, length time.Duration) (*strike, error) {
	set := func(percent int) error {
		var all []error
		for _, to := range w.others(h) {
			all = append(all, h.Lose(to, percent))
		}
		for _, other := range w.lab.Hosts() {
			if other != h {
				all = append(all, other.Lose(h.IP(), percent))
			}
		}
		return errors.Join(all...)
	}
	return w.struck(h.Name, length, []*host.Host{h}, set(100), func() error { return set(0) })
}

// splitControllers cuts one controller off from the others, while nodes and
// users reach all.
func splitControllers(w *weather, c cast) (*strike, error) {
	alone := of(w.controllers, c.pick)
	set := func(percent int) error {
		var all []error
		for _, other := range w.controllers {
			if other != alone {
				all = append(all, alone.host.Lose(other.host.IP(), percent), other.host.Lose(alone.host.IP(), percent))
			}
		}
		return errors.Join(all...)
	}
	return w.struck(alone.name+" from the others", c.length, []*host.Host{alone.host}, set(100), func() error { return set(0) })
}

// oneWay drops what one host sends another, and not what comes back.
func oneWay(w *weather, c cast) (*strike, error) {
	hosts := w.lab.Hosts()
	from := of(hosts, c.pick)
	to := of(w.controllers, c.pick2).host
	if from == to {
		return nil, nil
	}
	if c.pick2&(1<<32) != 0 {
		from, to = to, from
	}
	return w.struck(from.Name+" to "+to.Name, c.length, []*host.Host{from, to},
		from.Lose(to.IP(), 100), func() error { return from.Lose(to.IP(), 0) })
}

// loss loses some of what one host sends, to anybody.
func loss(w *weather, c cast) (*strike, error) {
	from := of(w.lab.Hosts(), c.pick)
	percent := 10 + int(c.pick2%30)
	set := func(percent int) error {
		var all []error
		for _, to := range w.others(from) {
			all = append(all, from.Lose(to, percent))
		}
		return errors.Join(all...)
	}
	s, err := w.struck(fmt.Sprintf("of %d %% from %s", percent, from.Name), c.length, []*host.Host{from}, set(percent), func() error { return set(0) })
	if s != nil {
		s.harm = history.Silences
	}
	return s, err
}
