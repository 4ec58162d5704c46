// Package logindtest is a stand-in for systemd-logind and systemd on a real message bus of
// its own, for tests: where tests run there is neither.
package logindtest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// Settings is what the stand-ins say.
type Settings struct {
	Delay       time.Duration // InhibitDelayMaxSec
	StopTimeout time.Duration // TimeoutStopSec of this process; 0 = it is no service
	Preparing   string        // a property that is true from the beginning
}

// Machine is the stand-in.
type Machine struct {
	Address string // of the bus

	close    []func()
	bus      *dbus.Conn
	settings Settings

	mu         sync.Mutex
	state      string
	locks      []int // our ends of those that were given out
	what, mode string
	preparing  map[string]bool
}

// config lets everybody who reaches the bus own every name and call everything.
const config = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>custom</type><listen>unix:path=SOCKET</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`

// Start is Open for a test, for whose process the bus is the system's. It skips the test
// where there is no dbus-daemon.
func Start(t *testing.T, settings Settings) *Machine {
	t.Helper()
	if _, err := exec.LookPath(Daemon); err != nil {
		t.Skip("dbus-daemon is not installed, and systemd-logind is heard over its bus: apt-get install dbus-daemon")
	}
	m, err := Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", m.Address)
	return m
}

// Daemon is the program of the bus.
const Daemon = "dbus-daemon"

// Open starts a bus with the stand-ins.
func Open(settings Settings) (*Machine, error) {
	directory, err := os.MkdirTemp("", "bus") // a socket's path is short
	if err != nil {
		return nil, err
	}
	m := &Machine{settings: settings, state: "running", preparing: map[string]bool{settings.Preparing: true}}
	m.close = append(m.close, func() { _ = os.RemoveAll(directory) })
	if err := m.start(directory); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Close ends all of it.
func (m *Machine) Close() {
	for i := len(m.close) - 1; i >= 0; i-- {
		m.close[i]()
	}
	m.close = nil
}

// start starts the bus, and serves on it.
func (m *Machine) start(directory string) error {
	socket, file := filepath.Join(directory, "bus"), filepath.Join(directory, "conf")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(config, "SOCKET", socket)), 0o600); err != nil {
		return err
	}
	daemon := exec.Command(Daemon, "--config-file="+file, "--nofork", "--nopidfile", "--print-address=1")
	daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := daemon.StdoutPipe()
	if err != nil {
		return err
	}
	if err := prototest.StartTied(daemon); err != nil {
		return err
	}
	m.close = append(m.close, func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	})
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		return fmt.Errorf("%s says nothing: %w", Daemon, err)
	}
	m.Address = "unix:path=" + socket
	return m.serve()
}

func (m *Machine) serve() error {
	bus, err := dbus.Connect(m.Address)
	if err != nil {
		return err
	}
	m.close = append(m.close, func() { _ = bus.Close() })
	m.bus = bus
	for _, export := range []struct {
		what any
		path dbus.ObjectPath
		as   string
	}{
		{login{m}, loginPath, loginInterface}, {systemd{m}, systemdPath, systemdInterface},
		{properties{m}, loginPath, propertiesInterface}, {properties{m}, systemdPath, propertiesInterface}, {properties{m}, unitPath, propertiesInterface},
	} {
		if err := bus.Export(export.what, export.path, export.as); err != nil {
			return err
		}
	}
	for _, name := range []string{"org.freedesktop.login1", "org.freedesktop.systemd1"} {
		if reply, err := bus.RequestName(name, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
			return fmt.Errorf("own %s: %v, %w", name, reply, err)
		}
	}
	return nil
}

const (
	loginPath           = "/org/freedesktop/login1"
	loginInterface      = "org.freedesktop.login1.Manager"
	systemdPath         = "/org/freedesktop/systemd1"
	systemdInterface    = "org.freedesktop.systemd1.Manager"
	unitPath            = "/org/freedesktop/systemd1/unit/gnoded_2eservice"
	propertiesInterface = "org.freedesktop.DBus.Properties"
)

type login struct{ m *Machine }

// Inhibit gives out a lock: the reading end of a pipe, as logind does it the other way
// round. It is released when all its descriptors are closed.
func (l login) Inhibit(what, _, _, mode string) (dbus.UnixFD, *dbus.Error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.m.what, l.m.mode = what, mode
	l.m.locks = append(l.m.locks, ends[0])
	time.AfterFunc(time.Second, func() { _ = unix.Close(ends[1]) }) // the reply has gone out by then
	return dbus.UnixFD(ends[1]), nil
}

type systemd struct{ m *Machine }

// GetUnitByPID answers the unit of this process.
func (s systemd) GetUnitByPID(pid uint32) (dbus.ObjectPath, *dbus.Error) {
	if s.m.settings.StopTimeout == 0 || pid != uint32(os.Getpid()) {
		return "", dbus.NewError("org.freedesktop.systemd1.NoUnitForPID", nil)
	}
	return unitPath, nil
}

type properties struct{ m *Machine }

// Get answers the properties that are asked for.
func (p properties) Get(_, name string) (dbus.Variant, *dbus.Error) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	switch name {
	case "InhibitDelayMaxUSec":
		return dbus.MakeVariant(uint64(p.m.settings.Delay.Microseconds())), nil
	case "TimeoutStopUSec":
		return dbus.MakeVariant(uint64(p.m.settings.StopTimeout.Microseconds())), nil
	case "SystemState":
		return dbus.MakeVariant(p.m.state), nil
	case "PreparingForShutdown", "PreparingForSleep":
		return dbus.MakeVariant(p.m.preparing[name]), nil
	}
	return dbus.Variant{}, dbus.MakeFailedError(os.ErrNotExist)
}

// Prepare sends PrepareForShutdown or PrepareForSleep.
func (m *Machine) Prepare(t testing.TB, signal string, begins bool) {
	t.Helper()
	if err := m.Signal(signal, begins); err != nil {
		t.Fatal(err)
	}
}

// Signal is Prepare without a test.
func (m *Machine) Signal(signal string, begins bool) error {
	return m.bus.Emit(loginPath, loginInterface+"."+signal, begins)
}

// SystemState sets what systemd says of the machine.
func (m *Machine) SystemState(state string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = state
}

// Asked is what was asked for last.
func (m *Machine) Asked() (what, mode string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.what, m.mode
}

// Locks is how many locks are held.
func (m *Machine) Locks() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := 0
	for _, fd := range m.locks {
		// At the end of the pipe a read answers at once.
		if _, err := unix.Read(fd, make([]byte, 1)); err != nil {
			held++
		}
	}
	return held
}

// AwaitLocks waits until so many locks are held.
func (m *Machine) AwaitLocks(t *testing.T, want int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); m.Locks() != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d locks are held, want %d", m.Locks(), want)
		}
	}
}
