package cuda

import (
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// DefaultLibrary is the driver's, as the loader finds it.
const DefaultLibrary = "libcuda.so.1"

// Arguments of the calls, as cuda.h has them from CUDA 12.8 on, gpuPairs from
// 13.0 on. Each is 64 bytes, and what is reserved must be zero.
type (
	lockArgs struct {
		timeoutMS uint32
		_         uint32
		_         [7]uint64
	}
	checkpointArgs struct {
		_ [8]uint64
	}
	restoreArgs struct {
		pairs *gpuPair
		count uint32
		_     [44]byte
		_     uint64
	}
	unlockArgs struct {
		_ [8]uint64
	}
	gpuPair struct {
		from, to uuid
	}
	uuid [16]byte
)

const argsBytes = 64

var (
	_ = [argsBytes]byte{} == [unsafe.Sizeof(lockArgs{})]byte{}
	_ = [argsBytes]byte{} == [unsafe.Sizeof(checkpointArgs{})]byte{}
	_ = [argsBytes]byte{} == [unsafe.Sizeof(restoreArgs{})]byte{}
	_ = [argsBytes]byte{} == [unsafe.Sizeof(unlockArgs{})]byte{}
)

// library is the driver's, loaded into this process, which it may crash.
type library struct {
	initialize func(flags uint32) int32
	version    func(version *int32) int32
	errorName  func(code int32, name **byte) int32
	getState   func(pid int32, state *int32) int32
	lock       func(pid int32, args *lockArgs) int32
	checkpoint func(pid int32, args *checkpointArgs) int32
	restore    func(pid int32, args *restoreArgs) int32
	unlock     func(pid int32, args *unlockArgs) int32
}

// openLibrary loads and initialises it, which takes seconds.
func openLibrary(name string) (*library, error) {
	handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDriver, err)
	}
	l := new(library)
	for _, symbol := range []struct {
		name     string
		function any
	}{
		{"cuInit", &l.initialize}, {"cuDriverGetVersion", &l.version}, {"cuGetErrorName", &l.errorName},
		{callState, &l.getState}, {callLock, &l.lock}, {callCheckpoint, &l.checkpoint},
		{callRestore, &l.restore}, {callUnlock, &l.unlock},
	} {
		address, err := purego.Dlsym(handle, symbol.name)
		if err != nil {
			if strings.HasPrefix(symbol.name, "cuCheckpoint") {
				return nil, fmt.Errorf("%w: it has no %s", ErrTooOld, symbol.name)
			}
			return nil, fmt.Errorf("%w: %s: %w", ErrNoDriver, name, err)
		}
		purego.RegisterFunc(symbol.function, address)
	}
	if code := l.initialize(0); code != 0 {
		return nil, fmt.Errorf("%w: cuInit: %s (%d)", ErrNoDriver, l.name(code), code)
	}
	return l, nil
}

// name is what the driver calls an answer; "" if it does not know it.
func (l *library) name(code int32) string {
	var text *byte
	if l.errorName(code, &text) != 0 || text == nil {
		return ""
	}
	const longest = 128
	var name []byte
	for p := unsafe.Pointer(text); len(name) < longest && *(*byte)(p) != 0; p = unsafe.Add(p, 1) {
		name = append(name, *(*byte)(p))
	}
	return string(name)
}

// do carries out one request and answers the driver's code and, for callState,
// the state.
func (l *library) do(r *request) (code int32, state State, err error) {
	pid := int32(r.PID)
	switch r.Call {
	case callState:
		var answer int32
		code = l.getState(pid, &answer)
		return code, State(answer), nil
	case callLock:
		return l.lock(pid, &lockArgs{timeoutMS: uint32(r.Timeout / time.Millisecond)}), 0, nil
	case callCheckpoint:
		return l.checkpoint(pid, &checkpointArgs{}), 0, nil
	case callRestore:
		pairs := make([]gpuPair, len(r.GPUs))
		for i, names := range r.GPUs {
			if pairs[i].from, err = parseUUID(names[0]); err == nil {
				pairs[i].to, err = parseUUID(names[1])
			}
			if err != nil {
				return 0, 0, err
			}
		}
		args := &restoreArgs{count: uint32(len(pairs))}
		if len(pairs) > 0 {
			args.pairs = &pairs[0]
		}
		code = l.restore(pid, args)
		runtime.KeepAlive(pairs)
		return code, 0, nil
	case callUnlock:
		return l.unlock(pid, &unlockArgs{}), 0, nil
	}
	return 0, 0, fmt.Errorf("a call %.40q is not known", r.Call)
}

// parseUUID reads "GPU-" and a UUID, as NVML and nvidia-smi write it.
func parseUUID(text string) (id uuid, err error) {
	digits, isGPU := strings.CutPrefix(text, "GPU-")
	groups := strings.Split(digits, "-")
	lengths := [...]int{8, 4, 4, 4, 12}
	if !isGPU || len(groups) != len(lengths) {
		return id, notUUID(text)
	}
	for i, group := range groups {
		if len(group) != lengths[i] {
			return id, notUUID(text)
		}
	}
	if _, err := hex.Decode(id[:], []byte(strings.Join(groups, ""))); err != nil {
		return id, notUUID(text)
	}
	return id, nil
}

func notUUID(text string) error {
	if strings.HasPrefix(text, "MIG-") {
		return errors.New("a MIG slice cannot be parked: use whole GPUs")
	}
	return fmt.Errorf("%.80q is not the UUID of a GPU", text)
}
