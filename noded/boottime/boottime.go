// Package boottime is the clock of leases: CLOCK_BOOTTIME, time since the
// machine was started, which continues while it sleeps and which nobody sets.
//
// Contract: a Timer that was due while the machine slept fires when it wakes
// up. (Timers of package time stop meanwhile, and would give a job as
// much time again.) See clock_gettime(2), timerfd_create(2).
package boottime

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since the machine was started.
func Now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		// The clock is in every kernel since 2.6.39, so this cannot happen, and
		// a lease without a clock must not continue.
		panic(fmt.Sprintf("read CLOCK_BOOTTIME: %v", err))
	}
	return time.Duration(now.Nano())
}

// Timer sends on C when its time has come.
type Timer struct {
	C    chan struct{}
	file *os.File
}

// NewTimer makes one that is not set.
func NewTimer() (*Timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer of CLOCK_BOOTTIME: %w", err)
	}
	t := &Timer{C: make(chan struct{}, 1), file: os.NewFile(uintptr(fd), "timerfd")}
	go func() {
		for count := make([]byte, 8); ; {
			if _, err := t.file.Read(count); err != nil {
				return // closed
			}
			select {
			case t.C <- struct{}{}:
			default:
			}
		}
	}()
	return t, nil
}

// Set makes it fire at a time, or soon if that is past; 0 makes it not fire.
func (t *Timer) Set(at time.Duration) error {
	var spec unix.ItimerSpec
	if at != 0 {
		spec.Value = unix.NsecToTimespec(max(int64(at), 1)) // zero would unset it
	}
	conn, err := t.file.SyscallConn()
	if err != nil {
		return err
	}
	var setErr error
	err = conn.Control(func(fd uintptr) { setErr = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil) })
	if err == nil {
		err = setErr
	}
	if err != nil {
		return fmt.Errorf("set a timer of CLOCK_BOOTTIME: %w", err)
	}
	return nil
}

// Close gives it back.
func (t *Timer) Close() { t.file.Close() }
