package container

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program is something that runs, is moved in the middle, and must print what
// it prints undisturbed.
type program struct {
	script string
	needs  string // a program
	ready  string // it is moved when this was printed
}

// Each waits for a file "go" in its home before it goes on, so that it is
// saved in the middle of what it does.
var programs = map[string]program{
	"python with threads and shared memory": {needs: "python3", ready: "ready", script: `#!/usr/bin/env python3
import threading, time, os
from multiprocessing import shared_memory
shm = shared_memory.SharedMemory(create=True, size=4096)
counts = [0] * 4
go = threading.Event()
def work(i):
    for n in range(1000):
        counts[i] += n
        shm.buf[i] = counts[i] % 251
    go.wait()
    counts[i] += shm.buf[i]
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]
time.sleep(0.2)
print("ready", flush=True)
while not os.path.exists("go"): time.sleep(0.02)
go.set()
[t.join() for t in threads]
print(counts, bytes(shm.buf[:4]).hex())
shm.close(); shm.unlink()
`},
	"unlinked file": {ready: "ready", script: `#!/bin/bash
exec 3<>/tmp/gone 4<>$HOME/gone
echo first >&3; head -c 3000000 /dev/zero >&4; echo last >&4
rm /tmp/gone $HOME/gone
echo ready
while [ ! -e go ]; do sleep 0.02; done
echo second >&3
cat /proc/self/fd/3; tail -c 5 /proc/self/fd/4; ls /tmp | wc -l
`},
	"pipes and a pipeline": {ready: "ready", script: `#!/bin/bash
mkfifo /tmp/fifo
(echo ready; while [ ! -e go ]; do sleep 0.02; done; seq 1 50000) | sort -n | tee >(md5sum >/tmp/sum) | (while read -r line; do [ "$line" = ready ] && { echo ready; continue; }; n=$((n+line)); done; echo "$n" >/tmp/fifo) &
(sleep 0.5; echo ready) &
cat /tmp/fifo; wait; cat /tmp/sum
`},
	"orphans": {ready: "ready", script: `#!/bin/bash
(setsid bash -c 'while [ ! -e go ]; do sleep 0.02; done; echo orphan $PPID >/tmp/orphan' &)
sleep 0.2; echo ready
while [ ! -e /tmp/orphan ]; do sleep 0.02; done
cat /tmp/orphan
`},
	"files in the root": {ready: "ready", script: `#!/bin/bash
mkdir -p /tmp/a/b && echo x >/tmp/a/b/file && ln /tmp/a/b/file /tmp/hard && ln -s /etc/passwd /tmp/link
truncate -s 1G /var/tmp/sparse; echo end >>/var/tmp/sparse
echo shm >/dev/shm/x
exec 5</usr/bin/env 6>>$HOME/log
echo before >&6
echo ready
while [ ! -e go ]; do sleep 0.02; done
echo after >&6
stat -c '%h %s %U' /tmp/hard /var/tmp/sparse; du -k /var/tmp/sparse | awk '{ print ($1 < 1000) }'; readlink /tmp/link; cat /dev/shm/x $HOME/log
head -c 4 <&5 | tail -c 3
`},
	"epoll, inotify, eventfd and timers": {needs: "python3", ready: "ready", script: `#!/usr/bin/env python3
import os, select, ctypes, struct, time, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
ino = libc.inotify_init1(0)
os.mkdir("/tmp/watched")
assert libc.inotify_add_watch(ino, b"/tmp/watched", 0x100) >= 0
efd = os.eventfd(5)
a, b = socket.socketpair()
a.send(b"in flight")
ep = select.epoll()
for fd in (ino, efd, b.fileno()): ep.register(fd, select.EPOLLIN)
rang = []
signal.signal(signal.SIGALRM, lambda *x: rang.append(1))
signal.setitimer(signal.ITIMER_REAL, 2.5)
start = time.monotonic()
print("ready", flush=True)
while not os.path.exists("go"): time.sleep(0.02)
open("/tmp/watched/new", "w").close()
got = sorted({ino: "inotify", efd: "eventfd", b.fileno(): "socket"}[fd] for fd, _ in ep.poll(5))
print(got, os.eventfd_read(efd), b.recv(100), len(os.read(ino, 4096)) > 16)
while not rang: signal.pause()
print(2 < time.monotonic() - start < 60)
`},
	"sockets among its own": {needs: "python3", ready: "ready", script: `#!/usr/bin/env python3
import os, socket, time
s = socket.socket(socket.AF_UNIX); s.bind("/tmp/sock"); s.listen()
if os.fork() == 0:
    c = socket.socket(socket.AF_UNIX); c.connect("/tmp/sock")
    c.send(b"one"); print(c.recv(10)); os._exit(0)
c, _ = s.accept()
print(c.recv(10), flush=True)
print("ready", flush=True)
while not os.path.exists("go"): time.sleep(0.02)
c.send(b"two"); os.wait()
if os.fork() == 0:
    c = socket.socket(socket.AF_UNIX); c.connect("/tmp/sock"); c.send(b"again"); os._exit(0)
c, _ = s.accept(); print(c.recv(10)); os.wait()
`},
	"a terminal multiplexer": {needs: "tmux", ready: "ready", script: `#!/bin/bash
export TERM=xterm SHELL=/bin/bash
tmux -f /dev/null new-session -d -x 80 -y 24
tmux send-keys 'x=kept' Enter
sleep 0.3; echo ready
while [ ! -e go ]; do sleep 0.02; done
tmux send-keys 'echo $x >/tmp/answer' Enter
for i in $(seq 100); do [ -s /tmp/answer ] && break; sleep 0.02; done
cat /tmp/answer; tmux kill-server
`},
	"a file mapped and being written": {needs: "python3", ready: "ready", script: `#!/usr/bin/env python3
import mmap, os, time
f = open("data", "w+b"); f.truncate(1 << 22)
m = mmap.mmap(f.fileno(), 1 << 22)
for i in range(0, 1 << 22, 4096): m[i] = i // 4096 % 256
print("ready", flush=True)
while not os.path.exists("go"):
    m[5] = (m[5] + 1) % 256; time.sleep(0.001)
m[5] = 77; m.flush()
print(sum(open("data", "rb").read()) == sum(i % 256 for i in range(1024)) + 77)
`},
	"ten thousand open files": {needs: "python3", ready: "ready", script: `#!/usr/bin/env python3
import os, time
os.mkdir("/tmp/many")
files = [open("/tmp/many/%d" % i, "w+") for i in range(10000)]
for i, f in enumerate(files): f.write(str(i)); f.flush()
print("ready", flush=True)
while not os.path.exists("go"): time.sleep(0.02)
for f in files: f.seek(0)
print(sum(int(f.read()) for f in files))
`},
	"locks, signals and stopped processes": {needs: "flock", ready: "ready", script: `#!/bin/bash
exec 9>/tmp/lock; flock 9
sleep 1000 & child=$!
kill -STOP $child
trap 'echo trapped' USR1
echo ready
while [ ! -e go ]; do sleep 0.02; done
flock -n /tmp/lock true && echo lost the lock
awk '{ print $3 }' /proc/$child/stat
kill -USR1 $$; kill -CONT $child; kill $child; wait $child; echo $?
`},
}

// Programs of all kinds go on elsewhere as if nothing had been.
func TestMovePrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: runs many programs")
	}
	for name, p := range programs {
		t.Run(name, func(t *testing.T) {
			if p.needs != "" {
				if _, err := exec.LookPath(p.needs); err != nil {
					t.Skipf("needs %s", p.needs)
				}
			}
			undisturbed := runProgram(t, p, false)
			moved := runProgram(t, p, true)
			if undisturbed != moved {
				t.Errorf("moved it prints %q, and undisturbed %q", moved, undisturbed)
			}
			if testing.Verbose() {
				t.Logf("it prints %q", moved)
			}
		})
	}
}

// runProgram runs a program to its end and answers what it printed.
func runProgram(t *testing.T, p program, move bool) string {
	t.Helper()
	b := newBed(t)
	s := b.start()
	s.must(order{Do: "start", Script: p.script})
	eventually(t, "it is ready", func() bool { return strings.Contains(b.read(), p.ready) })
	if move {
		s = s.move()
	}
	must(t, os.WriteFile(filepath.Join(b.home(), "go"), nil, 0o644))
	if r := s.must(order{Do: "wait"}); r.Code != 0 || r.Signal != 0 {
		t.Errorf("it ended with %d, signal %d, and printed %q", r.Code, r.Signal, b.read())
	}
	return b.read()
}
