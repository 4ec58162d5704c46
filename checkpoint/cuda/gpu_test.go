package cuda

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ebitengine/purego"
)

// This test is the only one that needs a GPU. It can be built elsewhere
// (go test -c) and run alone there, as root: -test.run OnGPU -test.v.

// gpuWord makes the test program one that has something in GPU memory.
const gpuWord = "cuda-test-process"

// gpuBytes is what it has there.
const gpuBytes = 256 << 20

// onGPU fills GPU memory, and for each line that it reads says whether that is
// still there.
func onGPU(in io.Reader, out io.Writer) error {
	runtime.LockOSThread() // a context is a thread's
	handle, err := purego.Dlopen(DefaultLibrary, purego.RTLD_NOW)
	if err != nil {
		return err
	}
	call := func(name string, arguments ...uintptr) error {
		address, err := purego.Dlsym(handle, name)
		if err != nil {
			return err
		}
		if code, _, _ := purego.SyscallN(address, arguments...); int32(code) != 0 {
			return fmt.Errorf("%s: error %d", name, int32(code))
		}
		return nil
	}
	var retain func(context *uintptr, device int32) int32
	var allocate func(pointer *uint64, bytes uint64) int32
	var toDevice func(to uint64, from *byte, bytes uint64) int32
	var toHost func(to *byte, from uint64, bytes uint64) int32
	for name, function := range map[string]any{"cuDevicePrimaryCtxRetain": &retain, "cuMemAlloc_v2": &allocate, "cuMemcpyHtoD_v2": &toDevice, "cuMemcpyDtoH_v2": &toHost} {
		address, err := purego.Dlsym(handle, name)
		if err != nil {
			return err
		}
		purego.RegisterFunc(function, address)
	}
	if err := call("cuInit", 0); err != nil {
		return err
	}
	var context uintptr
	if code := retain(&context, 0); code != 0 {
		return fmt.Errorf("cuDevicePrimaryCtxRetain: error %d", code)
	}
	if err := call("cuCtxSetCurrent", context); err != nil {
		return err
	}
	pattern := bytes.Repeat([]byte("gleaner "), gpuBytes/8)
	var memory uint64
	if code := allocate(&memory, gpuBytes); code != 0 {
		return fmt.Errorf("cuMemAlloc: error %d", code)
	}
	if code := toDevice(memory, &pattern[0], gpuBytes); code != 0 {
		return fmt.Errorf("cuMemcpyHtoD: error %d", code)
	}
	fmt.Fprintln(out, "ready")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		back := make([]byte, gpuBytes)
		if code := toHost(&back[0], memory, gpuBytes); code != 0 {
			return fmt.Errorf("cuMemcpyDtoH: error %d", code)
		}
		if !bytes.Equal(back, pattern) {
			return errors.New("GPU memory is not what it was")
		}
		fmt.Fprintln(out, "same")
	}
	return nil
}

// TestOnGPU parks and unparks real processes, twice.
func TestOnGPU(t *testing.T) {
	if _, err := os.Stat("/dev/nvidiactl"); err != nil {
		t.Skipf("needs an NVIDIA GPU with its driver: %v", err)
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: takes GPU memory from processes")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	var ask []func() string
	for range 2 {
		cmd := exec.Command(self, gpuWord)
		in, _ := cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
		lines := bufio.NewReader(out)
		next := func() string {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(line)
		}
		if got := next(); got != "ready" {
			t.Fatal(got)
		}
		pids = append(pids, cmd.Process.Pid)
		ask = append(ask, func() string { fmt.Fprintln(in, "?"); return next() })
	}
	h := NewHelper(Options{Command: []string{self, Word}})
	defer h.Close()
	start := time.Now()
	version, err := h.Start(t.Context())
	t.Logf("helper up after %v: CUDA %d, %v", time.Since(start), version, err)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		start = time.Now()
		parked, err := h.Park(t.Context(), pids)
		if err != nil || len(parked.Processes) != len(pids) {
			t.Fatalf("round %d: %+v, %v", round, parked, err)
		}
		t.Logf("parked %d MiB of each of %d processes in %v", gpuBytes>>20, len(pids), time.Since(start))
		if users, err := Users("/proc", pids); err != nil {
			t.Error(err)
		} else {
			t.Logf("parked, they look like %+v", users)
		}
		start = time.Now()
		if err := h.Unpark(t.Context(), parked, nil); err != nil {
			t.Fatal(err)
		}
		t.Logf("unparked in %v", time.Since(start))
		for _, same := range ask {
			if got := same(); got != "same" {
				t.Errorf("round %d: %q", round, got)
			}
		}
	}
}
