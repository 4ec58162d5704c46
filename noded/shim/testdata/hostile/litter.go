package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// litter leaves in a directory whatever a clean-up could stumble over: count
// small files, and trees that are count/20 deep.
func litter(dir string, count int) error {
	for _, step := range []func(string, int) error{links, specials, closed, names, many, deep, sizes} {
		if err := step(dir, count); err != nil {
			return err
		}
	}
	return nil
}

// links lead out of the directory, nowhere, and to themselves.
func links(dir string, _ int) error {
	var failures []error
	for i, target := range []string{"/", "/etc/passwd", "/root", "/home", "..", ".", "link6", "/nonexistent", "/proc/self/root", os.Args[0]} {
		failures = append(failures, os.Symlink(target, filepath.Join(dir, fmt.Sprint("link", i))))
	}
	return errors.Join(failures...)
}

// specials are neither files nor directories. The listener stays open in a
// process that outlives this one.
func specials(dir string, _ int) error {
	listener, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		return err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	open, err := os.Create(filepath.Join(dir, "deleted"))
	if err != nil {
		return err
	}
	if _, err := open.Write(make([]byte, 1<<20)); err != nil {
		return err
	}
	if err := os.Remove(open.Name()); err != nil {
		return err
	}
	holder := exec.Command("sh", "-c", "trap '' TERM HUP INT; exec sleep 1000")
	holder.ExtraFiles = []*os.File{open}
	holder.Dir = dir
	holder.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// A whiteout of an overlay is a device without a number.
	_ = syscall.Mknod(filepath.Join(dir, "whiteout"), syscall.S_IFCHR, 0)
	return errors.Join(holder.Start(), syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
}

// closed things have no permission at all, or strange ones.
func closed(dir string, _ int) error {
	inner := filepath.Join(dir, "closed", "closed")
	if err := os.MkdirAll(inner, 0o700); err != nil {
		return err
	}
	file := filepath.Join(inner, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	return errors.Join(os.Chmod(file, 0), os.Chmod(inner, 0), os.Chmod(filepath.Dir(inner), 0),
		os.WriteFile(filepath.Join(dir, "suid"), nil, 0o600), syscall.Chmod(filepath.Join(dir, "suid"), 0o7777))
}

// names are what shells and careless programs stumble over. A directory named
// .deep-0 is where the clean-up itself would put one.
func names(dir string, _ int) error {
	var failures []error
	for _, name := range []string{
		"new\nline", "\xff\xfe not UTF-8", strings.Repeat("x", 255), "-rf", "*", " ", "...", "\\", "\"'$(reboot)`reboot`", "\x1b[31m", "\x7f",
	} {
		failures = append(failures, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for i := range 5 {
		failures = append(failures, os.MkdirAll(filepath.Join(dir, fmt.Sprint(".deep-", i), "x"), 0o700))
	}
	return errors.Join(failures...)
}

func many(dir string, count int) error {
	dir = filepath.Join(dir, "many")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for i := range count {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("x"), 0o600); err != nil {
			return err
		}
	}
	for i := range min(count, 1000) {
		if err := os.Link(filepath.Join(dir, fmt.Sprint(i)), filepath.Join(dir, fmt.Sprint("link", i))); err != nil {
			return err
		}
	}
	return nil
}

// deep is a tree deeper than any path is long, with files on the way.
func deep(dir string, count int) error {
	here, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	for i := 0; err == nil && i < count/20; i++ {
		err = syscall.Mkdirat(here, "deep", 0o700)
		if err == nil && i%50 == 0 {
			var file int
			file, err = syscall.Openat(here, "file", syscall.O_CREAT|syscall.O_WRONLY, 0)
			_ = syscall.Close(file)
		}
		if err == nil {
			var next int
			next, err = syscall.Openat(here, "deep", syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
			_ = syscall.Close(here)
			here = next
		}
	}
	_ = syscall.Close(here)
	return err
}

func sizes(dir string, _ int) error {
	f, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		return err
	}
	// As large as the file system lets it be.
	for size := int64(1) << 50; size > 0 && f.Truncate(size) != nil; {
		size >>= 1
	}
	_, err = f.WriteAt([]byte("x"), 1<<30)
	return errors.Join(err, f.Close())
}
