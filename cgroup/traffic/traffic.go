// Package traffic bounds what the processes of control groups send and receive over the
// network, all together.
//
// A Limit is attached to a group of the v2 hierarchy and counts the packets of all sockets
// that were made by processes below it, whatever network namespace these are in. It works
// where the controllers are those of v1 too, as long as a v2 hierarchy is mounted beside
// them. Groups below it can be excepted.
//
// What the package promises: each way, what passes in a second is at most the rate, and at
// most a quarter of it more for a moment; packets that never leave the machine (the
// loopback device) are not counted; a Limit stays in force when the process that set it
// dies, until Clear or until the group is removed; Set replaces what an earlier process had
// attached without a moment in between.
//
// What it does not see: what the kernel sends by itself for a process, such as reads and
// writes of files on a network file system; and sockets that processes outside the group
// have made and passed on. What comes in has crossed the wire before it is dropped: the
// sender slows down if it heeds that, as TCP does.
//
// What it needs: root, and a kernel with CONFIG_CGROUP_BPF.
package traffic

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// ErrUnsupported is returned where this kernel cannot bound a group's traffic.
var ErrUnsupported = errors.New("the kernel cannot bound the network traffic of a control group")

// maxExcepted bounds the groups that can be excepted at once.
const maxExcepted = 8192

// Limit bounds the traffic of one group. Its methods may be called from several goroutines.
type Limit struct {
	directory string

	mu       sync.Mutex
	rate     uint64 // bytes a second; 0 = nothing is attached by this process
	settings *ebpf.Map
	excepted *ebpf.Map
	programs []*ebpf.Program
	but      []uint64 // ids of excepted groups, ascending
}

// On is the limit of the group whose directory in the v2 hierarchy this is. It sets nothing.
func On(directory string) *Limit { return &Limit{directory: directory} }

// Check reports why the group's traffic could not be bounded, or nil. It attaches a program
// that lets everything pass, and takes it away.
func (l *Limit) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.programs != nil {
		return nil
	}
	programs, settings, excepted, err := load(1)
	if err != nil {
		return err
	}
	defer closeAll(programs, settings, excepted)
	group, err := l.open()
	if err != nil {
		return err
	}
	defer group.Close()
	// An empty table of settings lets all pass.
	if err := settings.Put(uint32(0), setting{}); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	for i, program := range programs {
		if err := attach(group, program, ways[i].attach); err != nil {
			return fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
		if err := detach(group, program, ways[i].attach); err != nil {
			return fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
	}
	return nil
}

// Set bounds the traffic to a rate each way, in bytes a second, which is not 0.
func (l *Limit) Set(rate uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.programs != nil {
		if rate == l.rate {
			return nil
		}
		if err := l.settings.Put(uint32(0), settingOf(rate)); err != nil {
			return fmt.Errorf("bound the traffic of %s: %w", l.directory, err)
		}
		l.rate = rate
		return nil
	}
	group, err := l.open()
	if err != nil {
		return err
	}
	defer group.Close()
	programs, settings, excepted, err := load(rate)
	if err != nil {
		return err
	}
	for i, program := range programs {
		if err := errors.Join(attach(group, program, ways[i].attach), clear(group, ways[i], program)); err != nil {
			closeAll(programs, settings, excepted)
			return fmt.Errorf("bound the traffic of %s: %w", l.directory, err)
		}
	}
	l.programs, l.settings, l.excepted, l.rate, l.but = programs, settings, excepted, rate, nil
	return nil
}

// Except lets these groups send and receive what they like, and no others that were
// excepted before. They are named by their directories; those that are not there are left
// out. Without a limit it does nothing.
func (l *Limit) Except(directories []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.programs == nil {
		return nil
	}
	var but []uint64
	for _, directory := range directories {
		var stat unix.Stat_t
		if unix.Lstat(directory, &stat) == nil && len(but) < maxExcepted {
			but = append(but, stat.Ino) // which is the group's id
		}
	}
	slices.Sort(but)
	for _, id := range l.but {
		if _, still := slices.BinarySearch(but, id); still {
			continue
		}
		if err := l.excepted.Delete(id); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("bound the traffic of a group in %s again: %w", l.directory, err)
		}
	}
	for _, id := range but {
		if _, already := slices.BinarySearch(l.but, id); already {
			continue
		}
		if err := l.excepted.Put(id, uint32(1)); err != nil {
			return fmt.Errorf("except a group in %s: %w", l.directory, err)
		}
	}
	l.but = but
	return nil
}

// Clear ends the limit, whichever process has set it.
func (l *Limit) Clear() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	group, err := l.open()
	if err != nil {
		return err
	}
	defer group.Close()
	for _, way := range ways {
		if err := clear(group, way, nil); err != nil {
			return fmt.Errorf("lift the bound on the traffic of %s: %w", l.directory, err)
		}
	}
	closeAll(l.programs, l.settings, l.excepted)
	l.programs, l.settings, l.excepted, l.rate, l.but = nil, nil, nil, 0, nil
	return nil
}

// open opens the group's directory.
func (l *Limit) open() (*os.File, error) {
	group, err := os.Open(l.directory)
	if err != nil {
		return nil, fmt.Errorf("bound the traffic of a group: %w", err)
	}
	return group, nil
}

func attach(group *os.File, program *ebpf.Program, way ebpf.AttachType) error {
	return link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: int(group.Fd()), Program: program, Attach: way, Flags: unix.BPF_F_ALLOW_MULTI,
	})
}

func detach(group *os.File, program *ebpf.Program, way ebpf.AttachType) error {
	return link.RawDetachProgram(link.RawDetachProgramOptions{Target: int(group.Fd()), Program: program, Attach: way})
}

// clear takes away what this package has attached to a group, but for one program.
func clear(group *os.File, way way, but *ebpf.Program) error {
	found, err := link.QueryPrograms(link.QueryOptions{Target: int(group.Fd()), Attach: way.attach})
	if err != nil {
		if but == nil && errors.Is(err, ebpf.ErrNotSupported) {
			return nil // then there is none
		}
		return err
	}
	for _, attached := range found.Programs {
		if err := clearOne(group, way, attached.ID, but); err != nil {
			return err
		}
	}
	return nil
}

func clearOne(group *os.File, way way, id ebpf.ProgramID, but *ebpf.Program) error {
	program, err := ebpf.NewProgramFromID(id)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it went meanwhile
	}
	if err != nil {
		return err
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return err
	}
	if info.Name != way.name {
		return nil
	}
	if but != nil {
		own, err := but.Info()
		if err != nil {
			return err
		}
		if ownID, _ := own.ID(); ownID == id {
			return nil
		}
	}
	return detach(group, program, way.attach)
}

func closeAll(programs []*ebpf.Program, maps ...*ebpf.Map) {
	for _, program := range programs {
		_ = program.Close() // what is attached stays
	}
	for _, m := range maps {
		if m != nil {
			_ = m.Close()
		}
	}
}
