package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// leaveLimit is how long the kernel may take to let go of what ended: a file
// system is written out before its loop device is free.
const leaveLimit = time.Minute

// Left says what a test left on this machine: processes and mounts that name
// its directory, loop devices on its files, its control groups. What is on its
// way out is waited for.
func Left(directory string) []string {
	for deadline := time.Now().Add(leaveLimit); ; time.Sleep(100 * time.Millisecond) {
		left := look(directory)
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}

func look(directory string) []string {
	var left []string
	for _, process := range Processes() {
		if process.PID != os.Getpid() && strings.Contains(strings.Join(process.Words, " "), directory) {
			left = append(left, fmt.Sprintf("process %d: %s", process.PID, strings.Join(process.Words, " ")))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		left = append(left, err.Error())
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, directory) {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	backing, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, path := range backing {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), directory) {
			left = append(left, fmt.Sprintf("loop device %s on %s", path, strings.TrimSpace(string(text))))
		}
	}
	for _, root := range groupRoots() {
		if _, err := os.Stat(filepath.Join(root, Group(directory))); !errors.Is(err, os.ErrNotExist) {
			left = append(left, "control group "+filepath.Join(root, Group(directory)))
		}
	}
	return left
}

// Remove deletes a test's directory. It refuses while anything is mounted in
// it, in this namespace: to delete across a mount deletes somebody else's
// files.
func Remove(directory string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if strings.Contains(string(mounts), directory) {
		return fmt.Errorf("something is mounted in %s: unmount it, and remove it then", directory)
	}
	return os.RemoveAll(directory)
}
