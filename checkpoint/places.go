package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint/procstatus"
)

// placesFile of an image says which threads of the tree were bound to CPUs, or had a
// priority on disks. CRIU saves neither. It is not there if none had.
const placesFile = "places.json"

// places are those of threads, by their numbers inside.
type places map[int]place

// place is what a thread has chosen, or was given, of the CPUs and disks of its tree.
type place struct {
	// CPUs are those to which it is bound, counted among the CPUs of process 1: another node
	// gives the tree as many, with other numbers. Empty = it is not bound.
	CPUs []int `json:"cpus,omitempty"`
	IO   int   `json:"io,omitempty"` // see ioprio_set(2); 0 = it never said
}

// writePlaces adds to an image where the threads of a frozen tree are.
func writePlaces(images string, tree Tree, init int) error {
	pids, err := tree.Procs()
	if err != nil {
		return fmt.Errorf("list the processes: %w", err)
	}
	all, err := cpusOf(init)
	if err != nil {
		return err
	}
	found := places{}
	err = eachThread(pids, func(dir string, thread int) error {
		own, err := cpusOf(thread)
		if err != nil {
			return err
		}
		here := place{IO: ioPriority(thread)}
		if !slices.Equal(own, all) {
			here.CPUs = countedAmong(all, own)
		}
		if len(here.CPUs) == 0 && here.IO == 0 {
			return nil
		}
		inside, err := procstatus.Innermost(dir)
		if err == nil {
			found[inside] = here
		}
		return err
	})
	if err != nil || len(found) == 0 {
		return err
	}
	text, err := json.Marshal(found)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(images, placesFile), text, 0o600)
}

// Replace binds the threads of a restored tree, which has not run, as they were bound when
// its image was made. Where the tree has fewer CPUs than it had then, a thread that
// was bound to none of these is not bound.
func Replace(images string, pids []int, init int) error {
	text, err := os.ReadFile(filepath.Join(images, placesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var were places
	if err == nil {
		err = json.Unmarshal(text, &were)
	}
	if err != nil {
		return fmt.Errorf("read which CPUs threads were bound to: %w", err)
	}
	all, err := cpusOf(init)
	if err != nil {
		return err
	}
	return eachThread(pids, func(dir string, thread int) error {
		inside, err := procstatus.Innermost(dir)
		if err != nil {
			return err
		}
		return were[inside].take(thread, all)
	})
}

// take puts a thread of a tree with these CPUs there.
func (p place) take(thread int, all []int) error {
	var set unix.CPUSet
	for _, i := range p.CPUs {
		if i >= 0 && i < len(all) {
			set.Set(all[i])
		}
	}
	if set.Count() > 0 {
		if err := unix.SchedSetaffinity(thread, &set); err != nil {
			return fmt.Errorf("bind thread %d to its CPUs: %w", thread, err)
		}
	}
	if !isOwn(p.IO) {
		return nil
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, uintptr(thread), uintptr(p.IO)); errno != 0 {
		return fmt.Errorf("give thread %d its priority on disks: %w", thread, errno)
	}
	return nil
}

// eachThread calls do for each thread of some processes. What has ended is left out.
func eachThread(pids []int, do func(dir string, thread int) error) error {
	for _, pid := range pids {
		dir := filepath.Join(procstatus.Dir(pid), "task")
		threads, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("list threads: %w", err)
		}
		for _, entry := range threads {
			thread, err := strconv.Atoi(entry.Name())
			if err == nil {
				err = do(filepath.Join(dir, entry.Name()), thread)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// cpusOf answers the CPUs on which a thread may run, in their order.
func cpusOf(thread int) (cpus []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(thread, &set); err != nil {
		return nil, fmt.Errorf("see to which CPUs thread %d is bound: %w", thread, err)
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// countedAmong answers which of all CPUs some are, counted from 0.
func countedAmong(all, some []int) (indices []int) {
	for _, cpu := range some {
		if i := slices.Index(all, cpu); i >= 0 {
			indices = append(indices, i)
		}
	}
	return indices
}

// ioprioWhoProcess has the kernel take a number for that of a thread.
const ioprioWhoProcess = 1

// Classes of priorities on disks that a thread may take for itself.
const (
	ioprioClassShift = 13
	ioprioClassBE    = 2
	ioprioClassIdle  = 3
)

// isOwn says whether a thread may have given itself a priority on disks.
func isOwn(priority int) bool {
	class := priority >> ioprioClassShift
	return class == ioprioClassBE || class == ioprioClassIdle
}

// ioPriority is what a thread has said about its priority on disks; 0 = nothing.
func ioPriority(thread int) int {
	priority, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioprioWhoProcess, uintptr(thread), 0)
	if errno != 0 || !isOwn(int(priority)) {
		return 0
	}
	return int(priority)
}
