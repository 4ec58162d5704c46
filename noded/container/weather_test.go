package container

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

const counting = "#!/bin/bash\nfor i in $(seq 1 100000); do echo $i; sleep 0.1; done\n"

// startCounting answers a supervisor of a container that counts.
func startCounting(b *bed) *supervisor {
	b.t.Helper()
	s := b.start()
	s.must(order{Do: "start", Script: counting})
	eventually(b.t, "it counts", func() bool { return strings.Contains(b.read(), "\n5\n") })
	return s
}

// wantGone fails unless the container's processes have all ended.
func (s *supervisor) wantGone() {
	s.b.t.Helper()
	eventually(s.b.t, "its processes end", func() bool {
		pids, _ := s.group().Procs()
		return len(pids) == 0
	})
}

// A restored job dies with its supervisor as a started one does: process 1 got
// its parent-death signal back, and a parent to have it from.
func TestRestoredDiesWithSupervisor(t *testing.T) {
	b := newBed(t)
	s := startCounting(b).move()
	before := b.read()
	eventually(t, "it counts on", func() bool { return len(b.read()) > len(before) })
	pid := s.pid
	must(t, s.cmd.Process.Kill())
	_, _ = s.cmd.Process.Wait()
	eventually(t, "process 1 dies", func() bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) })
	s.wantGone()
}

// What is restored can be saved again, and again.
func TestMoveTwice(t *testing.T) {
	b := newBed(t)
	s := startCounting(b)
	for range 3 {
		s = s.move()
		before := b.read()
		eventually(t, "it counts on", func() bool { return len(b.read()) > len(before)+8 })
	}
	s.must(order{Do: "end"})
	for i, line := range strings.Fields(b.read()) {
		if line != jsonOf(i+1) {
			t.Fatalf("line %d is %q", i+1, line)
		}
	}
}

func jsonOf(value any) string {
	data, _ := json.Marshal(value)
	return string(data)
}

// The job continues after it was saved, and from the image too.
func TestSaveAndGoOn(t *testing.T) {
	b := newBed(t)
	s := startCounting(b)
	image, _ := s.save()
	before := b.read()
	time.Sleep(100 * time.Millisecond)
	if b.read() != before {
		t.Error("it ran while it was frozen")
	}
	s.must(order{Do: "thaw"})
	eventually(t, "it counts on", func() bool { return len(b.read()) > len(before) })
	s.must(order{Do: "end"})
	must(t, os.WriteFile(b.output(), nil, 0o644))
	s = b.start()
	s.must(order{Do: "restore", Image: image})
	eventually(t, "it counts from where it was", func() bool { return strings.Contains(b.read(), "\n") })
	lines := strings.Fields(before)
	if first := strings.Fields(b.read())[0]; first != jsonOf(len(lines)+1) {
		t.Errorf("after %s comes %s", lines[len(lines)-1], first)
	}
	s.must(order{Do: "end"})
}

// Whoever kills CRIU in the middle: the job is frozen at once. CRIU works inside
// its processes, and one may not survive that; what survives continues and can
// be saved again.
func TestKillCRIU(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: kills at many moments")
	}
	b := newBed(t)
	killed, died := 0, 0
	for delay := 20 * time.Millisecond; delay < 200*time.Millisecond; delay += prototest.Soak[time.Duration](45, 15) * time.Millisecond {
		s := startCounting(b)
		s.must(order{Do: "freeze"})
		frozenAt := b.read()
		done, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			killCRIU(s.cmd.Process.Pid, delay, over)
		}()
		r := s.do(order{Do: "save", Image: b.image(s.id)})
		close(over)
		<-done
		if r.Error != "" {
			killed++
			if !isAny(r, "let go") {
				t.Errorf("%v: %s", delay, r.Error)
			}
			if ran := strings.Count(b.read(), "\n") - strings.Count(frozenAt, "\n"); ran > 2 {
				t.Errorf("%v: it ran on by %d lines", delay, ran)
			}
		}
		if frozen, err := s.group().Frozen(); err != nil || !frozen {
			t.Fatalf("%v: it is not frozen: %v", delay, err)
		}
		if again := s.do(order{Do: "save", Image: b.image(s.id) + "again"}); again.Error != "" && !isAny(again, "unsettled") {
			t.Logf("%v: saved again it says %s", delay, again.Error)
		}
		s.must(order{Do: "thaw"})
		time.Sleep(300 * time.Millisecond) // one that does not survive may write a line before
		before := b.read()
		time.Sleep(200 * time.Millisecond)
		if len(b.read()) == len(before) {
			died++
			t.Logf("%v: it did not survive", delay)
			must(t, s.cmd.Process.Kill())
		} else {
			if r.Error != "" {
				must(t, os.RemoveAll(b.image(s.id))) // what the killed one left there is of processes that are gone
				s = s.move()
			}
			s.must(order{Do: "end"})
		}
		must(t, os.WriteFile(b.output(), nil, 0o644))
	}
	if killed == 0 {
		t.Errorf("CRIU was killed %d times only", killed)
	}
	t.Logf("CRIU was killed %d times, and the job did not survive that %d times", killed, died)
}

// killCRIU kills the CRIU that works for a process, a while after it has appeared,
// unless what it works for is over before.
func killCRIU(parent int, delay time.Duration, over <-chan struct{}) {
	for {
		pid := prototest.Child(parent, func(line string) bool { return strings.Contains(line, "\x00swrk\x00") })
		if pid > 0 {
			time.Sleep(delay)
			_ = syscall.Kill(pid, syscall.SIGKILL)
			return
		}
		select {
		case <-over:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// A dump that takes longer than allowed is given up wherever it is, the job
// is frozen, and is none the worse for it.
func TestSaveDeadline(t *testing.T) {
	b := newBed(t)
	s := startCounting(b)
	given := 0
	for limit := 20 * time.Millisecond; limit < 400*time.Millisecond; limit += 30 * time.Millisecond {
		s.must(order{Do: "freeze"})
		frozenAt := b.read()
		r := s.do(order{Do: "save", Image: b.image(s.id) + limit.String(), Timeout: limit})
		if r.Error != "" {
			given++
			if !isAny(r, "deadline") {
				t.Errorf("%v: %s", limit, r.Error)
			}
		}
		if frozen, err := s.group().Frozen(); err != nil || !frozen || b.read() != frozenAt {
			t.Fatalf("%v: it is not frozen: %v", limit, err)
		}
		s.must(order{Do: "thaw"})
		eventually(t, "it counts on", func() bool { return len(b.read()) > len(frozenAt)+8 })
	}
	t.Logf("given up %d times", given)
	if given < 3 {
		t.Error("that is too seldom")
	}
	s = s.move()
	s.must(order{Do: "end"})
}

// An image of which a byte is missing is refused by the name of the part, and
// one that does not fit by what does not; nothing runs. That no byte is another
// the store has seen to.
func TestSpoiledImage(t *testing.T) {
	b := newBed(t)
	s := startCounting(b)
	image, r := s.save()
	s.must(order{Do: "end"})
	before := b.read()
	for _, name := range []string{"criu/pages-1.img", "criu/pstree.img", "upper.tar", "run.tar", "carried/ginit"} {
		path := filepath.Join(image, name)
		good, err := os.ReadFile(path)
		must(t, err)
		for what, bad := range map[string][]byte{"cut off": good[:len(good)-1], "missing": nil} {
			must(t, os.Remove(path))
			if bad != nil {
				must(t, os.WriteFile(path, bad, 0o600))
			}
			r := b.start().do(order{Do: "restore", Image: image})
			if !isAny(r, "manifest") || !strings.Contains(r.Error, name) {
				t.Errorf("%s %s: %q", name, what, r.Error)
			}
			must(t, os.WriteFile(path, good, 0o600))
		}
	}
	spoil := func(what, word string, change func(m *checkpoint.Manifest)) {
		data, _, err := r.Manifest.Encode()
		must(t, err)
		m := new(checkpoint.Manifest)
		must(t, json.Unmarshal(data, m))
		change(m)
		b.writeManifest(image, m)
		if r := b.start().do(order{Do: "restore", Image: image}); !isAny(r, "misfit") || !strings.Contains(r.Error, word) {
			t.Errorf("%s: %q", what, r.Error)
		}
	}
	spoil("a newer kernel", "kernel: the image needs 99.1", func(m *checkpoint.Manifest) { m.Machine.Kernel = "99.1" })
	spoil("a newer CRIU", "CRIU: the image needs 99.1", func(m *checkpoint.Manifest) { m.Machine.CRIU = "99.1" })
	spoil("another processor", "avx4096", func(m *checkpoint.Manifest) { m.Machine.Processor += " avx4096" })
	spoil("another user", "user 1's", func(m *checkpoint.Manifest) { m.UID = 1 })
	spoil("a library with other bytes and the same size", "libc", func(m *checkpoint.Manifest) {
		for i := range m.Files {
			if strings.Contains(m.Files[i].Path, "libc.so") || strings.Contains(m.Files[i].Path, "libc-") {
				m.Files[i].SHA256[0] ^= 1
				m.Files[i].Carried = ""
			}
		}
	})
	if b.read() != before {
		t.Error("it ran")
	}
	b.writeManifest(image, r.Manifest)
	s = b.start()
	s.must(order{Do: "restore", Image: image})
	s.must(order{Do: "end"})
}

// A library that this node does not have as it was comes with the image, and
// the program continues with it.
func TestCarriedLibrary(t *testing.T) {
	b := newBed(t)
	const library = "/usr/local/lib/libgleaner-test.so"
	build := exec.Command("cc", "-shared", "-o", library, "-xc", "-")
	build.Stdin = strings.NewReader("int answer(void) { return 41; }")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("needs a C compiler: %v: %s", err, out)
	}
	t.Cleanup(func() { os.Remove(library) })
	s := b.start()
	s.must(order{Do: "start", Script: `#!/usr/bin/env python3
import ctypes, os, time
lib = ctypes.CDLL("` + library + `")
print("ready", flush=True)
while not os.path.exists("go"): time.sleep(0.02)
print(lib.answer(), ctypes.CDLL("` + library + `").answer())
`})
	eventually(t, "it is ready", func() bool { return strings.Contains(b.read(), "ready") })
	image, r := s.save()
	s.must(order{Do: "end"})
	if !slices.ContainsFunc(r.Manifest.Files, func(f checkpoint.File) bool { return f.Path == library && f.Carried != "" }) {
		t.Error("it does not travel")
	}
	good, err := os.ReadFile(library)
	must(t, err)
	must(t, os.WriteFile(library, bytes.ReplaceAll(good, []byte{0xb8, 41}, []byte{0xb8, 42}), 0o755))
	s = b.start()
	s.must(order{Do: "restore", Image: image})
	must(t, os.WriteFile(filepath.Join(b.home(), "go"), nil, 0o644))
	s.must(order{Do: "wait"})
	if want := "ready\n41 41\n"; b.read() != want {
		t.Errorf("it prints %q", b.read())
	}
}

// A file of the user's that the job was writing has grown since it was saved,
// by the job itself: it is cut back, and the job writes the same again. One
// that is shorter is refused by name. If nothing of the job ran since, it stays as others
// have made it, whatever has become of it.
func TestSharedFileChanged(t *testing.T) {
	b := newBed(t)
	read := filepath.Join(b.home(), "read")
	must(t, os.WriteFile(read, []byte("one\n"), 0o644))
	s := b.start()
	s.must(order{Do: "start", Script: "#!/bin/bash\nexec 3>data 4<>both 5<read\nfor i in 1 2 3; do echo $i >&3; done\necho ready\nwhile [ ! -e go ]; do sleep 0.02; done\necho 4 >&3; echo mine >&4; cat <&5\n"})
	eventually(t, "it is ready", func() bool { return strings.Contains(b.read(), "ready") })
	image, _ := s.save()
	s.must(order{Do: "end"})
	data := filepath.Join(b.home(), "data")
	must(t, os.WriteFile(data, []byte("1\n2\n"), 0o644))
	if r := b.start().do(order{Do: "restore", Image: image}); !isAny(r, "misfit") || !strings.Contains(r.Error, data) {
		t.Errorf("a shorter file: %q", r.Error)
	}
	must(t, os.WriteFile(data, []byte("1\n2\n3\n4\n5\n"), 0o644))
	s = b.start()
	s.must(order{Do: "restore", Image: image})
	must(t, os.WriteFile(filepath.Join(b.home(), "go"), nil, 0o644))
	s.must(order{Do: "wait"})
	if got, err := os.ReadFile(data); err != nil || string(got) != "1\n2\n3\n4\n" {
		t.Errorf("it holds %q: %v", got, err)
	}

	must(t, os.Remove(filepath.Join(b.home(), "go")))
	both := filepath.Join(b.home(), "both")
	for path, text := range map[string]string{data: "1\n", both: "yours, all of it\n", read: "one\ntwo\n"} {
		must(t, os.WriteFile(path, []byte(text), 0o644))
		must(t, os.Chmod(path, 0o664))
	}
	must(t, os.Chmod(b.home(), 0o711))
	s = b.start()
	s.must(order{Do: "restore", Image: image, AsSaved: true})
	must(t, os.WriteFile(filepath.Join(b.home(), "go"), nil, 0o644))
	s.must(order{Do: "wait"})
	for path, want := range map[string]string{data: "1\n\x00\x00\x00\x004\n", both: "mine\n, all of it\n"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q: %v", path, got, err)
		}
	}
	if !strings.HasSuffix(b.read(), "one\ntwo\n") {
		t.Errorf("it read %q", b.read())
	}
}
