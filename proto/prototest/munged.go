package prototest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// mungedPath is where Debian has munged, which is in no user's PATH.
const mungedPath = "/usr/sbin/munged"

// Munged runs a real munged with a key of its own, which fill chooses, until the test
// ends, and returns its socket, which every user may open.
func Munged(t testing.TB, fill byte) (socket string) {
	t.Helper()
	if _, err := os.Stat(mungedPath); err != nil {
		t.Skip("needs munged: only it can say whether what goes over its socket is right (contrib/setup/debian.sh munge)")
	}
	dir := openDir(t)
	keyFile, socket := filepath.Join(dir, "key"), filepath.Join(dir, "socket")
	if err := os.WriteFile(keyFile, bytes.Repeat([]byte{fill}, 128), 0o400); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	daemon := exec.Command(mungedPath, "--foreground", "--force", "--key-file="+keyFile, "--socket="+socket,
		"--pid-file="+filepath.Join(dir, "pid"), "--seed-file="+filepath.Join(dir, "seed"))
	daemon.Stdout, daemon.Stderr = &said, &said
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		_ = daemon.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	Eventually(t, "munged listens", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return socket
}

// MungedFor is a socket at which a munged takes everybody for one user: who connects to it
// is passed on by a thread of that user, which is what the kernel tells the daemon.
func MungedFor(t testing.TB, socket string, uid, gid int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a thread of the test becomes another user")
	}
	as := filepath.Join(openDir(t), "socket")
	listener, err := net.Listen("unix", as)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				daemon, err := dialAs(socket, uid, gid)
				if err != nil {
					return
				}
				defer daemon.Close()
				go func() { _, _ = io.Copy(daemon, conn) }()
				_, _ = io.Copy(conn, daemon)
			}()
		}
	}()
	return as
}

// dialAs connects as another user.
func dialAs(socket string, uid, gid int) (conn net.Conn, err error) {
	err = errors.New("the thread did not become the user")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends here
		_, _, gidErr := syscall.RawSyscall(syscall.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid))
		_, _, uidErr := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
		if gidErr == 0 && uidErr == 0 {
			conn, err = net.Dial("unix", socket)
		}
	}()
	<-done
	return conn, err
}

// openDir is a directory with a short path that every user may enter.
func openDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "munged")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
