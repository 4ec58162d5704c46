package openers

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// holding is a program that opens a file, keeps it as it is told, and says so.
const holding = `
import ctypes, mmap, os, socket, sys, threading, time
path, how = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
def say(): print("ready", flush=True); time.sleep(1000)
if how == "mapped":
    fd = os.open(path, os.O_RDWR); m = mmap.mmap(fd, 4096, mmap.MAP_PRIVATE); os.close(fd); say()
elif how == "a thread's own":
    def own():
        assert libc.unshare(0x400) == 0
        os.open(path, os.O_RDWR); say()
    threading.Thread(target=own).start(); time.sleep(1000)
elif how == "its first thread has ended":
    def rest():
        os.open(path, os.O_RDWR); time.sleep(0.2); say()
    threading.Thread(target=rest).start(); libc.syscall(60, 0)
elif how == "closed": os.close(os.open(path, os.O_RDWR)); say()
else: os.open(path, os.O_RDWR); say()
`

// TestFind: a device is found however it is held, under whatever name.
func TestFind(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: makes device files")
	}
	zero := Device{'c', 1, 5} // which every program may map
	dir := t.TempDir()
	file := filepath.Join(dir, "accel")
	if err := unix.Mknod(file, unix.S_IFCHR|0o666, int(unix.Mkdev(zero.Major, zero.Minor))); err != nil {
		t.Skipf("needs mknod: %v", err)
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, make([]byte, 4096), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		how, path string
		device    Device
		found     bool
	}{
		{"open", file, zero, true},
		{"open", "/dev/zero", zero, true},
		{"mapped", file, zero, true},
		{"a thread's own", file, zero, true},
		{"its first thread has ended", file, zero, true},
		{"closed", file, zero, false},
		{"open", plain, zero, false},
		{"mapped", plain, zero, false},
		{"open", file, Device{'c', 1, 7}, false},
		{"open", file, Device{'b', 1, 5}, false},
	} {
		t.Run(row.how+" "+row.path, func(t *testing.T) {
			cmd := exec.Command("python3", "-c", holding, row.path, row.how)
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Skipf("needs Python, to hold devices: %v", err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatalf("it says %q: %v", line, err)
			}
			found, err := Find([]int{os.Getpid(), cmd.Process.Pid, 1 << 30}, []Device{row.device})
			if err != nil || (found != nil) != row.found {
				t.Fatalf("found %v, %v", found, err)
			}
			if found != nil && (found.PID != cmd.Process.Pid || found.Path != row.path || !strings.HasPrefix(found.Program, "python3")) {
				t.Errorf("found %+v", found)
			}
		})
	}
}

// TestNoDevices: nothing is looked for.
func TestNoDevices(t *testing.T) {
	if found, err := Find([]int{os.Getpid()}, nil); found != nil || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
}
