package noded

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// This file measures what jobs and their steps use of GPUs. The driver is asked at
// intervals, and only for GPUs that a job holds. A process belongs to the job in whose
// control group it is, and to the step that its environment names: that is the job's own
// word, so it decides nothing. What was measured is told with the end of an allocation, and
// earlier to those who ask for what its steps use; a daemon that is started again has what it
// measures itself.

// measureEvery is how often GPUs are asked: the driver keeps samples of some seconds, and a
// job is not slowed down by it.
var measureEvery = 10 * time.Second

const (
	// maxMeasuredSteps bounds the steps of an allocation whose use is kept.
	maxMeasuredSteps = 1000
	// maxEnviron is how much of the environment of a process is read: as much as the
	// kernel lets a program have by default.
	maxEnviron = 2 << 20
)

// gpuUse has what allocations have used, by their names.
type gpuUse struct {
	meter  gpu.Meter
	proc   string // where proc(5) is mounted
	parent string // the control group of all allocations
	log    *slog.Logger

	mu      sync.Mutex
	allocs  map[string]*allocUse
	refused map[string]bool // GPUs that cannot be measured, as the log has said
}

// allocUse is what one allocation has used: all of it, and its steps.
type allocUse struct {
	whole used
	steps map[uint32]*used
}

// used are the samples of one step.
type used struct {
	samples     uint32
	sumPercent  uint64
	mostPercent uint32
	peakMemory  uint64
	last        sample
}

// sample is what is used at one time.
type sample struct {
	percent uint32
	memory  uint64
}

func (u *used) add(s sample) {
	u.last = s
	u.samples++
	u.sumPercent += uint64(s.percent)
	u.mostPercent = max(u.mostPercent, s.percent)
	u.peakMemory = max(u.peakMemory, s.memory)
}

// newGPUUse answers nil where the source of the GPUs measures nothing.
func newGPUUse(source gpu.Source, cgroupParent string, log *slog.Logger) *gpuUse {
	meter, can := source.(gpu.Meter)
	if !can {
		return nil
	}
	return &gpuUse{meter: meter, proc: "/proc", parent: cgroupParent, log: log, allocs: map[string]*allocUse{}, refused: map[string]bool{}}
}

// measure asks once for what allocations use, of which held has the GPUs by name, or none
// for now. Those that are not among them are forgotten.
func (g *gpuUse) measure(held map[string][]string) {
	measured, found := g.ask(held)
	g.mu.Lock()
	defer g.mu.Unlock()
	for name := range g.allocs {
		if _, still := held[name]; !still {
			delete(g.allocs, name)
		}
	}
	for name, devices := range held {
		if len(devices) == 0 || slices.ContainsFunc(devices, func(id string) bool { return !measured[id] }) {
			continue // half of what it uses is no figure
		}
		use := g.allocs[name]
		if use == nil {
			use = &allocUse{steps: map[uint32]*used{}}
			g.allocs[name] = use
		}
		use.add(found[name])
	}
}

// add counts what the steps of an allocation use at one time.
func (u *allocUse) add(steps map[uint32]sample) {
	var whole sample
	for _, one := range u.steps {
		one.last = sample{} // unless it is among these
	}
	for number, s := range steps {
		whole.percent += s.percent
		whole.memory += s.memory
		if number == step.BatchStep {
			continue // is told with the whole
		}
		if u.steps[number] == nil && len(u.steps) < maxMeasuredSteps {
			u.steps[number] = &used{}
		}
		if one := u.steps[number]; one != nil {
			one.add(s)
		}
	}
	u.whole.add(whole)
}

// ask measures the GPUs that are held: which could be, and what was used of them by
// allocation and step.
func (g *gpuUse) ask(held map[string][]string) (measured map[string]bool, found map[string]map[uint32]sample) {
	measured, found = map[string]bool{}, map[string]map[uint32]sample{}
	asked := map[string]bool{}
	for _, devices := range held {
		for _, id := range devices {
			if asked[id] {
				continue
			}
			asked[id] = true
			uses, err := g.meter.Measure(id)
			g.note(id, err)
			measured[id] = err == nil
			for _, use := range uses {
				name, number := g.belongs(use.PID)
				if _, known := held[name]; !known {
					continue
				}
				if found[name] == nil {
					found[name] = map[uint32]sample{}
				}
				s := found[name][number]
				found[name][number] = sample{s.percent + use.Percent, s.memory + use.MemoryBytes}
			}
		}
	}
	return measured, found
}

// note says once that a GPU cannot be measured.
func (g *gpuUse) note(id string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	const text = "what jobs use of a GPU is not measured"
	switch {
	case err == nil || g.refused[id]:
	case errors.Is(err, gpu.ErrNotMeasured):
		g.log.Info(text, "reason", err)
	default:
		g.log.Warn(text+": see whether nvidia-smi works", "error", err)
	}
	g.refused[id] = err != nil
}

// belongs is the allocation in whose group a process is, "" = none, and its step.
func (g *gpuUse) belongs(pid int) (name string, number uint32) {
	dir := filepath.Join(g.proc, strconv.Itoa(pid))
	groups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
	if err != nil {
		return "", 0 // it has ended
	}
	if name = groupBelow(groups, g.parent); name == "" {
		return "", 0
	}
	return name, stepOf(filepath.Join(dir, "environ"))
}

// groupBelow is the group right below another one in which a process is, by its lines in
// proc(5); "" = none.
func groupBelow(lines []byte, parent string) string {
	for line := range bytes.Lines(lines) {
		fields := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if below, ok := strings.CutPrefix(fields[2], strings.TrimSuffix(parent, "/")+"/"); ok {
			name, _, _ := strings.Cut(below, "/")
			return name
		}
	}
	return ""
}

// stepOf is the step that the environment of a process names; without one it is the batch
// script's.
func stepOf(path string) uint32 {
	file, err := os.Open(path)
	if err != nil {
		return step.BatchStep
	}
	defer file.Close()
	environ, _ := io.ReadAll(io.LimitReader(file, maxEnviron))
	for _, variable := range bytes.Split(environ, []byte{0}) {
		if word, ok := bytes.CutPrefix(variable, []byte("SLURM_STEP_ID=")); ok {
			if number, err := strconv.ParseUint(string(word), 10, 32); err == nil {
				return uint32(number)
			}
		}
	}
	return step.BatchStep
}

// tell adds what an allocation has used to what its steps did, and forgets it.
func (g *gpuUse) tell(key registry.Key, result *pb.AllocEnded) {
	if g == nil {
		return
	}
	g.mu.Lock()
	use := g.allocs[key.String()]
	delete(g.allocs, key.String())
	g.mu.Unlock()
	if use == nil {
		return
	}
	if result.Steps == nil {
		result.Steps = &pb.NodeSteps{}
	}
	for _, part := range result.Steps.Steps {
		if one := use.steps[part.GetStep()]; one != nil {
			one.fill(part)
		}
	}
	batch := &pb.StepPart{Step: step.BatchStep, Name: "batch", Tasks: 1, StartMs: result.GetStartMs(), EndMs: result.GetEndMs()}
	use.whole.fill(batch)
	result.Steps.Steps = append(result.Steps.Steps, batch)
}

// now answers what the steps of an allocation have used until now, and last; nil = nothing is
// measured.
func (g *gpuUse) now(key registry.Key) *pb.NodeSteps {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	use := g.allocs[key.String()]
	if use == nil {
		return nil
	}
	answer := &pb.NodeSteps{}
	add := func(number uint32, u *used) {
		part := &pb.StepPart{Step: number, GpuPercent: u.last.percent, GpuMemoryBytes: u.last.memory}
		u.fill(part)
		answer.Steps = append(answer.Steps, part)
	}
	for _, number := range slices.Sorted(maps.Keys(use.steps)) {
		add(number, use.steps[number])
	}
	add(step.BatchStep, &use.whole)
	return answer
}

func (u *used) fill(part *pb.StepPart) {
	part.GpuSamples, part.SumGpuPercent, part.MostGpuPercent, part.PeakGpuMemoryBytes = u.samples, u.sumPercent, u.mostPercent, u.peakMemory
}

// measureGPUs looks at the GPUs that jobs hold now.
func (a *agent) measureGPUs() {
	if held := a.heldGPUs(); a.machine.use != nil && len(held) > 0 {
		a.machine.use.measure(held)
	}
}

// heldGPUs are the GPUs of the allocations that were given some, by name; none while the
// job cannot use them.
func (a *agent) heldGPUs() map[string][]string {
	held := map[string][]string{}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, decided := range a.registry.All() {
		if decided.Life.Over() {
			continue
		}
		for _, on := range decided.Order.GetAllocation() {
			if on.GetNode() != decided.Order.GetNode() {
				continue
			}
			for _, device := range on.GetDevices() {
				name := decided.Key.String()
				if !decided.Ready || decided.Frozen || decided.Suspended || decided.Free() {
					held[name] = nil
					continue
				}
				held[name] = append(held[name], wholeDevice(device.GetDeviceId(), device.GetParentId()))
			}
		}
	}
	return held
}
