package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// inOwnMounts marks the process that runs a test in mounts of its own.
const inOwnMounts = "GLEANER_TEST_OWN_MOUNTS"

// smallDisk is a file system of so many bytes that ends with the process: the
// test runs once more in a mount namespace of its own, and the outer one
// returns "".
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts a small file system")
	}
	if os.Getenv(inOwnMounts) == "" {
		command := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v=true", "-test.timeout=5m")
		command.Env = append(os.Environ(), inOwnMounts+"=1")
		command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		out, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return ""
	}
	dir := t.TempDir()
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)),
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes what the disk has left, to the last page.
func fill(t *testing.T, dir string) (empty func()) {
	t.Helper()
	path := filepath.Join(dir, "fill")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	page := make([]byte, os.Getpagesize())
	for err == nil {
		_, err = file.Write(page)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// shrink gives some of it back.
func shrink(t *testing.T, dir string, bytes int64) {
	t.Helper()
	path := filepath.Join(dir, "fill")
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()-bytes)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// untilFull proposes commands of a size until one is refused, and answers
// those that were accepted.
func untilFull(t *testing.T, peer *Peer, size int, room bool) (accepted []string) {
	t.Helper()
	for i := range 100_000 {
		command := fmt.Sprintf("%d of %d ", i, size) + strings.Repeat("x", size)
		err := error(nil)
		if room {
			err = peer.Room(len(command))
		}
		if err == nil {
			_, err = peer.Propose(context.Background(), []byte(command))
		}
		switch {
		case errors.Is(err, ErrFull):
			t.Logf("after %d: %v", i, err)
			return accepted
		case err != nil:
			t.Fatalf("after %d: %v", i, err)
		}
		accepted = append(accepted, command)
	}
	t.Fatal("never full")
	return nil
}

func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, 96<<20)
	if dir == "" {
		return
	}
	data := filepath.Join(dir, "data")
	peer, _ := openPeer(t, data)
	empty := fill(t, dir)
	want := untilFull(t, peer, 1<<20, true) // new work
	if len(want) < 2 {
		t.Fatalf("only %d accepted, with room for more", len(want))
	}
	for _, left := range []int64{0, 1 << 20} { // the disk is full at its begin, and in its middle
		shrink(t, dir, left)
		if err := peer.Snapshot(); err == nil {
			t.Fatal("a snapshot on a full disk succeeded")
		}
		if left, _ := os.ReadDir(filepath.Join(data, "snapshots")); len(left) != 0 {
			t.Fatalf("left of the snapshot: %v", left)
		}
	}
	small := untilFull(t, peer, 10_000, false) // its end
	if len(small) < 20 {
		t.Fatalf("room for only %d more, when new work was refused", len(small))
	}
	want = append(want, small...)
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}

	peer, machine := openPeer(t, data) // starts, and leads, on the full disk
	if !slices.Equal(machine.all(), want) {
		t.Fatalf("after a restart %d commands, want %d", len(machine.all()), len(want))
	}
	if _, err := peer.Propose(context.Background(), bytes.Repeat([]byte("x"), 4<<20)); !errors.Is(err, ErrFull) {
		t.Fatalf("still full: %v", err)
	}
	empty()
	time.Sleep(growEvery)
	propose(t, peer, "again")
	if err := peer.Room(1 << 20); err != nil {
		t.Fatal(err)
	}
	if err := peer.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if got := machine.all(); !slices.Equal(got, append(want, "again")) {
		t.Fatalf("at the end %d commands, want %d", len(got), len(want)+1)
	}
}

// TestFullDiskUnforeseen is what happens where the file system gives no blocks
// ahead: the write itself fails, and raft loses and takes up the lead.
func TestFullDiskUnforeseen(t *testing.T) {
	dir := smallDisk(t, 96<<20)
	if dir == "" {
		return
	}
	data := filepath.Join(dir, "data")
	peer, machine := openPeer(t, data)
	peer.log.mu.Lock()
	peer.log.room.noAhead = true
	peer.log.mu.Unlock()
	empty := fill(t, dir)
	var want []string
	for i := 0; ; i++ {
		command := fmt.Sprintf("%d ", i) + strings.Repeat("x", 1<<20)
		err := peer.raft.Apply([]byte(command), prototest.Patience).Error() // past the gate
		if err != nil {
			if translated := translate(err); !errors.Is(translated, ErrFull) {
				t.Fatalf("refused with %v", translated)
			}
			break
		}
		want = append(want, command)
	}
	for range 4 { // elections, for whose terms there is no room or little
		time.Sleep(100 * time.Millisecond)
		if err := peer.Failure(); err != nil {
			t.Fatal(err)
		}
	}
	empty()
	deadline := time.Now().Add(prototest.Patience)
	for {
		_, err := peer.Propose(context.Background(), []byte("again"))
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if got := machine.all(); !slices.Equal(got, append(want, "again")) {
		t.Fatalf("%d commands, want %d", len(got), len(want)+1)
	}
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestWaitsForRoomToSaveTheTerm: raft panics when the term cannot be saved.
func TestWaitsForRoomToSaveTheTerm(t *testing.T) {
	dir := smallDisk(t, 4<<20)
	if dir == "" {
		return
	}
	path := filepath.Join(dir, logName)
	if err := createLogFile(path); err != nil {
		t.Fatal(err)
	}
	// So full that the log gets no block ahead and not one page.
	empty := fill(t, dir)
	logs, err := openLogFile(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	logs.serve(func(err error) { t.Errorf("a full disk is not the end: %v", err) })
	saved := make(chan error, 1)
	go func() {
		for term := range uint64(100) { // until the free pages of the file are used up
			if err := logs.Set(fmt.Appendf(nil, "key%d", term), bytes.Repeat([]byte("v"), 500)); err != nil {
				saved <- err
				return
			}
		}
		saved <- nil
	}()
	select {
	case err := <-saved:
		t.Fatalf("there was room after all: %v", err)
	case <-time.After(600 * time.Millisecond):
	}
	empty()
	if err := prototest.Receive(t, "it is saved, with room on the disk", saved); err != nil {
		t.Fatal(err)
	}
	if err := logs.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestManyAtOnceAreNotFull: a disk with room is never called full, however
// many commands reserve theirs at once and however fast the log grows.
func TestManyAtOnceAreNotFull(t *testing.T) {
	peer, machine := openPeer(t, t.TempDir())
	clients, each := 600, prototest.Soak(10, 40)
	command := bytes.Repeat([]byte("x"), 3000)
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for range each {
				if _, err := peer.Propose(context.Background(), command); err != nil {
					t.Error(err)
					return
				}
				if err := peer.Room(len(command)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if got := len(machine.all()); got != clients*each {
		t.Errorf("%d commands of %d", got, clients*each)
	}
}
