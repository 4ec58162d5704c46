package step

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

const (
	frameHeaderBytes  = 5 // kind, length
	outputHeaderBytes = 5 // rank, stream
	inputHeaderBytes  = 5 // rank, all
)

// Marshal returns the frame of m.
func Marshal(m Message) ([]byte, error) {
	frame := make([]byte, frameHeaderBytes, 128)
	limit := MaxControlBytes
	switch m := m.(type) {
	case *Output:
		frame = binary.BigEndian.AppendUint32(frame, m.Rank)
		frame = append(append(frame, byte(m.Stream)), m.Data...)
		limit = MaxDataBytes + outputHeaderBytes
	case *Input:
		frame = binary.BigEndian.AppendUint32(frame, m.Rank)
		frame = append(append(frame, flag(m.All)), m.Data...)
		limit = MaxDataBytes + inputHeaderBytes
	default:
		payload, err := json.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("step protocol: encode: %w", err)
		}
		frame = append(frame, payload...)
	}
	length := len(frame) - frameHeaderBytes
	if length > limit {
		return nil, fmt.Errorf("%w: %d bytes of at most %d", ErrTooLong, length, limit)
	}
	frame[0] = byte(m.kind())
	binary.BigEndian.PutUint32(frame[1:], uint32(length))
	return frame, nil
}

// Write sends m in one call of w.Write.
func Write(w io.Writer, m Message) error {
	frame, err := Marshal(m)
	if err != nil {
		return err
	}
	_, err = w.Write(frame)
	return err
}

// Reader reads messages from a stream.
type Reader struct {
	stream *bufio.Reader
}

// NewReader reads from r.
func NewReader(r io.Reader) *Reader {
	// Small, because thousands of steps may wait; long payloads are not copied through it.
	return &Reader{stream: bufio.NewReaderSize(r, 8<<10)}
}

// Read returns the next message. It fails with io.EOF at a clean end of the
// stream, io.ErrUnexpectedEOF in the middle of a frame, ErrTooLong and
// ErrMalformed; after any of these nothing more can be read.
func (r *Reader) Read() (Message, error) {
	var header [frameHeaderBytes]byte
	if _, err := io.ReadFull(r.stream, header[:]); err != nil {
		return nil, err
	}
	kind, length := Kind(header[0]), binary.BigEndian.Uint32(header[1:])
	limit := uint32(MaxControlBytes)
	if kind == KindOutput || kind == KindInput {
		limit = MaxDataBytes + outputHeaderBytes
	}
	if length > limit {
		return nil, fmt.Errorf("%w: %d bytes of at most %d", ErrTooLong, length, limit)
	}
	payload, err := readPayload(r.stream, int(length))
	if err != nil {
		return nil, err
	}
	return decode(kind, payload)
}

// readPayload grows with what arrives, so that a length alone, without the
// bytes, costs nothing.
func readPayload(r io.Reader, length int) ([]byte, error) {
	payload := make([]byte, 0, min(length, 64<<10))
	for len(payload) < length {
		if len(payload) == cap(payload) {
			payload = append(payload, 0)[:len(payload)]
		}
		n := min(cap(payload), length)
		read, err := io.ReadFull(r, payload[len(payload):n])
		payload = payload[:len(payload)+read]
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
	return payload, nil
}

func decode(kind Kind, payload []byte) (Message, error) {
	switch kind {
	case KindOutput:
		if len(payload) < outputHeaderBytes {
			return nil, fmt.Errorf("%w: output without a header", ErrMalformed)
		}
		stream := Stream(payload[4])
		if stream != Stdout && stream != Stderr {
			return nil, fmt.Errorf("%w: unknown stream %d", ErrMalformed, stream)
		}
		return &Output{Rank: binary.BigEndian.Uint32(payload), Stream: stream, Data: payload[outputHeaderBytes:]}, nil
	case KindInput:
		if len(payload) < inputHeaderBytes || payload[4] > 1 {
			return nil, fmt.Errorf("%w: bad header of input", ErrMalformed)
		}
		return &Input{Rank: binary.BigEndian.Uint32(payload), All: payload[4] == 1, Data: payload[inputHeaderBytes:]}, nil
	}
	m := newControl(kind)
	if m == nil {
		return nil, fmt.Errorf("%w: unknown kind %d", ErrMalformed, kind)
	}
	if err := json.Unmarshal(payload, m); err != nil {
		return nil, fmt.Errorf("%w: kind %d: %w", ErrMalformed, kind, err)
	}
	if err := check(m); err != nil {
		return nil, err
	}
	return m, nil
}

func newControl(kind Kind) Message {
	switch kind {
	case KindSteps:
		return &Steps{}
	case KindStepList:
		return &StepList{}
	case KindLaunch:
		return &Launch{}
	case KindInputEnd:
		return &InputEnd{}
	case KindSignal:
		return &Signal{}
	case KindStartBatch:
		return &StartBatch{}
	case KindFence:
		return &Fence{}
	case KindFenced:
		return &Fenced{}
	case KindStarted:
		return &Started{}
	case KindExited:
		return &Exited{}
	case KindFailed:
		return &Failed{}
	case KindDone:
		return &Done{}
	case KindInputCredit:
		return &InputCredit{}
	case KindOK:
		return &OK{}
	}
	if m := newAllocateControl(kind); m != nil {
		return m
	}
	return newSessionControl(kind)
}

// check refuses what the types allow but the protocol does not.
func check(m Message) error {
	switch m := m.(type) {
	case *Launch:
		return checkLaunch(m)
	case *Signal:
		if m.Signal < 1 || m.Signal > 64 {
			return fmt.Errorf("%w: signal %d is not between 1 and 64", ErrMalformed, m.Signal)
		}
		switch m.Scope {
		case ScopeBatch, ScopeSteps, ScopeAll, ScopeStep:
		default:
			return fmt.Errorf("%w: unknown scope %q", ErrMalformed, m.Scope)
		}
	case *Exited:
		if m.Code < 0 || m.Code > 255 || m.Signal < 0 || m.Signal > 64 {
			return fmt.Errorf("%w: a task that ended with code %d and signal %d", ErrMalformed, m.Code, m.Signal)
		}
	case *StepList:
		return checkSteps(m)
	case *Fence:
		return checkFence(m.Pairs, m.Data)
	case *Fenced:
		return checkFence(m.Pairs, m.Data)
	case *Started:
		if len(m.Tasks) > MaxTasks {
			return fmt.Errorf("%w: %d tasks", ErrMalformed, len(m.Tasks))
		}
	}
	if err := checkAllocate(m); err != nil {
		return err
	}
	return checkSession(m)
}

func checkLaunch(m *Launch) error {
	if len(m.Argv) == 0 || m.Argv[0] == "" {
		return fmt.Errorf("%w: launch without a program", ErrMalformed)
	}
	if len(m.Tasks) == 0 || len(m.Tasks) > MaxTasks {
		return fmt.Errorf("%w: %d tasks on one node, must be 1 to %d", ErrMalformed, len(m.Tasks), MaxTasks)
	}
	switch m.Input {
	case InputNone, InputAll, InputTask:
	default:
		return fmt.Errorf("%w: unknown input mode %q", ErrMalformed, m.Input)
	}
	if err := checkBind(m.CPUBind); err != nil {
		return err
	}
	if m.PMIx != nil {
		if err := m.PMIx.Check(); err != nil {
			return err
		}
	}
	seen := make(map[uint32]bool, len(m.Tasks))
	for _, task := range m.Tasks {
		if seen[task.Rank] {
			return fmt.Errorf("%w: task %d twice", ErrMalformed, task.Rank)
		}
		seen[task.Rank] = true
		if len(task.Argv) > 0 && task.Argv[0] == "" {
			return fmt.Errorf("%w: task %d without a program", ErrMalformed, task.Rank)
		}
		if err := checkGPUs(m.Share, task.GPUs); err != nil {
			return err
		}
	}
	return nil
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}
