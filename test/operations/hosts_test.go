package operations

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hosts are machines made of namespaces: each has its own /etc, /root, /run,
// /usr/local, /var/lib and /var/backups, and an address on the loopback of a
// network that they share with nobody. Replacements for systemd and ssh are in
// tools. The directory with bin/ and contrib/ is /root.
type hosts struct {
	t         *testing.T
	dir       string
	addresses map[string]string
	first     string // process 1 of the common namespaces
}

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
mkdir "$DIR/usr/bin" "$DIR/usr/sbin"
mount --bind "$DIR/usr/bin" /usr/local/bin
mount --bind "$DIR/usr/sbin" /usr/local/sbin
ln -s "$SOURCE/bin" "$SOURCE/contrib" /root/
# Somebody who is the same on all of them.
echo 'ann:x:20071:20071::/run/home/ann:/bin/bash' >>/etc/passwd
echo 'ann:x:20071:' >>/etc/group
echo 'ann:*:20000:0:99999:7:::' >>/etc/shadow
install -d -o ann -g ann -m 700 /run/home/ann
printf '%s\n' $HOSTS_FILE | tr '=' ' ' >>/etc/hosts
echo $$ >"$ID"
echo ready
exec sleep 100000
`

// newHosts makes machines without Gleaner, by their names, and takes them away
// at the end.
func newHosts(t *testing.T, names ...string) *hosts {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "operations-")
	if err != nil {
		t.Fatal(err)
	}
	h := &hosts{t: t, dir: dir, addresses: make(map[string]string)}
	t.Cleanup(func() { // after the machines are gone: nothing is mounted in it
		if out, err := exec.Command("rm", "-rf", "--one-file-system", dir).CombinedOutput(); err != nil {
			t.Errorf("remove %s: %v %s", dir, err, out)
		}
	})
	h.must(os.Mkdir(filepath.Join(dir, "tools"), 0o755))
	h.must(os.Mkdir(filepath.Join(dir, "ids"), 0o755))
	for name, text := range tools {
		h.must(os.WriteFile(filepath.Join(dir, "tools", name), []byte(text), 0o755))
	}
	h.connect()
	for i, name := range names {
		h.addresses[name] = fmt.Sprintf("127.0.71.%d", i+1)
	}
	for _, name := range names {
		h.boot(name)
	}
	return h
}

// connect makes the network, and the processes' namespace: what runs elsewhere
// on this machine is not seen, and what is left at the end dies with it.
func (h *hosts) connect() {
	h.t.Helper()
	holder := exec.Command("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private", "bash", "-c", "ip link set lo up; echo ready; sleep 100000 & wait") // bash reaps who is left to process 1
	h.hold(holder)
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", holder.Process.Pid))
	h.must(err)
	h.first = strings.TrimSpace(string(children))
}

// hold starts a process that keeps namespaces, and returns when they are made.
// It ends with the test.
func (h *hosts) hold(holder *exec.Cmd) {
	h.t.Helper()
	holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	holder.Stderr = os.Stderr
	out, err := holder.StdoutPipe()
	h.must(err)
	h.must(holder.Start())
	h.t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	ready := make([]byte, 6)
	if _, err := io.ReadFull(out, ready); err != nil || string(ready) != "ready\n" {
		h.t.Fatalf("%v did not come up: %v", holder.Args, err)
	}
}

// inside is the command line of a command in the common namespaces.
func (h *hosts) inside(command ...string) []string {
	return append([]string{"nsenter", "--target", h.first, "--net", "--pid", "--mount"}, command...)
}

func (h *hosts) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *hosts) environment(name string) []string {
	var file strings.Builder
	for host, address := range h.addresses {
		fmt.Fprintf(&file, "%s=%s.lab=%s ", address, host, host)
	}
	source, err := filepath.Abs("../..")
	h.must(err)
	return append(os.Environ(), "DIR="+filepath.Join(h.dir, name), "IDS="+filepath.Join(h.dir, "ids"), "SOURCE="+source, "HOSTS_FILE="+file.String(), "HOME=/root", "PATH="+filepath.Join(h.dir, "tools")+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TZ=UTC", "GLEANER_CONTROLLER=", "GLEANER_CONTROLLER_TIMEOUT=90", "GLEANER_TLS_DIR=")
}

// boot makes one machine.
func (h *hosts) boot(name string) {
	h.must(os.Mkdir(filepath.Join(h.dir, name), 0o755))
	line := h.inside("unshare", "--mount", "--uts", "--propagation", "private", "bash", "-c", "hostname "+name+"\n"+build)
	holder := exec.Command(line[0], line[1:]...)
	holder.Env = append(h.environment(name), "ID="+filepath.Join(h.dir, "ids", name))
	h.hold(holder)
	h.t.Cleanup(func() { h.shutDown(name) })
}

// shutDown ends what was started in a machine, by the ids that it left.
func (h *hosts) shutDown(name string) {
	if out, err := h.run(name, "for unit in gleaner-agent gnoded gctld; do systemctl stop $unit; done"); err != nil {
		h.t.Errorf("stop the services of %s: %v\n%s", name, err, out)
	}
}

// run types commands on a machine, as root in /root, and returns what they
// print.
func (h *hosts) run(name, commands string) (string, error) {
	return h.runAs(name, "bash", "-euo", "pipefail", "-c", "cd /root\n"+commands)
}

func (h *hosts) runAs(name string, shell ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	id, err := os.ReadFile(filepath.Join(h.dir, "ids", name))
	h.must(err)
	line := h.inside(append([]string{"nsenter", "--mount", "--uts", "--target", strings.TrimSpace(string(id)), "--wd=/root"}, shell...)...)
	command := exec.CommandContext(ctx, line[0], line[1:]...)
	command.Env = h.environment(name)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	command.WaitDelay = time.Second
	err = command.Run()
	if ctx.Err() != nil {
		err = errors.Join(err, ctx.Err())
	}
	return out.String(), err
}
