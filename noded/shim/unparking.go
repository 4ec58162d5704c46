package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	"github.com/gleaner-hpc/gleaner/noded/container"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// parkedPart is the file of an image that says which of its processes are
// parked, as JSON. One without it has none.
const parkedPart = "parked.json"

// parkedJob is what is in it.
type parkedJob struct {
	cuda.Parked
	// Stopped are the numbers inside of the processes that somebody had stopped.
	Stopped []int `json:"stopped,omitempty"`
}

// maxParkedBytes bounds it: as many processes as a job can have, with room.
const maxParkedBytes = 4 << 20

// writeParked makes the part of an image in dir, if anything is parked.
func (g *gpuMemory) writeParked(dir string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.parked.Processes) == 0 {
		return nil
	}
	data, err := json.Marshal(parkedJob{g.parked, g.stopped})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, parkedPart), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write down which processes are parked: %w", err)
	}
	return nil
}

// readParked reads that part of an image.
func readParked(dir string, m *checkpoint.Manifest) (parkedJob, error) {
	if !slices.ContainsFunc(m.Parts, func(part checkpoint.Part) bool { return part.Name == parkedPart }) {
		return parkedJob{}, nil
	}
	data, err := readRegular(filepath.Join(dir, parkedPart), maxParkedBytes)
	if err != nil {
		return parkedJob{}, fmt.Errorf("image: %w", err)
	}
	return decodeParked(data)
}

func decodeParked(data []byte) (parkedJob, error) {
	var parked parkedJob
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&parked)
	if err == nil && len(parked.Processes) == 0 {
		err = errors.New("it names none")
	}
	seen := map[int]bool{}
	for _, process := range parked.Processes {
		if err == nil && (process.Inside <= 0 || seen[process.Inside]) {
			err = fmt.Errorf("%d is no process's number, or is there twice", process.Inside)
		}
		seen[process.Inside] = true
	}
	if err != nil {
		return parkedJob{}, fmt.Errorf("image: which processes are parked: %.200s", err.Error())
	}
	return parked, nil
}

// manifestGPUs are a run's GPUs, as a manifest has them.
func manifestGPUs(facts cuda.Facts) (gpus []checkpoint.GPU) {
	for _, g := range facts.GPUs {
		gpus = append(gpus, checkpoint.GPU{UUID: g.UUID, Model: g.Model, Driver: facts.Driver})
	}
	return gpus
}

// planUnpark compares the GPUs of this run with those of the image, before
// anything is made of it, and wakes their driver.
func (p *part) planUnpark(ctx context.Context, m *checkpoint.Manifest) error {
	parked, err := readParked(p.image.path, m)
	if err != nil {
		return err
	}
	if len(m.Machine.GPUs) == 0 && len(parked.Processes) == 0 {
		return nil
	}
	g := p.gpus
	if g == nil {
		return fmt.Errorf("GPU: the image was saved from %d NVIDIA GPUs, and this run has none: give it as many", len(m.Machine.GPUs))
	}
	facts, err := g.facts(ctx, g.ids)
	if err != nil {
		return fmt.Errorf("GPU: %w", err)
	}
	if err := refuse(cuda.Obstacles(facts, []cuda.Process{{Devices: true}})); err != nil {
		return err
	}
	var before []cuda.GPU
	for _, was := range m.Machine.GPUs {
		if was.Driver != facts.Driver {
			return fmt.Errorf("driver: the image was saved under NVIDIA driver %s, and here is %s: choose a node with the same", was.Driver, facts.Driver)
		}
		before = append(before, cuda.GPU{UUID: was.UUID, Model: was.Model})
	}
	moved, obstacles := cuda.Remap(before, facts.GPUs, facts.Driver)
	if err := refuse(obstacles); err != nil || len(parked.Processes) == 0 {
		return err
	}
	// A GPU that nobody uses is asleep until then.
	if _, err := g.driver.Start(ctx); err != nil {
		return fmt.Errorf("GPU: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parked, g.stopped, g.moved = parked.Parked, parked.Stopped, moved
	return nil
}

// findParked looks for the parked processes of an image among those that were
// made of it.
func (p *part) findParked() error {
	g := p.gpus
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	pids, err := p.group.Procs()
	if err != nil {
		return err
	}
	found, err := g.parked.In("/proc", pids)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	g.parked = found
	return nil
}

// isParked says whether something is.
func (g *gpuMemory) isParked() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.parked.Processes) > 0
}

// comeBack makes the part ready: at once, or when its processes have their GPUs
// back, which takes as long as copying what they had there. Until then only
// those run, since the driver works in them: the rest stands. When they do not
// get it the part ends. It answers a function that returns when that is over.
func (p *part) comeBack(running *container.Container) (wait func()) {
	if !p.gpus.isParked() {
		p.setReady(running)
		return func() {}
	}
	ctx, cancel := context.WithTimeout(p.startContext, p.settings.Checkpoint.timeout())
	over := make(chan struct{})
	go func() {
		defer close(over)
		err := p.unparkRestored(ctx)
		switch {
		case p.endAsked():
		case err != nil:
			p.log.Warn("the job can not go on here: the controllers try another node, or its image before", "error", err)
			p.end(pb.EndCause_END_CAUSE_RESTORE_FAILED, 0, clip(err.Error()))
		default:
			p.setReady(running)
		}
	}()
	return func() { cancel(); <-over }
}

// unparkRestored gives a restored job, which stands by SIGSTOP, back what it had
// on its GPUs, and lets it go on.
func (p *part) unparkRestored(ctx context.Context) error {
	if err := p.findParked(); err != nil {
		return err
	}
	pids, err := p.group.Procs()
	if err != nil {
		return err
	}
	g := p.gpus
	g.mu.Lock()
	users, stopped := g.parked, g.stopped
	g.mu.Unlock()
	uses := func(pid int) bool {
		return slices.ContainsFunc(users.Processes, func(user cuda.Process) bool { return user.PID == pid })
	}
	for _, user := range users.Processes {
		_ = unix.Kill(user.PID, unix.SIGCONT) // it may have ended: that is told below
	}
	if err := g.giveBack(ctx, p.runs); err != nil {
		return err
	}
	for _, pid := range pids {
		number, err := numberInside(pid)
		switch was := err == nil && slices.Contains(stopped, number); {
		case was && uses(pid):
			_ = unix.Kill(pid, unix.SIGSTOP)
		case !was && !uses(pid):
			_ = unix.Kill(pid, unix.SIGCONT)
		}
	}
	return nil
}

// stoppedOnes are those of the processes that somebody has stopped, by their
// numbers inside.
func stoppedOnes(pids []int) (stopped []int) {
	for _, pid := range pids {
		if number, err := numberInside(pid); err == nil && statusLine(pid, "State") == "T (stopped)" {
			stopped = append(stopped, number)
		}
	}
	return stopped
}

// numberInside is the number of a process in its own namespace.
func numberInside(pid int) (int, error) {
	numbers := strings.Fields(statusLine(pid, "NSpid"))
	if len(numbers) == 0 {
		return 0, os.ErrNotExist
	}
	return strconv.Atoi(numbers[len(numbers)-1])
}

// statusLine is a value of /proc/PID/status; "" = the process has ended.
func statusLine(pid int, key string) string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
