// Package cuda takes what processes have in the memory of NVIDIA GPUs into
// host memory, and back: there or on other GPUs of the same chip. Between the
// two a process holds no GPU, and CRIU can save it like any other. It uses the
// checkpoint calls of the driver's library (cuCheckpointProcess…, driver 570 or
// later) through purego, so that nothing of NVIDIA's is needed to build, and
// knows nothing of jobs or clusters.
//
// What it promises: of the processes that are parked together, all are locked
// before the first is checkpointed, and the state of each is read back after
// every step. Park parks all or none: when a step fails, everything is undone
// in reverse, and either all processes run as before or a *StuckError names
// those that do not, and what to do. Unpark lets none run before the memory of
// all is back. Neither takes a process for another that has got its number.
//
// The library is used by one helper process, which is started when it is first
// needed and kept, because its first call (cuInit) takes seconds. It may crash
// or hang: every call has a deadline, after which the helper is killed and the
// next call starts another; what the processes are in then is asked, not
// guessed.
//
// What it needs: root; the process ids of the host; that the processes run
// while they are parked and unparked, because their own threads do the work:
// park before freezing, unpark after thawing. Host memory for all that is in
// GPU memory, which counts for the control group of the processes: see Need.
//
// Tests drive it through a stand-in for the library, which keeps to what NVIDIA's
// reference says (testdata/standin.c). TestOnGPU runs where there is a GPU; it did on an
// H200 with driver 580.159.04. Seen there, and not in the reference: calls about a process
// that SIGSTOP has stopped wait until it is continued, whatever timeout they are given;
// memory that was shared (CUDA IPC) is taken away without an error and never comes back;
// a process that was forked by one that uses CUDA answers "not initialized" and keeps its
// parent's devices open; each parked process keeps some 540 MB of host memory beside what
// it had allocated.
//
// Cost: a process without NVIDIA devices costs a look at its descriptors and,
// if it has none open, at its map of memory. One that has costs 0.4 s and the time to
// copy its GPU memory: 1.7 GB/s to the host and 5 GB/s back were seen.
package cuda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Parker parks and unparks the processes of one job.
type Parker interface {
	// Park takes the GPU memory of those of the processes that use CUDA into
	// host memory. All of them are parked, or none and there is an error. With a
	// *StuckError it answers those that may be unparked later. The processes
	// must run, and must not start others that use CUDA meanwhile: ask
	// Users again once they are frozen.
	Park(ctx context.Context, pids []int) (Parked, error)
	// Unpark takes it back to the GPUs, or to others: gpus has the UUID of the
	// new one for each old one, and is empty when none has changed. Processes
	// that have ended are left out. Before all have their memory back none runs;
	// after an error it may be called again.
	Unpark(ctx context.Context, parked Parked, gpus map[string]string) error
	// Close ends the helper.
	Close() error
}

// Parked are processes that were parked. It can be kept as JSON; see In.
type Parked struct {
	Processes []Process `json:"processes,omitempty"` // ascending by PID
}

// State is the state of a process towards the driver.
type State int32

// States, as the driver has them (CUprocessState).
const (
	Running      State = 0
	Locked       State = 1 // its calls of CUDA wait
	Checkpointed State = 2 // it holds no GPU
	Failed       State = 3 // its calls of CUDA fail from now on
)

// String is the state in a word.
func (s State) String() string {
	switch s {
	case Running:
		return "running"
	case Locked:
		return "locked"
	case Checkpointed:
		return "checkpointed"
	case Failed:
		return "failed"
	}
	return fmt.Sprintf("State(%d)", int32(s))
}

var (
	// ErrNoDriver is returned, wrapped, where the driver's library cannot be
	// loaded or finds no GPU.
	ErrNoDriver = errors.New("no CUDA driver")
	// ErrTooOld is returned, wrapped, by a driver without the calls.
	ErrTooOld = errors.New("the NVIDIA driver is older than 570 and cannot take GPU memory away: install 570 or later")
	// ErrHelper is returned, wrapped, when the helper died or did not answer in
	// time.
	ErrHelper = errors.New("the helper that uses the CUDA driver")
	// ErrGone is returned, wrapped, for parked processes that are not found.
	ErrGone = errors.New("a parked process is not there")
)

// CallError is a call that the driver refused.
type CallError struct {
	Call string // as it is named in the driver's API
	PID  int
	Code int32
	Name string // of the code; "" = the driver has none
}

// What the driver answers, in numbers of its API (CUresult).
const (
	codeNotInitialized = 3
	codeNoDevice       = 100
	codeIllegalState   = 401
	codeNotPermitted   = 800
	codeNotSupported   = 801
)

func (e *CallError) Error() string {
	name := e.Name
	if name == "" {
		name = "error"
	}
	text := fmt.Sprintf("%s of process %d: %s (%d)", e.Call, e.PID, name, e.Code)
	if e.Code == codeNotSupported {
		text += ": it uses what the driver cannot take away: unified memory, MIG or MPS"
	}
	return text
}

// HoldsError is returned, wrapped, for a process that has NVIDIA devices open which the
// driver cannot take away. That is over when it closes them or ends: a program that asks
// about GPUs does so in a moment, and a child that was forked by one that uses CUDA not
// before it ends.
type HoldsError struct {
	PID int
	Why string // in a sentence, with the remedy
	Err error
}

func (e *HoldsError) Error() string { return fmt.Sprintf("process %d %s: %v", e.PID, e.Why, e.Err) }

func (e *HoldsError) Unwrap() error { return e.Err }

// Lasts says whether Start or Park will fail in the same way however often they are
// called, as long as the processes do not change. The driver refuses for good what it
// cannot do; whatever else it answers may be different next time.
func Lasts(err error) bool {
	var stuck *StuckError
	if errors.As(err, &stuck) && slices.ContainsFunc(stuck.Stuck, func(s Stuck) bool { return s.State == Failed && !s.Unknown }) {
		return true
	}
	var refused *CallError
	return errors.Is(err, ErrNoDriver) || errors.Is(err, ErrTooOld) ||
		errors.As(err, &refused) && (refused.Code == codeNotSupported || refused.Code == codeNotPermitted)
}

// StuckError says which processes do not run although they should.
type StuckError struct {
	Stuck []Stuck // ascending by PID
	Cause error
}

// Stuck is a process that does not run.
type Stuck struct {
	PID   int
	State State
	// Unknown: the driver does not tell its state.
	Unknown bool
}

func (e *StuckError) Error() string {
	var out strings.Builder
	for i, s := range e.Stuck {
		if i > 0 {
			out.WriteString(", ")
		}
		state := s.State.String()
		if s.Unknown {
			state = "in a state that the driver does not tell"
		}
		fmt.Fprintf(&out, "process %d is %s", s.PID, state)
	}
	fmt.Fprintf(&out, " and cannot use its GPU: unpark again, or end the job (gcancel), since it may wait for ever; nvidia-smi and dmesg | grep -i -e nvrm -e xid say how the GPU is: %v", e.Cause)
	return out.String()
}

func (e *StuckError) Unwrap() error { return e.Cause }
