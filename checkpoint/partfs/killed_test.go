package partfs

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// servesWord has this program mount and show parts again and again, in a mount namespace of
// its own, until it is killed.
const servesWord = "PARTFS_SERVES"

func TestMain(m *testing.M) {
	if dir := os.Getenv(servesWord); dir != "" {
		fmt.Println(serveForever(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func serveForever(dir string) error {
	p := &parts{names: []string{"a", "b", "c", "d"}, data: map[string][]byte{"a": noise(100), "b": noise(1), "c": nil, "d": noise(7)}}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err == nil {
		err = errors.Join(unix.Flock(int(lock.Fd()), unix.LOCK_EX), os.Mkdir(filepath.Join(dir, "fs"), 0o700))
	}
	for _, name := range p.names {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for first := true; err == nil; first = false {
		var m *Mount
		if m, err = New(filepath.Join(dir, "fs"), p, slog.New(slog.DiscardHandler)); err == nil {
			err = errors.Join(m.Show(func(part string) string { return filepath.Join(dir, part) }), m.Close())
		}
		if first {
			fmt.Println("shown")
		}
	}
	return err
}

// TestKilled: a process that is killed ends, and its locks with it, also while it asks its
// own file system.
func TestKilled(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs FUSE and root: mounts a file system")
	}
	for range prototest.Soak(25, 2000) {
		dir := t.TempDir()
		server := exec.Command(os.Args[0])
		server.Env = append(os.Environ(), servesWord+"="+dir)
		server.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := server.StdoutPipe()
		must(t, err)
		must(t, server.Start())
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "shown\n" {
			t.Fatalf("it says %q, %v", line, err)
		}
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		must(t, server.Process.Kill())
		ended := make(chan error, 1)
		go func() { ended <- server.Wait() }()
		select {
		case <-ended:
		case <-time.After(prototest.Patience):
			t.Fatalf("process %d does not end after it was killed", server.Process.Pid)
		}
		lock, err := os.Open(filepath.Join(dir, "lock"))
		must(t, err)
		must(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB))
		must(t, lock.Close())
	}
}
