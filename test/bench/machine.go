package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machine is where and when it was measured.
type machine struct {
	Date    string `json:"date"`
	Kernel  string `json:"kernel"`
	CPU     string `json:"cpu"`
	CPUs    int    `json:"cpus"`
	Load    string `json:"load_at_start"` // of the last 1, 5 and 15 minutes
	Disk    string `json:"disk"`
	Size    string `json:"size"`
	Gleaner string `json:"gleaner"`
	Slurm   string `json:"slurm"`
}

func describe(o options, directory string, s sizes) machine {
	m := machine{
		Date: time.Now().Format(time.RFC3339), CPU: cpuModel(), CPUs: runtime.NumCPU(),
		Kernel: "unknown", Load: "unknown", Disk: diskOf(directory), Size: s.name,
		Gleaner: versionOf(filepath.Join(o.binaries, "gsubmit"), "--version"), Slurm: "none",
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	return m
}

// sentences are the head of the report.
func (m machine) sentences() []string {
	return []string{
		fmt.Sprintf("Measured %s (%s).", m.Date, m.Size),
		fmt.Sprintf("Kernel %s; %d CPUs, %s; state on %s; load at the start %s.", m.Kernel, m.CPUs, m.CPU, m.Disk, m.Load),
		fmt.Sprintf("Gleaner: %s; Slurm: %s.", m.Gleaner, m.Slurm),
	}
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// memoryFileSystems keep nothing on a disk.
var memoryFileSystems = map[int64]bool{unix.TMPFS_MAGIC: true, unix.RAMFS_MAGIC: true}

func diskOf(directory string) string {
	var stat unix.Statfs_t
	if err := unix.Statfs(directory, &stat); err != nil {
		return "unknown"
	}
	if memoryFileSystems[int64(stat.Type)] {
		return "a file system in memory, not a disk"
	}
	return "disk (" + directory + ")"
}

// versionOf is what a program says about itself, on one line.
func versionOf(program string, arguments ...string) string {
	output, err := exec.Command(program, arguments...).Output()
	if err != nil {
		return "unknown version"
	}
	return strings.TrimSpace(string(output))
}
