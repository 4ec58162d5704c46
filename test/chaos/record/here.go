package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// sharedMount is the mount of the directory that this job shares with its node: on
// which device it is.
var sharedMount = regexp.MustCompile(`(?m)^\d+ \d+ (\d+:\d+) \S+ /run/gleaner `)

// allocDirectory is the directory of this job's allocation, as the file of its disk names it.
var allocDirectory = regexp.MustCompile(`/jobs/(\d+)\.(\d+)/disk\.ext4`)

// here says what this process is, from its environment, its mounts and what it
// can open.
func here(batch bool) (history.Run, error) {
	run := history.Run{
		Job: number("SLURM_JOB_ID"), Array: number("SLURM_ARRAY_JOB_ID"), Index: int(number("SLURM_ARRAY_TASK_ID")),
		Restarts: number("SLURM_RESTART_COUNT"), Name: os.Getenv("SLURM_JOB_NAME"), Node: os.Getenv("SLURMD_NODENAME"),
		NodeList: os.Getenv("SLURM_JOB_NODELIST"), Batch: batch, Start: now(),
	}
	var err error
	if run.Epoch, run.Devices, run.Names, err = devicesNow(); err != nil {
		return run, err
	}
	if !batch {
		run.Task = int(number("SLURM_PROCID"))
	}
	if run.Job == 0 || run.Node == "" || run.NodeList == "" {
		return run, errors.New("the environment is not that of a job")
	}
	return run, nil
}

// looks is how often a process looks in which run it is before it gives up.
const looks = 5

// epochNow is in which run of its job this process is. It may be saved between the two
// things that it reads, and continue where its mount's device has another number: the old
// number is nobody's there, or another job's, and it looks again.
func epochNow() (epoch uint32, err error) {
	for range looks {
		if epoch, err = lookAtDisk(); err == nil {
			return epoch, nil
		}
	}
	return 0, err
}

// lookAtDisk reads which disk the job's shared mount is on, and whose disk that is.
func lookAtDisk() (uint32, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return 0, err
	}
	mount := sharedMount.FindSubmatch(mounts)
	if mount == nil {
		return 0, errors.New("no mount is shared with the node")
	}
	file, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%s/loop/backing_file", mount[1]))
	if err != nil {
		return 0, err
	}
	alloc := allocDirectory.FindSubmatch(file)
	if alloc == nil || string(alloc[1]) != os.Getenv("SLURM_JOB_ID") {
		return 0, errors.New("no disk tells which run of the job this is")
	}
	epoch, err := strconv.ParseUint(string(alloc[2]), 10, 32)
	return uint32(epoch), err
}

func number(variable string) uint32 {
	n, err := strconv.ParseUint(os.Getenv(variable), 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// devicesNow are the devices of this process in the run in which it is: it may continue in
// another one between two looks.
func devicesNow() (epoch uint32, opened, names []string, err error) {
	for {
		if epoch, err = epochNow(); err != nil {
			return epoch, nil, nil, err
		}
		opened, names = devices()
		after, err := epochNow()
		if err != nil || after == epoch {
			return epoch, opened, names, err
		}
	}
}

// devices are the stand-in GPUs that this process can open, by their numbers, which
// are unique in the cluster, and the names under which it sees any: one that has resumed
// elsewhere has others there, under the names that it knows.
func devices() (opened, names []string) {
	paths, _ := filepath.Glob("/dev/gpu-*")
	for _, path := range paths {
		names = append(names, filepath.Base(path))
		file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
		if err == nil {
			file.Close()
		}
		var info unix.Stat_t
		if err == nil || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) { // let through, and nobody drives it
			if err := unix.Stat(path, &info); err != nil {
				continue
			}
			opened = append(opened, fmt.Sprintf("gpu-%d", unix.Minor(info.Rdev)))
		}
	}
	return opened, names
}
