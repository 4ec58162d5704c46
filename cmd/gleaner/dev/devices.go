package dev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A stand-in GPU is a character device that does nothing, and that anybody can
// open whom the device cgroup allows. Virtual terminals that nobody uses serve:
// the kernel makes them when they are opened (console_ioctl(4)).
const (
	standInMajor      = 4
	firstStandInMinor = 10
	lastStandInMinor  = 63
	// On a machine without virtual terminals, or when they are used up, a
	// major no driver owns still shows the rule: opening gives ENXIO where it
	// is allowed and EPERM where it is not.
	unownedMajor = 511
)

// standIns makes one device file after another, no two alike.
type standIns struct {
	nextMinor   uint32
	nextUnowned uint32
	made        []string
}

// make creates a stand-in GPU at path, readable and writable by everyone: the
// cgroup decides, not the file's mode.
func (s *standIns) make(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	for minor := max(s.nextMinor, firstStandInMinor); minor <= lastStandInMinor; minor++ {
		s.nextMinor = minor + 1
		if err := s.makeNode(path, unix.Mkdev(standInMajor, minor)); err != nil {
			return err
		}
		if file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0); err == nil {
			file.Close()
			return nil
		}
	}
	s.nextUnowned++
	return s.makeNode(path, unix.Mkdev(unownedMajor, s.nextUnowned))
}

func (s *standIns) makeNode(path string, device uint64) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(device)); err != nil {
		return fmt.Errorf("make a stand-in GPU %s: %w", path, err)
	}
	s.made = append(s.made, path)
	return os.Chmod(path, 0o666) // mknod's mode is cut by the umask
}

// remove deletes every device file that was made.
func (s *standIns) remove() error {
	var all []error
	for _, path := range s.made {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			all = append(all, err)
		}
	}
	s.made = nil
	return errors.Join(all...)
}

// haveNVIDIA reports whether this machine's NVIDIA driver is loaded.
func haveNVIDIA() bool {
	_, err := os.Stat("/dev/nvidiactl")
	return err == nil
}
