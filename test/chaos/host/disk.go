package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Requests that stop and resume all writing to a file system (linux/fs.h).
const (
	freezeRequest = 0xC0045877
	thawRequest   = 0xC0045878
)

// toolLimit bounds every program that is run to prepare something.
const toolLimit = 30 * time.Second

// filler is the file that takes what a disk has left.
const filler = "filler"

// Disk is a file system in a file.
type Disk struct {
	Path   string // where it is mounted
	image  string
	mu     sync.Mutex
	frozen bool
}

// NewDisk makes a file system of so many MiB and mounts it. It is unmounted,
// and its loop device free, when the last namespace that has it is gone.
func (l *Lab) NewDisk(name string, mib int64) (*Disk, error) {
	d := &Disk{Path: filepath.Join(l.Directory, hostsFolder, name), image: filepath.Join(l.Directory, name+".img")}
	if err := os.MkdirAll(d.Path, 0o755); err != nil {
		return nil, err
	}
	image, err := os.OpenFile(d.image, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(image.Truncate(mib<<20), image.Close()); err != nil {
		return nil, err
	}
	if err := tool("mkfs.ext4", "-q", "-F", "-m", "0", d.image); err != nil {
		return nil, err
	}
	if err := tool("mount", "-o", "loop,noatime", d.image, d.Path); err != nil {
		return nil, err
	}
	return d, os.Chmod(d.Path, 0o711)
}

// tool runs a program that is there on every Debian.
func tool(name string, arguments ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), toolLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Fill takes what is left on the disk, but for so many bytes.
func (d *Disk) Fill(leave int64) error {
	file, err := os.OpenFile(filepath.Join(d.Path, filler), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	var about unix.Statfs_t
	if err := unix.Statfs(d.Path, &about); err != nil {
		return err
	}
	// What is free changes meanwhile, and fallocate takes all or nothing.
	for want := int64(about.Bfree)*about.Bsize - leave; want >= about.Bsize; want /= 2 {
		at, err := file.Seek(0, 2)
		if err != nil {
			return err
		}
		switch err := unix.Fallocate(int(file.Fd()), 0, at, want); {
		case err == nil, errors.Is(err, unix.ENOSPC):
		default:
			return fmt.Errorf("fill %s: %w", d.Path, err)
		}
	}
	return nil
}

// Empty gives back what Fill took.
func (d *Disk) Empty() error {
	err := os.Remove(filepath.Join(d.Path, filler))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Stall lets every write to the disk wait for a while. A process that waits
// cannot even be killed until then, as with a real disk that does not answer.
func (d *Disk) Stall(ctx context.Context, length time.Duration) error {
	if err := d.freeze(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(length):
	}
	return d.Thaw()
}

func (d *Disk) freeze() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen {
		return nil
	}
	if err := d.request(freezeRequest); err != nil {
		return fmt.Errorf("freeze %s: %w", d.Path, err)
	}
	d.frozen = true
	return nil
}

// Thaw ends a Stall at once.
func (d *Disk) Thaw() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.frozen {
		return nil
	}
	if err := d.request(thawRequest); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("thaw %s: %w", d.Path, err)
	}
	d.frozen = false
	return nil
}

func (d *Disk) request(request uint) error { return requestOf(d.Path, request) }

func requestOf(path string, request uint) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	defer directory.Close()
	return unix.IoctlSetInt(int(directory.Fd()), request, 0)
}
