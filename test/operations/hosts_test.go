package operations

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hosts are machines made of mount namespaces: each has its own /etc, /root,
// /run, /var/lib, /var/backups and programs, and an address on the loopback
// network. What stands in for systemd and ssh is in tools.
type hosts struct {
	t   *testing.T
	dir string
	ids map[string]int // process that holds the namespaces
}

var addresses = map[string]string{"c1": "127.0.71.1", "c2": "127.0.71.2", "c3": "127.0.71.3", "gpu01": "127.0.71.9"}

// build runs in the new namespaces, before the host is used. Nothing of it is
// seen outside, and the kernel takes it away with the last process inside.
const build = `set -eu
cp -a /etc "$DIR/etc"
mkdir -p "$DIR/usr" "$DIR/root"
mount -t tmpfs -o size=256m,mode=755 none /run
mount -t tmpfs -o size=256m,mode=755 none /var/lib
mount -t tmpfs -o size=64m,mode=755 none /var/backups
mount --bind "$DIR/etc" /etc
mount --bind "$DIR/root" /root
mount --bind "$TOOLS" /usr/local/bin
mount --bind "$TOOLS" /usr/local/sbin
mkdir -p /etc/gleaner
printf '%s\n' $HOSTS_FILE | tr '=' ' ' >>/etc/hosts
echo ready
exec sleep 100000
`

// tools stand in for those of a machine with systemd and ssh.
var tools = map[string]string{
	// Units are started with what their own files say.
	"systemctl": `#!/bin/bash
verb=$1; shift
unit=; now=
for word; do case $word in --now) now=1 ;; -*) ;; *) unit=${word%.service} ;; esac; done
pid=/run/$unit.pid
alive() { [ -s $pid ] && kill -0 $(cat $pid) 2>/dev/null; }
stop() { if alive; then kill $(cat $pid); while alive; do sleep 0.05; done; fi; rm -f $pid; }
start() {
	alive && return
	mkdir -p /run/gleaner
	setsid bash -c 'echo $$ >'$pid'; exec $(sed -n s/^ExecStart=//p '$UNITS/$unit.service')' >>/run/$unit.log 2>&1 </dev/null &
	for i in $(seq 100); do [ -s $pid ] && break; sleep 0.05; done
	# The services' own start-up: what fails at once is seen by is-active.
	sleep 0.3
}
case $verb in
enable) [ -z "$now" ] || start ;;
start) start ;;
stop) stop ;;
restart) stop; start ;;
is-active) if alive; then echo active; else echo inactive; exit 3; fi ;;
*) echo "systemctl $verb: not here" >&2; exit 1 ;;
esac
`,
	"journalctl": `#!/bin/bash
lines=10 unit=gctld
while [ $# -gt 0 ]; do case $1 in -u) unit=$2; shift ;; -n) lines=$2; shift ;; esac; shift; done
tail -n $lines /run/$unit.log
`,
	"scp": `#!/bin/bash
[ "$1" = -r ] && shift
host=${2%%:*} path=${2#*:}
tar -C "$(dirname "$1")" -c "$(basename "$1")" | nsenter -m -t $(cat $IDS/${host%.lab}) bash -c 'mkdir -p "$(dirname "$1")" && rm -rf "$1" && mkdir "$1" && tar -x --strip-components=1 -C "$1"' - "$path"
`,
}

// newHosts makes the machines, and takes them away at the end.
func newHosts(t *testing.T) *hosts {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "operations-")
	if err != nil {
		t.Fatal(err)
	}
	h := &hosts{t: t, dir: dir, ids: make(map[string]int)}
	t.Cleanup(func() { // after the machines are gone: nothing is mounted in it
		if out, err := exec.Command("rm", "-rf", "--one-file-system", dir).CombinedOutput(); err != nil {
			t.Errorf("remove %s: %v %s", dir, err, out)
		}
	})
	h.must(os.CopyFS(filepath.Join(dir, "tools"), os.DirFS("../../bin")))
	h.must(os.Mkdir(filepath.Join(dir, "ids"), 0o755))
	for name, text := range tools {
		h.must(os.WriteFile(filepath.Join(dir, "tools", name), []byte(text), 0o755))
	}
	for name := range addresses {
		h.boot(name)
	}
	return h
}

func (h *hosts) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *hosts) environment(name string) []string {
	var file strings.Builder
	for host, address := range addresses {
		fmt.Fprintf(&file, "%s=%s.lab=%s ", address, host, host)
	}
	units, err := filepath.Abs("../../contrib/systemd")
	h.must(err)
	return append(os.Environ(), "DIR="+filepath.Join(h.dir, name), "TOOLS="+filepath.Join(h.dir, "tools"), "IDS="+filepath.Join(h.dir, "ids"),
		"UNITS="+units, "HOSTS_FILE="+file.String(), "HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TZ=UTC", "GLEANER_CONTROLLER=", "GLEANER_CONTROLLER_TIMEOUT=90", "GLEANER_TLS_DIR=")
}

// boot makes one machine.
func (h *hosts) boot(name string) {
	h.must(os.Mkdir(filepath.Join(h.dir, name), 0o755))
	holder := exec.Command("unshare", "--mount", "--uts", "--propagation", "private", "bash", "-c", "hostname "+name+"\n"+build)
	holder.Env = h.environment(name)
	holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := holder.StdoutPipe()
	h.must(err)
	holder.Stderr = os.Stderr
	h.must(holder.Start())
	h.ids[name] = holder.Process.Pid
	h.t.Cleanup(func() { h.shutDown(name, holder) })
	ready := make([]byte, 6)
	if _, err := out.Read(ready); err != nil || string(ready) != "ready\n" {
		h.t.Fatalf("host %s did not come up: %v", name, err)
	}
	h.must(os.WriteFile(filepath.Join(h.dir, "ids", name), fmt.Append(nil, holder.Process.Pid), 0o644))
}

// shutDown ends what was started in a machine, by the ids that it left, and
// then the machine.
func (h *hosts) shutDown(name string, holder *exec.Cmd) {
	if out, err := h.run(name, "for unit in gnoded gctld; do systemctl stop $unit; done"); err != nil {
		h.t.Errorf("stop the services of %s: %v\n%s", name, err, out)
	}
	_ = holder.Process.Kill()
	_ = holder.Wait()
}

// run types commands on a machine, as root in /root, and answers what they
// print.
func (h *hosts) run(name, commands string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "nsenter", "--mount", "--uts", "--target", fmt.Sprint(h.ids[name]), "--wd=/root", "bash", "-euo", "pipefail", "-c", "cd /root\n"+commands)
	command.Env = h.environment(name)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	if ctx.Err() != nil {
		err = errors.Join(err, ctx.Err())
	}
	return out.String(), err
}
