package main

import (
	"context"
	"errors"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
	"github.com/gleaner-hpc/gleaner/test/chaos/host"
)

// diskFaults fill disks and make them slow.
var diskFaults = []fault{
	{"slow-controller-disk", 4, time.Second, 6 * time.Second, false, func(w *weather, c cast) (*strike, error) {
		return w.slow(of(w.controllers, c.pick).host, c)
	}},
	{"slow-node-disk", 3, time.Second, 6 * time.Second, false, func(w *weather, c cast) (*strike, error) {
		return w.slow(of(w.nodes, c.pick).host, c)
	}},
	{"full-controller-disk", 3, time.Second, 8 * time.Second, false, func(w *weather, c cast) (*strike, error) {
		return w.full(of(w.controllers, c.pick).host)
	}},
	{"full-node-disk", 3, time.Second, 8 * time.Second, false, func(w *weather, c cast) (*strike, error) {
		return w.full(of(w.nodes, c.pick).host)
	}},
}

// Stalls of a slow disk: the longest is shorter than a lease, and long for a
// disk.
const (
	leastStall = 20 * time.Millisecond
	mostStall  = 900 * time.Millisecond
)

// slow stalls a disk again and again.
func (w *weather) slow(h *host.Host, c cast) (*strike, error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- stallings(ctx, h.Disk, c.pick2) }()
	s := &strike{target: h.Name, harm: history.Silences, heal: func(ctx context.Context) error {
		cancel()
		select {
		case err := <-ended:
			return errors.Join(err, h.Disk.Thaw())
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	if h.Number < firstNode {
		s.every = true
	} else {
		s.nodes = []string{h.Name}
	}
	return s, nil
}

// stallings alternates between stalls and being quick, in a rhythm of its own.
func stallings(ctx context.Context, disk *host.Disk, rhythm uint64) error {
	for ctx.Err() == nil {
		rhythm = rhythm*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
		length := leastStall + time.Duration(rhythm>>33)%(mostStall-leastStall)
		if err := disk.Stall(ctx, length); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(length / 2):
		}
	}
	return nil
}

// full fills a disk to the last block.
func (w *weather) full(h *host.Host) (*strike, error) {
	if err := h.Disk.Fill(0); err != nil {
		return nil, errors.Join(err, h.Disk.Empty())
	}
	s := &strike{target: h.Name, harm: history.Silences, heal: func(context.Context) error { return h.Disk.Empty() }}
	if h.Number < firstNode {
		s.every = true
	} else {
		s.nodes = []string{h.Name}
	}
	return s, nil
}
