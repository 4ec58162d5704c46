package pid1

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// terminal is the side of a pseudo terminal from which it is read and written.
// It is never in blocking mode, so that closing it wakes the reader.
type terminal struct{ *os.File }

// openTerminal makes a terminal in the container's own devpts, and opens the side of
// the programs.
func openTerminal(size step.Window) (t terminal, theirs *os.File, err error) {
	file, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return t, nil, fmt.Errorf("make a terminal: %w", err)
	}
	t = terminal{file}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	number := 0
	err = t.control(func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	})
	if err != nil {
		return t, nil, fmt.Errorf("make a terminal: %w", err)
	}
	if theirs, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return t, nil, fmt.Errorf("open the terminal: %w", err)
	}
	_ = t.resize(size) // programs take one of size 0 for any
	return t, theirs, nil
}

func (t terminal) control(do func(fd int) error) error {
	raw, err := t.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// resize changes its size. If it differs, the kernel tells the programs in the
// foreground.
func (t terminal) resize(size step.Window) error {
	return t.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Columns})
	})
}

// redraw makes the programs in the foreground draw their screen again, as after a
// change of its size.
func (t terminal) redraw() {
	_ = t.control(func(fd int) error {
		group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err == nil && group > 1 {
			err = unix.Kill(-group, unix.SIGWINCH)
		}
		return err
	})
}
