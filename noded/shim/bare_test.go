package shim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// bareWord makes the test program start containers with libcontainer alone,
// for comparison: one for each line on its standard input, which is the path
// of an order. The settings lie beside it.
const bareWord = "bare"

// bareTook is what it says on standard output about each.
type bareTook struct {
	Start time.Duration // from the configuration to the program's execution
	CPU   time.Duration // from there to its removal, of all processes
}

func bareMain() error {
	if err := container.Isolate(); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		d := bundle.Dir(filepath.Dir(in.Text()))
		settings, err := d.Settings()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(in.Text())
		if err != nil {
			return err
		}
		order := new(pb.StartAlloc)
		if err := proto.Unmarshal(data, order); err != nil {
			return err
		}
		before := cpuTime(unix.RUSAGE_SELF) + cpuTime(unix.RUSAGE_CHILDREN)
		took, err := Bare(*settings, order, "/bin/true")
		if err != nil {
			return err
		}
		after := cpuTime(unix.RUSAGE_SELF) + cpuTime(unix.RUSAGE_CHILDREN)
		if err := out.Encode(bareTook{took, after - before}); err != nil {
			return err
		}
	}
	return nil
}

// cpuTime is what the processes have used that getrusage(2) counts for who.
func cpuTime(who int) time.Duration {
	var usage unix.Rusage
	_ = unix.Getrusage(who, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// bare is the process that runs bareMain.
type bare struct {
	b   *bed
	in  io.WriteCloser
	out *json.Decoder
}

func (b *bed) startBare() *bare {
	t := b.t
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self, bareWord)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("libcontainer alone: %v: %s", err, complaints.String())
		}
	})
	return &bare{b, in, json.NewDecoder(out)}
}

// start starts one container of the order.
func (a *bare) start(order *pb.StartAlloc) (took bareTook) {
	t := a.b.t
	t.Helper()
	data, err := proto.Marshal(order)
	must(t, err)
	settings, err := json.Marshal(a.b.settings)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(a.b.dir, bundle.OrderFile), data, 0o600))
	must(t, os.WriteFile(filepath.Join(a.b.dir, bundle.SettingsFile), settings, 0o600))
	_, err = fmt.Fprintln(a.in, filepath.Join(a.b.dir, bundle.OrderFile))
	must(t, err)
	must(t, a.out.Decode(&took))
	return took
}

// The comparison compares what it says: the program runs in the container of
// the order, and nothing of it is left.
func TestBare(t *testing.T) {
	b := newBed(t)
	if took := b.startBare().start(b.order("true")); took.Start <= 0 || took.CPU <= 0 {
		t.Errorf("it took %+v", took)
	}
	entries, err := os.ReadDir(filepath.Join(b.state, bundle.JobsDir))
	if err != nil || len(entries) != 0 {
		t.Errorf("left: %v %v", entries, err)
	}
}
