// Package step is the protocol between whoever starts tasks inside a job
// (grun, the supervisor of the job's part) and process 1 of the job's
// container.
//
// It runs over any byte stream, a unix socket or a tunnel between two nodes.
// A frame is one byte of kind, four bytes of length (big endian) and the
// payload: JSON for control messages, raw bytes after a small header for
// standard input and output. Every length is bounded, so that a reader never
// holds more than MaxControlBytes of a peer's making.
//
// A connection may ask any number of questions (Allocate, Signal, StartBatch:
// one answer each, in order) and may then send one Launch. From then on it
// carries that step's tasks on that node until Done. Closing it kills them.
// What Allocate was granted is the step's until its connection is closed, or Release.
// What outlives its connection is a session: see Open.
//
// Standard input is flow controlled: the client has InputWindow bytes to
// send, and gets back with InputCredit what has been written to tasks. So a
// task that does not read never holds up a Signal on the same connection.
//
// The package needs the standard library only, so that process 1 stays small.
package step

import (
	"encoding/json"
	"errors"
)

// Limits of one frame and of one launch.
// NobodyToSignal is what process 1 answers to a signal that no process is there for.
const NobodyToSignal = "no process runs that the signal could be for"

const (
	// MaxDataBytes is the most bytes of Output.Data and Input.Data: what a
	// tunnel carries in one message, less the header.
	MaxDataBytes = 256<<10 - 64
	// MaxControlBytes bounds a control payload. The environment of a job is at
	// most 1 MiB, base64 makes that 1.4 MiB, and tasks may have some more.
	MaxControlBytes = 8 << 20
	// MaxTasks is the most tasks of one step on one node.
	MaxTasks = 4096
	// InputWindow is how many bytes of input may be on their way.
	InputWindow = 256 << 10
)

var (
	// ErrTooLong is returned when a frame is longer than its kind may be.
	ErrTooLong = errors.New("step protocol: frame too long")
	// ErrMalformed is returned when a frame is not of the protocol.
	ErrMalformed = errors.New("step protocol: malformed frame")
	// ErrUnexpected is returned when a message came that does not belong here.
	ErrUnexpected = errors.New("step protocol: unexpected message")
	// ErrClosed is returned when the connection ended before Done.
	ErrClosed = errors.New("step protocol: connection closed before the step was done")
)

// Kind is the first byte of a frame. Numbers are append-only.
type Kind byte

// Kinds sent by the client are below 16, most others by process 1.
const (
	KindSteps      Kind = 1
	KindLaunch     Kind = 2
	KindInput      Kind = 3
	KindInputEnd   Kind = 4
	KindSignal     Kind = 5
	KindStartBatch Kind = 6
	KindOpen       Kind = 7
	KindAttach     Kind = 8
	KindResize     Kind = 9
	KindTaken      Kind = 10
	KindSessions   Kind = 11
	KindHold       Kind = 12
	KindAllocate   Kind = 13
	KindRelease    Kind = 14
	KindPort       Kind = 15

	KindStepList    Kind = 16
	KindStarted     Kind = 17
	KindOutput      Kind = 18
	KindExited      Kind = 19
	KindFailed      Kind = 20
	KindDone        Kind = 21
	KindInputCredit Kind = 22
	KindOK          Kind = 23
	KindAttached    Kind = 24
	KindWritten     Kind = 25
	KindSessionList Kind = 26
	KindGranted     Kind = 27
	KindWaits       Kind = 28
	KindPortNumber  Kind = 29
	KindFence       Kind = 30
	KindFenced      Kind = 31 // sent by the client
)

// Message is one of the types below.
type Message interface{ kind() Kind }

// InputMode says which tasks get what arrives as Input.
type InputMode string

// The modes of standard input. A task that gets none reads /dev/null.
const (
	InputNone InputMode = "none"
	InputAll  InputMode = "all"
	InputTask InputMode = "task" // the one named by Launch.InputTask
)

// Launch starts the tasks of one step that belong on this node. The answers
// are Started or Failed, then Output and Exited as they happen, then Done.
type Launch struct {
	Step uint32 `json:"step"`
	// Argv is the program and its arguments. A program without a slash is
	// looked up in PATH of Env.
	Argv Strings `json:"argv"`
	// Env is NAME=VALUE. Process 1 lays its node's own variables and those of
	// the task over it.
	Env   Strings `json:"env"`
	Cwd   Bytes   `json:"cwd"`
	Umask uint32  `json:"umask"`
	Tasks []Task  `json:"tasks"`

	Input     InputMode `json:"input"`
	InputTask uint32    `json:"input_task"` // a rank

	// Share is what the step was granted of this node; nil = it was not asked for.
	Share *Share `json:"share,omitempty"`
	// PMI is nil if the tasks are not served.
	PMI *PMI `json:"pmi,omitempty"`
	// PMIx is nil if they are not served by that.
	PMIx *PMIxJob `json:"pmix,omitempty"`
	// CPUBind is nil if nothing was said of it.
	CPUBind *CPUBind `json:"cpu_bind,omitempty"`
}

// Share is a step's part of what its job has on a node, counted from 0.
type Share struct {
	CPUs []int `json:"cpus"`
	GPUs []int `json:"gpus,omitempty"`
}

// Task is one process to start.
type Task struct {
	Rank  uint32  `json:"rank"`  // in the step, over all nodes
	Local uint32  `json:"local"` // in the step, on this node
	Env   Strings `json:"env,omitempty"`
	// GPUs are those of the share's that the task sees, counted from 0 there; nil = all.
	GPUs []int `json:"gpus,omitempty"`
	// Argv is what it runs in place of the Launch's; nil = that.
	Argv Strings `json:"argv,omitempty"`
}

// Started says that every task runs.
type Started struct {
	Tasks []StartedTask `json:"tasks"`
}

// StartedTask is the process id of a task, as seen inside the container.
type StartedTask struct {
	Rank uint32 `json:"rank"`
	Pid  int    `json:"pid"`
}

// Stream is one of a task's outputs.
type Stream byte

// The outputs of a task.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// Output is what a task wrote: at most MaxDataBytes, in order per stream.
type Output struct {
	Rank   uint32
	Stream Stream
	Data   []byte
}

// Input is for one task, or for all of this node.
type Input struct {
	Rank uint32
	All  bool
	Data []byte
}

// InputEnd closes the standard input of one task, or of all.
type InputEnd struct {
	Rank uint32 `json:"rank"`
	All  bool   `json:"all"`
}

// InputCredit gives back room in the window: so many bytes have been written
// to a task, or dropped because it has ended.
type InputCredit struct {
	Bytes uint32 `json:"bytes"`
}

// Scope says which processes a signal is for.
type Scope string

// The scopes of a signal.
const (
	ScopeBatch Scope = "batch" // the batch script's own process
	ScopeSteps Scope = "steps" // the processes of all steps
	ScopeAll   Scope = "all"   // the batch script's process group, and all steps
	ScopeStep  Scope = "step"  // the processes of one step
)

// Signal delivers a signal. The answer is OK, or Failed when there is nobody
// it could be for. After Launch on the same connection it is not answered.
type Signal struct {
	Signal uint32 `json:"signal"`
	Scope  Scope  `json:"scope"`
	Step   uint32 `json:"step"` // for ScopeStep
}

// StartBatch lets a batch script start that waits for the other nodes of its
// gang. The answer is OK, also when it runs already.
type StartBatch struct{}

// Exited is the end of one task. Code is 0 when a signal ended it.
type Exited struct {
	Rank   uint32 `json:"rank"`
	Code   int    `json:"code"`
	Signal int    `json:"signal"`
}

// Failed says why what was asked could not be done: a sentence for the user,
// and the exit status it means for a launch (the errno, as in Slurm: 2 for a
// program that does not exist).
type Failed struct {
	Text string `json:"text"`
	Code int    `json:"code"`
}

// Done is the last message of a step: no task runs, all output was sent.
type Done struct{}

// OK answers Signal and StartBatch.
type OK struct{}

func (*Launch) kind() Kind      { return KindLaunch }
func (*Started) kind() Kind     { return KindStarted }
func (*Output) kind() Kind      { return KindOutput }
func (*Input) kind() Kind       { return KindInput }
func (*InputEnd) kind() Kind    { return KindInputEnd }
func (*InputCredit) kind() Kind { return KindInputCredit }
func (*Signal) kind() Kind      { return KindSignal }
func (*StartBatch) kind() Kind  { return KindStartBatch }
func (*Exited) kind() Kind      { return KindExited }
func (*Failed) kind() Kind      { return KindFailed }
func (*Done) kind() Kind        { return KindDone }
func (*OK) kind() Kind          { return KindOK }

// Strings is a list of arbitrary bytes, as arguments and environment are;
// JSON strings would lose what is not UTF-8, so each is sent as base64.
type Strings []string

// MarshalJSON implements json.Marshaler.
func (s Strings) MarshalJSON() ([]byte, error) {
	raw := make([][]byte, len(s))
	for i := range s {
		raw[i] = []byte(s[i])
	}
	return json.Marshal(raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Strings) UnmarshalJSON(data []byte) error {
	var raw [][]byte
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*s = make(Strings, len(raw))
	for i := range raw {
		(*s)[i] = string(raw[i])
	}
	return nil
}

// Bytes is one such string.
type Bytes string

// MarshalJSON implements json.Marshaler.
func (b Bytes) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(b)) }

// UnmarshalJSON implements json.Unmarshaler.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	var raw []byte
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*b = Bytes(raw)
	return nil
}
