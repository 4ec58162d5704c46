package container

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

const counting = "#!/bin/bash\nfor i in $(seq 1 100000); do echo $i; sleep 0.02; done\n"

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
		pids, err := s.group().Procs()
		return len(pids) == 0 && (err == nil || errors.Is(err, os.ErrNotExist) || true)
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

// The job goes on after it was saved, and from the image too.
func TestSaveAndGoOn(t *testing.T) {
	b := newBed(t)
	s := startCounting(b)
	image, r := s.save()
	before := b.read()
	time.Sleep(100 * time.Millisecond)
	if b.read() != before {
		t.Error("it ran while it was frozen")
	}
	if r.Took["copied"] <= 0 || r.Took["copied"] > r.Took["save"] {
		t.Errorf("it took %v", r.Took)
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

// Whoever kills CRIU in the middle: the job stands at once. CRIU works inside
// its processes, and one may not survive that; what survives goes on and can
// be saved anew.
func TestKillCRIU(t *testing.T) {
	b := newBed(t)
	killed, died := 0, 0
	for delay := 20 * time.Millisecond; delay < 200*time.Millisecond; delay += 15 * time.Millisecond {
		s := startCounting(b)
		s.must(order{Do: "freeze"})
		stood := b.read()
		done := make(chan struct{})
		go func() {
			defer close(done)
			killChild(s.cmd.Process.Pid, "swrk", delay)
		}()
		r := s.do(order{Do: "save", Image: b.image(s.id)})
		<-done
		if r.Error != "" {
			killed++
			if !isAny(r, "let go") {
				t.Errorf("%v: %s", delay, r.Error)
			}
			if ran := strings.Count(b.read(), "\n") - strings.Count(stood, "\n"); ran > 2 {
				t.Errorf("%v: it ran on by %d lines", delay, ran)
			}
		}
		if frozen, err := s.group().Frozen(); err != nil || !frozen {
			t.Fatalf("%v: it does not stand: %v", delay, err)
		}
		if again := s.do(order{Do: "save", Image: b.image(s.id) + "again"}); again.Error != "" && !isAny(again, "unsettled") {
			t.Logf("%v: saved again it says %s", delay, again.Error)
		}
		s.must(order{Do: "thaw"})
		before := b.read()
		time.Sleep(200 * time.Millisecond)
		if len(b.read()) == len(before) {
			died++
			t.Logf("%v: it did not survive", delay)
		} else if r.Error != "" {
			s = s.move()
		}
		s.must(order{Do: "end"})
		must(t, os.WriteFile(b.output(), nil, 0o644))
	}
	if killed < 3 {
		t.Errorf("CRIU was killed %d times only", killed)
	}
	t.Logf("CRIU was killed %d times, and the job did not survive that %d times", killed, died)
}

// killChild kills the first child of a process whose arguments contain a word,
// a while after it appears.
func killChild(parent int, word string, delay time.Duration) {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		out, _ := exec.Command("pgrep", "-P", jsonOf(parent), "-f", word).Output()
		if pid := strings.Fields(string(out)); len(pid) > 0 {
			time.Sleep(delay)
			number := 0
			_ = json.Unmarshal([]byte(pid[0]), &number)
			_ = syscall.Kill(number, syscall.SIGKILL)
			return
		}
	}
}

// A dump that takes longer than allowed is given up wherever it is, the job
// stands, and is none the worse for it.
func TestSaveDeadline(t *testing.T) {
	b := newBed(t)
	s := startCounting(b)
	given := 0
	for limit := 20 * time.Millisecond; limit < 400*time.Millisecond; limit += 30 * time.Millisecond {
		s.must(order{Do: "freeze"})
		stood := b.read()
		r := s.do(order{Do: "save", Image: b.image(s.id) + limit.String(), Timeout: limit})
		if r.Error != "" {
			given++
			if !isAny(r, "deadline") {
				t.Errorf("%v: %s", limit, r.Error)
			}
		}
		if frozen, err := s.group().Frozen(); err != nil || !frozen || b.read() != stood {
			t.Fatalf("%v: it does not stand: %v", limit, err)
		}
		s.must(order{Do: "thaw"})
		eventually(t, "it counts on", func() bool { return len(b.read()) > len(stood)+8 })
	}
	t.Logf("given up %d times", given)
	if given < 3 {
		t.Error("that is too seldom")
	}
	s = s.move()
	s.must(order{Do: "end"})
}

// An image of which a byte is missing, or another, is refused by the name of
// the part, and nothing runs.
func TestSpoiledImage(t *testing.T) {
	b := newBed(t)
	s := startCounting(b)
	image, _ := s.save()
	s.must(order{Do: "end"})
	parts, err := checkpoint.ListParts(t.Context(), image)
	must(t, err)
	before := b.read()
	for _, p := range parts {
		if p.Size == 0 {
			continue
		}
		path := filepath.Join(image, p.Name)
		good, err := os.ReadFile(path)
		must(t, err)
		for what, bad := range map[string][]byte{"changed": append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1), "cut off": good[:len(good)-1]} {
			must(t, os.WriteFile(path, bad, 0o600))
			s := b.start()
			r := s.do(order{Do: "restore", Image: image})
			if !isAny(r, "manifest") || !strings.Contains(r.Error, p.Name) {
				t.Errorf("%s %s: %q", p.Name, what, r.Error)
			}
			s.cmd.Process.Kill()
		}
		must(t, os.WriteFile(path, good, 0o600))
		if testing.Short() || len(parts) > 6 && strings.HasPrefix(p.Name, "criu/") && !strings.Contains(p.Name, "pages") && !strings.Contains(p.Name, "pstree") {
			continue
		}
	}
	if b.read() != before {
		t.Error("it ran")
	}
	s = b.start()
	s.must(order{Do: "restore", Image: image})
	s.must(order{Do: "end"})
}
