package checkpoint

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/pstree"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/tty"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// A terminal whose foreground group has ended is its session leader's.
func TestTerminalsOfGoneGroups(t *testing.T) {
	dir := t.TempDir()
	task := func(pid, group, session uint32) *pstree.PstreeEntry {
		return &pstree.PstreeEntry{Pid: &pid, Ppid: set(uint32(1)), Pgid: &group, Sid: &session, Threads: []uint32{pid}}
	}
	terminal := func(id, session, group uint32) *tty.TtyInfoEntry {
		return &tty.TtyInfoEntry{
			Id: &id, Type: tty.TtyType_PTY.Enum(), Locked: set(false), Exclusive: set(false), PacketMode: set(false),
			Sid: &session, Pgrp: &group, Rdev: set(uint32(0)),
		}
	}
	tree := filepath.Join(dir, treeImage)
	writeImage(t, tree, task(20, 20, 20), task(30, 30, 20))
	path := filepath.Join(dir, terminalsImage)
	writeImage(t, path, terminal(1, 20, 59), terminal(2, 20, 30), terminal(3, 0, 0), terminal(4, 77, 59))
	if err := mendTerminals(dir); err != nil {
		t.Fatal(err)
	}
	var got []uint32
	for _, terminal := range entriesOf[tty.TtyInfoEntry](t, path) {
		got = append(got, terminal.GetPgrp())
	}
	if want := []uint32{20, 30, 0, 59}; !slices.Equal(got, want) {
		t.Errorf("groups %v, not %v", got, want)
	}
}

// Output that nobody has read yet is written to its terminal once more, which is
// to make of it what it is now; what was typed stays as it is.
func TestTerminalsQueuedLines(t *testing.T) {
	dir := t.TempDir()
	side := func(id uint32, device uint64, flags uint32) *tty.TtyInfoEntry {
		return &tty.TtyInfoEntry{
			Id: &id, Type: tty.TtyType_PTY.Enum(), Locked: set(false), Exclusive: set(false), PacketMode: set(false),
			Sid: set(uint32(0)), Pgrp: set(uint32(0)), Rdev: set(uint32(device)),
			Termios: &tty.TermiosEntry{CIflag: set(uint32(0)), COflag: &flags, CCflag: set(uint32(0)), CLflag: set(uint32(0)), CLine: set(uint32(0)), CIspeed: set(uint32(0)), COspeed: set(uint32(0))},
		}
	}
	master, slave := unix.Mkdev(5, 2), unix.Mkdev(136, 0)
	writeImage(t, filepath.Join(dir, terminalsImage), side(1, master, 5), side(2, slave, 5), side(3, master, 4))
	path := filepath.Join(dir, "tty-data.img")
	var queued []proto.Message
	for id := range uint32(3) {
		queued = append(queued, &tty.TtyDataEntry{TtyId: set(id + 1), Data: []byte("a\r\nb\r\r\nc\r\n")})
	}
	writeImage(t, path, queued...)
	if err := undoLineEnds(dir); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entriesOf[tty.TtyDataEntry](t, path) {
		got = append(got, string(entry.GetData()))
	}
	if want := []string{"a\nb\r\nc\n", "a\r\nb\r\r\nc\r\n", "a\r\nb\r\r\nc\r\n"}; !slices.Equal(got, want) {
		t.Errorf("queued is %q", got)
	}
}
