package main

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// isOff reports whether a node's host is switched off, or about to be.
func (c *cluster) isOff(name string) bool {
	for _, n := range c.nodes {
		if n.name == name {
			return !n.host.On()
		}
	}
	return false
}

// powerOff switches a node off, whatever runs there, and on again: another boot
// id, a clock since boot that starts over, no control groups, no /run. With
// every second one the operator says meanwhile that it is off.
func powerOff(w *weather, c cast) (*strike, error) {
	n := of(w.nodes, c.pick)
	n.want(false)
	if err := n.host.Disk.Thaw(); err != nil { // what waits for it could not be ended
		return nil, err
	}
	if err := n.host.PowerOff(); err != nil {
		w.cluster.weather.fail(err.Error())
		return nil, err
	}
	word := ""
	if c.pick2%2 == 0 {
		word = " and declare it fenced"
	}
	return &strike{target: n.name + word, nodes: []string{n.name}, harm: history.Kills, heal: func(ctx context.Context) error {
		if word != "" {
			w.declareFenced(ctx, n)
		}
		if err := n.host.PowerOn(time.Duration(c.pick2%30) * time.Second); err != nil {
			return err
		}
		n.want(true)
		return nil
	}}, nil
}

// fenceLimit is how long the operator tries: a lease must be over first, and
// without a leader it does not work at all.
const fenceLimit = 25 * time.Second

// declareFenced is the operator's word that a node is off.
func (w *weather) declareFenced(ctx context.Context, n *node) {
	ctx, cancel := context.WithTimeout(ctx, fenceLimit)
	defer cancel()
	said := ""
	err := until(ctx, "the word that "+n.name+" is off", func() bool {
		out, err := w.tool(ctx, "gcontrol", "update", "node", n.name, "state=fenced", "reason=switched off")
		said = out
		if err != nil {
			time.Sleep(time.Second)
		}
		return err == nil
	})
	if err != nil {
		w.out.note("%v: %s", err, said)
	}
}
