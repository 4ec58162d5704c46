package cuda

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// GPU is what must be known of one that is parked from, or unparked to.
type GPU struct {
	UUID  string // "GPU-…"
	Model string // of the chip, in any words that are the same for the same chip
	MIG   bool   // it is cut in slices
}

// Facts are what the caller knows of a machine and of a job on it.
type Facts struct {
	Driver string // version of the NVIDIA driver: "570.86.15"
	GPUs   []GPU  // of the job
	// Used is GPU memory by process id of the host, in bytes; nil = not known.
	Used map[int]uint64
	// FreeBytes is the host memory that the processes may still take: what their
	// control group and the machine have left, whichever is less; 0 = not known.
	FreeBytes uint64
}

// Obstacle is why processes cannot be parked, or not on this machine.
type Obstacle struct {
	Property string // in a word or two: "driver", "MIG", "MPS", "host memory", "GPU model"
	Reason   string // in a sentence
	Remedy   string
	Passing  bool // it may be otherwise later
}

// Least versions of the driver.
const (
	leastDriver = 570 // the calls
	leastRemap  = 580 // other GPUs
	leastShare  = 610 // memory that processes share
)

// driverMajor is the number before the first dot; 0 if there is none.
func driverMajor(version string) int {
	first, _, _ := strings.Cut(strings.TrimSpace(version), ".")
	major, err := strconv.Atoi(first)
	if err != nil || major < 0 {
		return 0
	}
	return major
}

// CanPark says whether a driver of this version has the calls that take GPU memory away.
func CanPark(driver string) bool { return driverMajor(driver) >= leastDriver }

// Need is the additional host memory that processes need while they are
// parked, in bytes, as far as it is known.
func Need(f Facts, users []Process) uint64 {
	need := uint64(0)
	for _, p := range users {
		need += f.Used[p.PID]
	}
	return need
}

// Obstacles says early what would keep processes from being parked, or from coming back.
// What only the driver knows is not among it: unified memory; see CallError.
func Obstacles(f Facts, users []Process) []Obstacle {
	var found []Obstacle
	users = slices.DeleteFunc(slices.Clone(users), func(p Process) bool { return !p.Devices })
	if len(users) == 0 {
		return nil
	}
	if !CanPark(f.Driver) {
		found = append(found, Obstacle{Property: "driver", Reason: fmt.Sprintf("NVIDIA driver %s cannot take GPU memory away: that came with %d", f.Driver, leastDriver),
			Remedy: fmt.Sprintf("install driver %d or later (%d to move to other GPUs), or let the job save itself with --checkpoint=app", leastDriver, leastRemap)})
	}
	if len(users) > 1 && CanPark(f.Driver) && driverMajor(f.Driver) < leastShare {
		// Nobody can see whether they do. Driver 580 takes shared memory away without an error,
		// and then refuses for good to give it back to whoever had opened it.
		found = append(found, Obstacle{Property: "CUDA IPC", Reason: fmt.Sprintf("%d processes use CUDA, and what they may share on a GPU (CUDA IPC, as NCCL does), NVIDIA driver %s cannot give back", len(users), f.Driver),
			Remedy: fmt.Sprintf("use one process, install driver %d or later, or let the job save itself with --checkpoint=app", leastShare)})
	}
	for _, gpu := range f.GPUs {
		if gpu.MIG {
			found = append(found, Obstacle{Property: "MIG", Reason: fmt.Sprintf("GPU %s is cut in slices (MIG), from which memory cannot be taken away", gpu.UUID),
				Remedy: "use a whole GPU, or --checkpoint=app"})
		}
	}
	for _, p := range users {
		if p.MPS {
			found = append(found, Obstacle{Property: "MPS", Reason: fmt.Sprintf("process %d is a client of the CUDA Multi-Process Service (MPS), from which GPU memory cannot be taken away", p.PID),
				Remedy: "run without MPS, or with --checkpoint=app"})
		}
	}
	if need := Need(f, users); f.FreeBytes != 0 && need > f.FreeBytes {
		found = append(found, Obstacle{Property: "host memory", Passing: true,
			Reason: fmt.Sprintf("the processes have %s in GPU memory, and the host has room for %s", mebibytes(need), mebibytes(f.FreeBytes)),
			Remedy: fmt.Sprintf("ask for %s more with --mem, so that what is on the GPUs fits beside the rest", mebibytes(need-f.FreeBytes))})
	}
	return found
}

func mebibytes(bytes uint64) string { return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20) }

// Remap pairs the GPUs from which an image was saved with those of a job that
// resumes from it, each with one of the same chip: with itself if it is among
// them, otherwise with the next. It answers nil when all are the same, which any driver
// with the calls can do, and obstacles when that is impossible.
func Remap(before, now []GPU, driver string) (map[string]string, []Obstacle) {
	if len(now) < len(before) {
		return nil, []Obstacle{{Property: "GPUs", Reason: fmt.Sprintf("it was saved from %d GPUs, and here it has %d", len(before), len(now)), Remedy: "give it as many"}}
	}
	pairs, taken := map[string]string{}, map[string]bool{}
	for _, old := range before {
		if slices.ContainsFunc(now, func(g GPU) bool { return g.UUID == old.UUID }) {
			pairs[old.UUID], taken[old.UUID] = old.UUID, true
		}
	}
	moved := false
	for _, old := range before {
		if _, same := pairs[old.UUID]; same {
			continue
		}
		moved = true
		i := slices.IndexFunc(now, func(g GPU) bool { return !taken[g.UUID] && !g.MIG && g.Model == old.Model })
		if i < 0 {
			return nil, []Obstacle{{Property: "GPU model", Reason: fmt.Sprintf("it was saved from a %s, and none of that chip is left here", old.Model), Remedy: "give it GPUs of the same model"}}
		}
		pairs[old.UUID], taken[now[i].UUID] = now[i].UUID, true
	}
	if !moved {
		return nil, nil
	}
	if driverMajor(driver) < leastRemap {
		return nil, []Obstacle{{Property: "driver", Reason: fmt.Sprintf("NVIDIA driver %s can give memory back to the same GPU only: others came with %d", driver, leastRemap),
			Remedy: fmt.Sprintf("install driver %d or later", leastRemap)}}
	}
	return pairs, nil
}

// Fits answers why what was saved from GPUs under a driver cannot go back to those of
// facts, and otherwise to which: see Remap. The question beforehand and the restore
// itself use the same answer.
func Fits(before []GPU, driver string, facts Facts) (map[string]string, []Obstacle) {
	found := Obstacles(facts, []Process{{Devices: true}})
	if len(before) > 0 && driver != facts.Driver {
		found = append(found, Obstacle{Property: "driver", Reason: fmt.Sprintf("it was saved under NVIDIA driver %s, and here is %s", driver, facts.Driver), Remedy: "choose a node with the same"})
	}
	moved, obstacles := Remap(before, facts.GPUs, facts.Driver)
	return moved, append(found, obstacles...)
}
