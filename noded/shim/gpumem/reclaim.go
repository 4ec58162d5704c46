package gpumem

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
)

// errKept is why nothing is given back while the GPUs are their owner's.
var errKept = errors.New("the GPUs are their owner's for now")

// Holds says whether an error of Reclaim or Park will be the same until a process closes a
// device that it has open, or ends.
func Holds(err error) bool {
	var holds *cuda.HoldsError
	return errors.As(err, &holds)
}

// Reclaim brings what the job has on its GPUs into the host's memory, and keeps it there
// until Release, also if it fails. run lets the job run, which it must for that; it is
// called only if some process uses the GPUs. used: something has used them since the last
// time.
func (g *Memory) Reclaim(ctx context.Context, used bool, run func() error) error {
	if g == nil {
		return nil
	}
	g.kept.Store(true)
	g.repayer.stop()
	if g.IsParked() && !used && !g.Runs() {
		return nil // a save has done it, and nothing has run since
	}
	pids, err := g.Group.Procs()
	if err != nil {
		return err
	}
	users, err := cuda.Users("/proc", pids)
	if err != nil || len(users) == 0 && !g.IsParked() {
		return err
	}
	opens := slices.ContainsFunc(users, func(p cuda.Process) bool { return p.Devices })
	_, err = g.Driver.Start(ctx)
	if err == nil && opens && slices.ContainsFunc(g.IDs, func(id string) bool { return !strings.HasPrefix(id, "GPU-") }) {
		err = errByHand
	}
	switch {
	case errors.Is(err, cuda.ErrNoDriver) && !opens && !g.IsParked():
		return nil // they have loaded the library, which finds no GPU
	case err != nil:
		return err
	}
	if err := run(); err != nil {
		return err
	}
	_, err = g.Park(ctx, func(bytes uint64) error {
		g.reclaimed.Store(bytes)
		return nil
	})
	return err
}

// Reclaimed is how many bytes Reclaim has copied last, as far as the driver says.
func (g *Memory) Reclaimed() uint64 {
	if g == nil {
		return 0
	}
	return g.reclaimed.Load()
}

// Ours answers what the driver says of the job's GPUs, whoever has them now.
func (g *Memory) Ours(ctx context.Context) (facts cuda.Facts, err error) {
	if g == nil {
		return facts, nil
	}
	return g.Facts(ctx, g.IDs)
}

// Release ends Reclaim: what the job had on its GPUs is given back by the next Unpark.
func (g *Memory) Release() {
	if g != nil {
		g.kept.Store(false)
	}
}
