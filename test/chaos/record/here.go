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

// partDirectory is the directory of this job's part, as its mount names it.
var partDirectory = regexp.MustCompile(`/jobs/(\d+)\.(\d+)/run `)

// here says what this process is, from its environment, its mounts and what it
// can open.
func here(batch bool) (history.Run, error) {
	run := history.Run{
		Job: number("SLURM_JOB_ID"), Array: number("SLURM_ARRAY_JOB_ID"), Index: int(number("SLURM_ARRAY_TASK_ID")),
		Restarts: number("SLURM_RESTART_COUNT"), Name: os.Getenv("SLURM_JOB_NAME"), Node: os.Getenv("SLURMD_NODENAME"),
		NodeList: os.Getenv("SLURM_JOB_NODELIST"), Batch: batch, Devices: devices(), Start: now(),
	}
	var err error
	if run.Epoch, err = epochNow(); err != nil {
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

// epochNow is in which run of its job this process is.
func epochNow() (uint32, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return 0, err
	}
	part := partDirectory.FindSubmatch(mounts)
	if part == nil || string(part[1]) != os.Getenv("SLURM_JOB_ID") {
		return 0, errors.New("no mount tells which run of the job this is")
	}
	epoch, err := strconv.ParseUint(string(part[2]), 10, 32)
	return uint32(epoch), err
}

func number(variable string) uint32 {
	n, err := strconv.ParseUint(os.Getenv(variable), 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// devices are the stand-in GPUs that this process can open, by their numbers, which
// are unique in the cluster: one that has gone on elsewhere has others there, under
// the names that it knows.
func devices() []string {
	var opened []string
	paths, _ := filepath.Glob("/dev/gpu-*")
	for _, path := range paths {
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
	return opened
}
