package gpumem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	"github.com/gleaner-hpc/gleaner/checkpoint/procstatus"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// parkedFile is the file of an image that says which of its processes are
// parked, as JSON. One without it has none.
const parkedFile = "parked.json"

// parkedJob is what is in it.
type parkedJob struct {
	cuda.Parked
	// Stopped are the numbers inside of the processes that somebody had stopped.
	// Process 1 is not among them: see stoppedOnes.
	Stopped []int `json:"stopped,omitempty"`
}

// maxParkedBytes bounds it: as many processes as a job can have, with room.
const maxParkedBytes = 4 << 20

// WriteParked makes the file of an image in dir, if anything is parked.
func (g *Memory) WriteParked(dir string) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.parked.Processes) == 0 {
		return nil
	}
	data, err := json.Marshal(parkedJob{g.parked, g.stopped})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, parkedFile), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write down which processes are parked: %w", err)
	}
	return nil
}

// readParked reads that file of an image.
func readParked(dir string, m *checkpoint.Manifest) (parkedJob, error) {
	if !slices.ContainsFunc(m.Parts, func(part checkpoint.Part) bool { return part.Name == parkedFile }) {
		return parkedJob{}, nil
	}
	data, err := bundle.ReadRegular(filepath.Join(dir, parkedFile), maxParkedBytes)
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

// ManifestGPUs are a run's GPUs, as a manifest has them.
func ManifestGPUs(facts cuda.Facts) (gpus []checkpoint.GPU) {
	for _, g := range facts.GPUs {
		gpus = append(gpus, checkpoint.GPU{UUID: g.UUID, Model: g.Model, Driver: facts.Driver})
	}
	return gpus
}

// IsParked says whether something is.
func (g *Memory) IsParked() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.parked.Processes) > 0
}

// stoppedOnes are those of the processes that somebody has stopped, by their
// numbers inside. Process 1 is left out, so Restore continues it: only somebody outside
// can have stopped it, whose SIGCONT does not reach the restored one.
func stoppedOnes(pids []int) (stopped []int) {
	for _, pid := range pids {
		if number, err := procstatus.Innermost(procstatus.Dir(pid)); err == nil && number != 1 && procstatus.Stopped(pid) {
			stopped = append(stopped, number)
		}
	}
	return stopped
}

// Plan compares the GPUs of this run with those of the image in dir, before
// anything is made of it, and wakes their driver.
func (g *Memory) Plan(ctx context.Context, dir string, m *checkpoint.Manifest) error {
	parked, err := readParked(dir, m)
	if err != nil {
		return err
	}
	if len(m.Machine.GPUs) == 0 && len(parked.Processes) == 0 {
		return nil
	}
	if g == nil {
		return fmt.Errorf("GPU: the image was saved from %d NVIDIA GPUs, and this run has none: give it as many", len(m.Machine.GPUs))
	}
	facts, err := g.Facts(ctx, g.IDs)
	if err != nil {
		return fmt.Errorf("GPU: %w", err)
	}
	var before []cuda.GPU
	driver := ""
	for _, was := range m.Machine.GPUs {
		before, driver = append(before, cuda.GPU{UUID: was.UUID, Model: was.Model}), was.Driver
	}
	moved, obstacles := cuda.Fits(before, driver, facts)
	if err := refuse(obstacles); err != nil || len(parked.Processes) == 0 {
		return err
	}
	// A GPU that nobody uses is asleep until then.
	if _, err := g.Driver.Start(ctx); err != nil {
		return fmt.Errorf("GPU: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parked, g.stopped, g.moved = parked.Parked, parked.Stopped, moved
	return nil
}

// Find looks for the parked processes of an image among those that were
// restored from it.
func (g *Memory) Find() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	pids, err := g.Group.Procs()
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

// Restore gives a restored job, which SIGSTOP has stopped, its GPU memory
// back, and lets it run.
func (g *Memory) Restore(ctx context.Context) error {
	if err := g.Find(); err != nil {
		return err
	}
	g.mu.Lock()
	users, stopped := g.parked, g.stopped
	g.mu.Unlock()
	uses := func(pid int) bool {
		return slices.ContainsFunc(users.Processes, func(user cuda.Process) bool { return user.PID == pid })
	}
	if err := g.Group.SignalThose(unix.SIGCONT, uses); err != nil {
		return err
	}
	if err := g.giveBack(ctx); err != nil {
		return err
	}
	was := func(pid int) bool {
		number, err := procstatus.Innermost(procstatus.Dir(pid))
		return err == nil && slices.Contains(stopped, number)
	}
	if err := g.Group.SignalThose(unix.SIGSTOP, func(pid int) bool { return was(pid) && uses(pid) }); err != nil {
		return err
	}
	return g.Group.SignalThose(unix.SIGCONT, func(pid int) bool { return !was(pid) && !uses(pid) })
}
