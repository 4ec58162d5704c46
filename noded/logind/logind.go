// Package logind hears from systemd that the machine is about to be switched off, or to
// sleep, and has it wait for a while.
//
// What it promises: while Follow runs, systemd-logind waits with a shutdown and with sleep
// until what it told was answered by Done, at most as long as logind allows
// (InhibitDelayMaxSec in logind.conf(5)). A logind that comes later, or again, is found.
//
// What it needs: the system bus, and the right to take such a lock, which root has. Where
// there is neither it is no error: nothing is ever heard. The interfaces are those of
// org.freedesktop.login1(5) and org.freedesktop.systemd1(5).
package logind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

// The names on the bus.
const (
	loginName      = "org.freedesktop.login1"
	loginPath      = "/org/freedesktop/login1"
	loginInterface = "org.freedesktop.login1.Manager"

	systemdName      = "org.freedesktop.systemd1"
	systemdPath      = "/org/freedesktop/systemd1"
	systemdInterface = "org.freedesktop.systemd1.Manager"
	serviceInterface = "org.freedesktop.systemd1.Service"

	properties = "org.freedesktop.DBus.Properties.Get"
)

// How long the bus may take, and how long it is left alone when it is not there.
const (
	answerWithin = 2 * time.Second
	againAfter   = 30 * time.Second
)

// longest is the longest wait that is believed.
const longest = 7 * 24 * time.Hour

// What is about to happen to the machine.
type What int

// In both cases programs do not run meanwhile; after Sleep they go on.
const (
	Shutdown What = iota + 1
	Sleep
)

// Going says that the machine is about to go, or that it does not after all, or is back.
type Going struct {
	What   What
	Begins bool
	Within time.Duration // for how long it waits
	Done   func()        // it need not wait any longer; nil unless Begins
}

// Follow tells what is about to happen until ctx ends. hear does not block.
func Follow(ctx context.Context, hear func(Going), trouble func(error)) {
	for ctx.Err() == nil {
		if err := follow(ctx, hear); err != nil && ctx.Err() == nil {
			trouble(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(againAfter):
		}
	}
}

// lock is one that logind waits for; nil = none.
type lock struct {
	once sync.Once
	file *os.File
}

func (l *lock) release() {
	if l != nil {
		l.once.Do(func() { _ = l.file.Close() }) // it was opened for nothing else
	}
}

// follow does it with one connection.
func follow(ctx context.Context, hear func(Going)) error {
	bus, err := connect(ctx)
	if err != nil {
		return err
	}
	defer bus.Close()
	signals := make(chan *dbus.Signal, 16)
	bus.Signal(signals)
	call, done := context.WithTimeout(ctx, answerWithin)
	err = bus.AddMatchSignalContext(call, dbus.WithMatchSender(loginName), dbus.WithMatchObjectPath(loginPath), dbus.WithMatchInterface(loginInterface))
	done()
	if err != nil {
		return fmt.Errorf("listen to systemd-logind: %w", err)
	}
	held, err := inhibit(ctx, bus)
	defer func() { held.release() }()
	if err != nil {
		return err
	}
	begins := func(what What) {
		within := delayOf(ctx, bus)
		if what == Shutdown { // it stops this service afterwards, and waits for that too
			within += stopTimeout(ctx, bus)
		}
		hear(Going{What: what, Begins: true, Within: within, Done: held.release})
	}
	for what, property := range map[What]string{Shutdown: "PreparingForShutdown", Sleep: "PreparingForSleep"} {
		if under, ok := get(ctx, bus, loginName, loginPath, loginInterface, property).(bool); ok && under {
			begins(what)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-bus.Context().Done():
			return errors.New("the system bus has closed the connection")
		case signal, open := <-signals:
			if !open {
				return errors.New("the system bus has closed the connection")
			}
			what, begin, known := meaning(signal)
			switch {
			case !known:
			case begin:
				begins(what)
			default:
				hear(Going{What: what})
				held.release()
				if held, err = inhibit(ctx, bus); err != nil {
					return err
				}
			}
		}
	}
}

// meaning is what a signal says.
func meaning(signal *dbus.Signal) (what What, begins, known bool) {
	switch signal.Name {
	case loginInterface + ".PrepareForShutdown":
		what = Shutdown
	case loginInterface + ".PrepareForSleep":
		what = Sleep
	default:
		return 0, false, false
	}
	if len(signal.Body) > 0 {
		begins, known = signal.Body[0].(bool)
	}
	return what, begins, known
}

// connect dials the system bus. The connection ends with ctx.
func connect(ctx context.Context) (*dbus.Conn, error) {
	connection, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(answerWithin, cancel)
	bus, err := dbus.ConnectSystemBus(dbus.WithContext(connection))
	if !late.Stop() && err == nil {
		_ = bus.Close()
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("reach the system bus: %w", err)
	}
	context.AfterFunc(bus.Context(), cancel)
	return bus, nil
}

// inhibit takes a lock for which logind waits.
func inhibit(ctx context.Context, bus *dbus.Conn) (*lock, error) {
	call, done := context.WithTimeout(ctx, answerWithin)
	defer done()
	var fd dbus.UnixFD
	err := bus.Object(loginName, loginPath).CallWithContext(call, loginInterface+".Inhibit", 0,
		"shutdown:sleep", "gnoded", "Jobs of other people leave this machine first", "delay").Store(&fd)
	if err != nil {
		return nil, fmt.Errorf("have systemd-logind wait: %w", err)
	}
	return &lock{file: os.NewFile(uintptr(fd), "inhibitor")}, nil
}

// delayOf is how long logind waits.
func delayOf(ctx context.Context, bus *dbus.Conn) time.Duration {
	return microseconds(get(ctx, bus, loginName, loginPath, loginInterface, "InhibitDelayMaxUSec"), 5*time.Second)
}

// get is a property; nil if it cannot be had.
func get(ctx context.Context, bus *dbus.Conn, name string, path dbus.ObjectPath, of, property string) any {
	call, done := context.WithTimeout(ctx, answerWithin)
	defer done()
	var value dbus.Variant
	if err := bus.Object(name, path).CallWithContext(call, properties, dbus.FlagNoAutoStart, of, property).Store(&value); err != nil {
		return nil
	}
	return value.Value()
}

// microseconds reads a time as systemd counts it.
func microseconds(value any, otherwise time.Duration) time.Duration {
	count, ok := value.(uint64)
	switch {
	case !ok:
		return otherwise
	case count > uint64(longest/time.Microsecond):
		return longest
	}
	return time.Duration(count) * time.Microsecond
}

// Stopping reports whether systemd is about to stop the whole machine, and how long it
// waits for this service. Without systemd it is not.
func Stopping(ctx context.Context) (stopping bool, within time.Duration) {
	bus, err := connect(ctx)
	if err != nil {
		return false, 0
	}
	defer bus.Close()
	if state, _ := get(ctx, bus, systemdName, systemdPath, systemdInterface, "SystemState").(string); state != "stopping" {
		return false, 0
	}
	return true, stopTimeout(ctx, bus)
}

// stopTimeout is how long systemd waits for this service when it stops it; 0 = this is
// none.
func stopTimeout(ctx context.Context, bus *dbus.Conn) time.Duration {
	call, done := context.WithTimeout(ctx, answerWithin)
	defer done()
	var unit dbus.ObjectPath
	err := bus.Object(systemdName, systemdPath).CallWithContext(call, systemdInterface+".GetUnitByPID", dbus.FlagNoAutoStart, uint32(os.Getpid())).Store(&unit)
	if err != nil {
		return 0
	}
	return microseconds(get(ctx, bus, systemdName, unit, serviceInterface, "TimeoutStopUSec"), 0)
}
