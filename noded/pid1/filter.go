package pid1

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Filter is a system-call filter (seccomp(2)) that process 1 installs on itself
// before it starts anything. Whatever it starts inherits the filter, and nothing can
// remove it.
type Filter struct {
	Flags   uint32 // SECCOMP_FILTER_FLAG_…, as far as the program asks for them
	Program []unix.SockFilter
}

// maxInstructions is the kernel's own limit (BPF_MAXINSNS).
const maxInstructions = 4096

// Sizes of a filter in bytes.
const (
	filterHead      = 4
	instructionSize = 8
	maxFilterBytes  = filterHead + maxInstructions*instructionSize
)

// errNoFilter is returned for a filter that would let everything pass.
var errNoFilter = errors.New("the system-call filter is empty")

// Encode answers the filter as bytes: the flags, then each instruction as in
// struct sock_filter, least significant byte first.
func (f *Filter) Encode() []byte {
	data := binary.LittleEndian.AppendUint32(make([]byte, 0, filterHead+len(f.Program)*instructionSize), f.Flags)
	for _, i := range f.Program {
		data = binary.LittleEndian.AppendUint16(data, i.Code)
		data = append(data, i.Jt, i.Jf)
		data = binary.LittleEndian.AppendUint32(data, i.K)
	}
	return data
}

// DecodeFilter is the reverse of Encode. The kernel decides whether the program is
// sound when the filter is installed.
func DecodeFilter(data []byte) (*Filter, error) {
	if len(data) <= filterHead {
		return nil, errNoFilter
	}
	program := data[filterHead:]
	if len(data) > maxFilterBytes || len(program)%instructionSize != 0 {
		return nil, fmt.Errorf("the system-call filter has %d bytes, which is no program", len(program))
	}
	f := &Filter{Flags: binary.LittleEndian.Uint32(data)}
	for ; len(program) > 0; program = program[instructionSize:] {
		f.Program = append(f.Program, unix.SockFilter{
			Code: binary.LittleEndian.Uint16(program), Jt: program[2], Jf: program[3], K: binary.LittleEndian.Uint32(program[4:]),
		})
	}
	return f, nil
}

// Install puts the filter on every thread of this process, and makes sure
// that it is there.
func (f *Filter) Install() error {
	if len(f.Program) == 0 {
		return errNoFilter
	}
	program := unix.SockFprog{Len: uint16(len(f.Program)), Filter: &f.Program[0]}
	// TSYNC: all threads get it or none; the answer would be a thread that cannot.
	thread, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		uintptr(f.Flags|unix.SECCOMP_FILTER_FLAG_TSYNC), uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(f)
	if errno != 0 {
		return fmt.Errorf("put on the system-call filter: %w", errno)
	}
	if thread != 0 {
		return fmt.Errorf("put on the system-call filter: thread %d cannot have it", thread)
	}
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	if err != nil || mode != unix.SECCOMP_MODE_FILTER {
		return fmt.Errorf("put on the system-call filter: the kernel says mode %d (%v)", mode, err)
	}
	return nil
}
