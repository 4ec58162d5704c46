package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Rows about the networks of jobs.
const (
	partsUserspace     measure = "network.parts.userspace"
	partsKernel        measure = "network.parts.kernel"
	partsUserspaceTrip measure = "network.parts.userspace.trip"
	partsKernelTrip    measure = "network.parts.kernel.trip"
	wayOut             measure = "network.out"
	wayOutPasta        measure = "network.out.pasta"
	wayOutSlirp        measure = "network.out.slirp4netns"
	wayOutTrip         measure = "network.out.trip"
	wayOutTripPasta    measure = "network.out.trip.pasta"
	wayOutTripSlirp    measure = "network.out.trip.slirp4netns"
)

func networkRows() []row {
	return []row{
		{partsUserspace, "network: between two nodes of a job, wireguard-go (bare: veth)", "MB/s", 0},
		{partsKernel, "network: between two nodes of a job, the kernel's WireGuard (bare: veth)", "MB/s", 0},
		{partsUserspaceTrip, "network: there and back, wireguard-go (bare: veth)", "µs", 0},
		{partsKernelTrip, "network: there and back, the kernel's WireGuard (bare: veth)", "µs", 0},
		{wayOut, "network: a job's way out (bare: the host's)", "MB/s", 0},
		{wayOutPasta, "network: a job's way out (bare: pasta)", "MB/s", 0},
		{wayOutSlirp, "network: a job's way out (bare: slirp4netns)", "MB/s", 0},
		{wayOutTrip, "network: out and back (bare: the host's)", "µs", 0},
		{wayOutTripPasta, "network: out and back (bare: pasta)", "µs", 0},
		{wayOutTripSlirp, "network: out and back (bare: slirp4netns)", "µs", 0},
	}
}

// networkAims judge the rows.
func (t *table) networkAims() []aim {
	of := func(what string, m measure, reached func(x float64) bool) aim {
		x := t.ratio(m, bareColumn)
		return aim{what, fmt.Sprintf("%.3g x", x), x > 0 && reached(x), x > 0}
	}
	return []aim{
		of("between two nodes of a job at least 0.8 of a plain veth, with the kernel's WireGuard", partsKernel, func(x float64) bool { return x >= 0.8 }),
		of("there and back in under 2 x a plain veth's, with the kernel's WireGuard", partsKernelTrip, func(x float64) bool { return x < 2 }),
		of("a job's way out at least half of the host's", wayOut, func(x float64) bool { return x >= 0.5 }),
	}
}

// networkFigure is what was measured, or why it was not.
type networkFigure struct {
	Measure measure
	Column  column
	Value   float64
	Why     string
}

// networkPatience bounds a round.
const networkPatience = 3 * time.Minute

// networks measures each way in turn. The nodes, the outside and the jobs are network
// namespaces of a process that has some of its own: nothing is sent beyond this machine, and
// with the process everything ends.
func (b *bench) networks(ctx context.Context) {
	measures := make([]measure, 0, len(networkRows()))
	for _, r := range networkRows() {
		measures = append(measures, r.measure)
	}
	for round := range b.sizes.networkRounds {
		if ctx.Err() != nil {
			return
		}
		what := fmt.Sprintf("networks of jobs, round %d of %d", round+1, b.sizes.networkRounds)
		b.say("%s", what)
		figures, err := b.networkRound(ctx)
		if err != nil && ctx.Err() == nil {
			b.failed(ours, what, measures, err)
			return
		}
		for _, f := range figures {
			if f.Why != "" {
				b.table.missing(f.Measure, f.Column, f.Why)
				continue
			}
			b.table.add(round, f.Measure, f.Column, f.Value)
		}
	}
}

func (b *bench) networkRound(ctx context.Context) (figures []networkFigure, err error) {
	ctx, cancel := context.WithTimeout(ctx, networkPatience)
	defer cancel()
	command := exec.CommandContext(ctx, "/proc/self/exe", networkWord, filepath.Join(b.options.binaries, "gnoded"), strconv.Itoa(b.sizes.networkMS))
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	var said, complaints bytes.Buffer
	command.Stdout, command.Stderr = &said, &complaints
	command.WaitDelay = time.Second
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("measure networks: %w: %s", err, strings.TrimSpace(complaints.String()))
	}
	if err := json.Unmarshal(said.Bytes(), &figures); err != nil {
		return nil, fmt.Errorf("read the figures of networks: %w", err)
	}
	return figures, nil
}
