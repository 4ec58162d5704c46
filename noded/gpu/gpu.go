// Package gpu says which GPUs a node has, how they are, and which device files
// a program needs to use them.
//
// What it promises: a Source lists every device it ever showed, in the order
// of their indexes; one that stops working is listed as failed with the cause,
// not left out, so that nobody takes its absence for a smaller machine. A
// machine without an NVIDIA driver is no error but ErrNoDriver. Devices may be
// called again and again, from several goroutines.
//
// What it needs: the NVIDIA driver's library (libnvidia-ml.so.1) at run time,
// and nothing of it to build. The library is reached from this package alone.
package gpu

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

var (
	// ErrNoDriver is returned by OpenNVML where no NVIDIA driver is installed
	// or loaded.
	ErrNoDriver = errors.New("no NVIDIA driver")
	// ErrNoDevice is returned for a path that is not a character device.
	ErrNoDevice = errors.New("not a character device")
)

// Source is where a node's GPUs come from.
type Source interface {
	// Devices answers all devices as they are now, ascending by index. An
	// error means that the source as a whole cannot be asked; what is wrong
	// with one device is told in its health.
	Devices() ([]Device, error)
	// Companions answers the device files that a program needs beside those
	// of its own GPUs, and the names of those that ought to be there and are
	// not.
	Companions() (files []File, missing []string)
	// Close ends the watching for failures. The source is not to be used
	// afterwards.
	Close() error
}

// Health is how a device is.
type Health int

// A device that is not OK is given to no job. One that waits for a reset is
// sound otherwise.
const (
	OK Health = iota
	Failed
	Recovering
)

// String answers "ok", "failed" or "recovering".
func (h Health) String() string {
	switch h {
	case OK:
		return "ok"
	case Failed:
		return "failed"
	case Recovering:
		return "recovering"
	}
	return fmt.Sprintf("Health(%d)", int(h))
}

// Device is one whole GPU.
type Device struct {
	ID           string // the GPU's UUID, or the id that the configuration gave it
	Index        int    // as nvidia-smi counts, or the position in the configuration
	Model        string // one word: see ModelWord
	Product      string // as the maker calls it
	MemoryBytes  uint64
	Health       Health
	HealthDetail string   // "" when OK
	Links        []string // ids of the devices with a fast link to this one
	CPUAffinity  []int    // ids of the CPUs near it, ascending; empty = all
	File         File
}

// File is a device file.
type File struct {
	Path          string // on the host
	ContainerPath string // where a job sees it
	Companion     bool   // of all GPUs, and none itself
	Major, Minor  int64
}

// fail marks the device. The first cause stays: what follows is often its
// consequence.
func (d *Device) fail(health Health, detail string) {
	if d.Health == OK {
		d.Health, d.HealthDetail = health, detail
	}
}

// statFile answers the device file at path. A link is followed: udev makes
// such names.
func statFile(path string) (File, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return File{Path: path, ContainerPath: path}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return File{Path: path, ContainerPath: path}, fmt.Errorf("%s: %w", path, ErrNoDevice)
	}
	return File{
		Path: path, ContainerPath: path,
		Major: int64(unix.Major(st.Rdev)), Minor: int64(unix.Minor(st.Rdev)),
	}, nil
}

// cudaCompanions are what libcuda opens beside the GPU's own file. The majors
// of the latter two are given out when the module is loaded, so they are read
// from the files.
var cudaCompanions = []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"}

// findCompanions looks for cudaCompanions in directory, which is /dev.
func findCompanions(directory string) (files []File, missing []string) {
	for _, name := range cudaCompanions {
		file, err := statFile(directory + "/" + name)
		if err != nil {
			missing = append(missing, file.Path)
			continue
		}
		file.Companion = true
		files = append(files, file)
	}
	return files, missing
}
