package container

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What is in the way of a dump is known before it is tried, by name.
func TestObstacles(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3: opens sockets")
	}
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	defer server.Close()
	for name, c := range map[string]struct {
		script  string
		private bool
		want    string // "" = none, and it is saved
		passing bool
	}{
		"nothing": {script: "pass"},
		"a connection to outside": {
			script: "a = socket.create_connection(('127.0.0.1', " + port(server) + "))",
			want:   "has a connection to 127.0.0.1:" + port(server),
		},
		"a connection among its own, on a network of its own": {script: pair, private: true},
		"a connection among its own, on the host's network":   {script: pair, want: "--network=private"},
		"a connection that is not accepted yet": {
			script:  "l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(); a = socket.create_connection(l.getsockname())",
			private: true, want: "has a connection to 127.0.0.1:", passing: true,
		},
		"a listening socket": {script: "a = socket.socket(); a.bind(('127.0.0.1', 0)); a.listen()"},
		"datagrams":          {script: "a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(('127.0.0.1', 0))"},
		"the terminal as /dev/tty": {
			script: "import pty\npid, master = pty.fork()\nif pid == 0:\n  t = open('/dev/tty'); time.sleep(1000)\ntime.sleep(0.3)",
			want:   "/dev/tty",
		},
		"a terminal without its window": {
			script: "m, s = os.openpty(); os.close(m)", want: "whose window was closed",
		},
		"a tracer": {
			script: "import ctypes\npid = os.fork()\nif pid == 0:\n  time.sleep(1000)\nassert ctypes.CDLL(None).ptrace(0x4206, pid, 0, 0) == 0",
			want:   "is traced by another",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			s := b.start()
			s.must(order{Do: "start", Private: c.private, Script: "#!/usr/bin/env python3\nimport os, socket, time\n" + c.script + "\nprint('ready', flush=True)\ntime.sleep(1000)\n"})
			eventually(t, "it is ready", func() bool { return strings.Contains(b.read(), "ready") })
			found := strings.Join(s.must(order{Do: "reasons"}).Reasons, "\n")
			if (c.want == "") != (found == "") || !strings.Contains(found, c.want) {
				t.Errorf("it says %q", found)
			}
			s.must(order{Do: "freeze"})
			if r := s.do(order{Do: "save", Image: b.image(s.id)}); isAny(r, "obstacles") != (c.want != "") || (r.Error != "") != (c.want != "") || isAny(r, "between") != c.passing {
				t.Errorf("saving it: %q\n%s", r.Error, b.log())
			}
			s.must(order{Do: "end"})
		})
	}
}

// A connection that nobody has accepted yet, with something in it already, cannot be
// saved. When the job has run for a moment it can.
func TestStoppedInBetween(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3: opens sockets")
	}
	b := newBed(t)
	s := b.start()
	s.must(order{Do: "start", Script: `#!/usr/bin/env python3
import os, socket, time
l = socket.socket(socket.AF_UNIX); l.bind("/tmp/socket"); l.listen()
a = socket.socket(socket.AF_UNIX); a.connect("/tmp/socket"); a.send(b"x")
print("ready", flush=True)
while not os.path.exists("` + b.home() + `/go"): time.sleep(0.01)
c, _ = l.accept()
print("taken", c.recv(1), flush=True)
while os.path.exists("` + b.home() + `/go"): time.sleep(0.01)
a.send(b"y"); print("and", c.recv(1), flush=True)
`})
	eventually(t, "it is ready", func() bool { return strings.Contains(b.read(), "ready") })
	s.must(order{Do: "freeze"})
	if r := s.do(order{Do: "save", Image: b.image("one")}); !isAny(r, "between") {
		t.Errorf("saving it: %q, %v\n%s", r.Error, r.Is, b.log())
	}
	s.must(order{Do: "thaw"})
	must(t, os.WriteFile(filepath.Join(b.home(), "go"), nil, 0o644))
	eventually(t, "the connection is accepted", func() bool { return strings.Contains(b.read(), "taken b'x'") })
	s = s.move()
	must(t, os.Remove(filepath.Join(b.home(), "go")))
	if r := s.must(order{Do: "wait"}); r.Code != 0 || !strings.Contains(b.read(), "and b'y'") {
		t.Errorf("it ended with %d, signal %d, and printed %q", r.Code, r.Signal, b.read())
	}
}

// A connection that waits to be accepted still waits, also if CRIU sees it before
// the socket that listens.
func TestMoveWaitingConnection(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3: opens sockets")
	}
	b := newBed(t)
	s := b.start()
	s.must(order{Do: "start", Script: `#!/usr/bin/env python3
import os, socket, time
early, l, late = [socket.socket(socket.AF_UNIX) for i in range(3)]
l.bind("/tmp/socket"); l.listen(); early.connect("/tmp/socket"); late.connect("/tmp/socket")
print("ready", flush=True)
while not os.path.exists("` + b.home() + `/go"): time.sleep(0.01)
early.send(b"early"); late.send(b"late")
for i in range(2): c, _ = l.accept(); print(c.recv(9), flush=True)
`})
	eventually(t, "it is ready", func() bool { return strings.Contains(b.read(), "ready") })
	s = s.move()
	must(t, os.WriteFile(filepath.Join(b.home(), "go"), nil, 0o644))
	if r := s.must(order{Do: "wait"}); r.Code != 0 || !strings.Contains(b.read(), "b'early'\nb'late'\n") {
		t.Errorf("it ended with %d, signal %d, and printed %q", r.Code, r.Signal, b.read())
	}
}

const pair = "l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(); a = socket.create_connection(l.getsockname()); b, _ = l.accept()"

func port(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
