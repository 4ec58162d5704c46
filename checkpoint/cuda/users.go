package cuda

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint/procstatus"
)

// Process is one that uses CUDA, or could.
type Process struct {
	PID    int `json:"pid"`    // on the host
	Inside int `json:"inside"` // in its own PID namespace
	// Started tells it from a later one of the same number: clock ticks after
	// boot (proc_pid_stat(5), starttime).
	Started uint64 `json:"started"`
	// Devices: it has NVIDIA devices open. One without has only loaded the
	// library so far.
	Devices bool `json:"devices"`
	// MPS: it may be a client of the Multi-Process Service.
	MPS bool `json:"mps,omitempty"`
}

const (
	// longestLine bounds a line of a map of memory: a path and some numbers.
	longestLine = 64 << 10
	// longestEnvironment bounds what is looked at of one.
	longestEnvironment = 4 << 20
)

// device is what libcuda opens in /dev.
var device = regexp.MustCompile(`^/dev/(nvidiactl|nvidia[0-9]+|nvidia-uvm)$`)

// Users answers those of the processes, ids of the host, that use CUDA:
// those that have NVIDIA devices open, or the driver's library mapped. They are
// ascending by number; what has ended meanwhile is not among them. proc is
// where proc(5) is mounted.
func Users(proc string, pids []int) ([]Process, error) {
	var users []Process
	for _, pid := range pids {
		process, uses, err := look(proc, pid)
		switch {
		case isGone(err):
		case err != nil:
			return nil, fmt.Errorf("look whether process %d uses CUDA: %w", pid, err)
		case uses:
			users = append(users, process)
		}
	}
	slices.SortFunc(users, func(a, b Process) int { return a.PID - b.PID })
	return slices.CompactFunc(users, func(a, b Process) bool { return a.PID == b.PID }), nil
}

// isGone says whether an error of proc(5) means that the process has ended.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

func look(proc string, pid int) (Process, bool, error) {
	p := Process{PID: pid}
	dir := filepath.Join(proc, strconv.Itoa(pid))
	var err error
	if p.Started, err = started(dir); err != nil {
		return p, false, err
	}
	if p.Devices, err = opensDevices(filepath.Join(dir, "fd")); err != nil {
		return p, false, err
	}
	uses := p.Devices
	if !uses {
		if uses, err = mapsLibrary(filepath.Join(dir, "maps")); err != nil || !uses {
			return p, false, err
		}
	}
	if p.Inside, err = procstatus.Innermost(dir); err != nil {
		return p, false, err
	}
	p.MPS = usesMPS(dir)
	return p, true, nil
}

// started reads the start time. The program's name, in brackets, may hold
// anything.
func started(dir string) (uint64, error) {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, err
	}
	const field = 22 - 3 // counted from the one behind the name
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= field {
		return 0, fmt.Errorf("%s/stat has no start time", dir)
	}
	return strconv.ParseUint(fields[field], 10, 64)
}

// opensDevices looks at names only: to look at an open file itself may hang, at
// a file server that is away.
func opensDevices(dir string) (bool, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		target, err := os.Readlink(filepath.Join(dir, name.Name()))
		if err == nil && device.MatchString(target) {
			return true, nil
		}
	}
	return false, nil
}

func mapsLibrary(path string) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, longestLine)
	for scanner.Scan() {
		if bytes.Contains(scanner.Bytes(), []byte("/libcuda.so")) {
			return true, nil
		}
	}
	return false, scanner.Err()
}

// usesMPS says whether the control directory of MPS is where the process would
// look for it. A server elsewhere is found out by the driver's refusal.
func usesMPS(dir string) bool {
	pipes := "/tmp/nvidia-mps"
	if file, err := os.Open(filepath.Join(dir, "environ")); err == nil {
		environment, _ := io.ReadAll(io.LimitReader(file, longestEnvironment))
		file.Close()
		for entry := range strings.SplitSeq(string(environment), "\x00") {
			if value, ok := strings.CutPrefix(entry, "CUDA_MPS_PIPE_DIRECTORY="); ok && filepath.IsAbs(value) {
				pipes = filepath.Clean(value)
			}
		}
	}
	_, err := os.Lstat(filepath.Join(dir, "root", pipes, "control"))
	return err == nil
}

// In finds parked processes among those of a tree that was restored, ids of the
// host: by their numbers inside, which stay. It wraps ErrGone when one is
// missing.
func (p Parked) In(proc string, pids []int) (Parked, error) {
	byInside := map[int]Process{}
	for _, pid := range pids {
		dir := filepath.Join(proc, strconv.Itoa(pid))
		number, err := procstatus.Innermost(dir)
		if err == nil {
			var since uint64
			if since, err = started(dir); err == nil {
				byInside[number] = Process{PID: pid, Inside: number, Started: since}
			}
		}
		if err != nil && !isGone(err) {
			return Parked{}, fmt.Errorf("look for parked processes: %w", err)
		}
	}
	var found Parked
	for _, before := range p.Processes {
		now, there := byInside[before.Inside]
		if !there {
			return Parked{}, fmt.Errorf("%w: number %d inside", ErrGone, before.Inside)
		}
		now.Devices, now.MPS = before.Devices, before.MPS
		found.Processes = append(found.Processes, now)
	}
	slices.SortFunc(found.Processes, func(a, b Process) int { return a.PID - b.PID })
	return found, nil
}

// there says whether a process is still the one that it was.
func (p *Process) there(proc string) bool {
	since, err := started(filepath.Join(proc, strconv.Itoa(p.PID)))
	return err == nil && since == p.Started
}
