package checkpoint

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/fdinfo"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/fown"
	sk_opts "github.com/checkpoint-restore/go-criu/v8/crit/images/sk-opts"
	sk_unix "github.com/checkpoint-restore/go-criu/v8/crit/images/sk-unix"
)

// A connection of which only one end is in the image is refused; one that waits to
// be accepted has the listening socket as its other end.
func TestPeers(t *testing.T) {
	socket := func(id, peer uint32) *fdinfo.FileEntry {
		zero := set(uint32(0))
		return &fdinfo.FileEntry{Type: fdinfo.FdTypes_UNIXSK.Enum(), Id: &id, Usk: &sk_unix.UnixSkEntry{
			Id: &id, Ino: &id, Type: zero, State: zero, Flags: zero, Uflags: zero, Backlog: zero, Peer: &peer, Name: []byte{},
			Fown: &fown.FownEntry{Uid: zero, Euid: zero, Signum: zero, PidType: zero, Pid: zero},
			Opts: &sk_opts.SkOptsEntry{SoSndbuf: zero, SoRcvbuf: zero, SoSndTmoSec: set(uint64(0)), SoSndTmoUsec: set(uint64(0)), SoRcvTmoSec: set(uint64(0)), SoRcvTmoUsec: set(uint64(0))},
		}}
	}
	dir := t.TempDir()
	if err := mendSockets(dir); err != nil {
		t.Errorf("no files at all: %v", err)
	}
	path := filepath.Join(dir, filesImage)
	writeImage(t, path, socket(7, 8), socket(8, 7), socket(9, 0), socket(10, 9))
	if err := mendSockets(dir); err != nil {
		t.Error(err)
	}
	writeImage(t, path, socket(7, 8), socket(9, 0))
	if err := mendSockets(dir); !errors.Is(err, ErrBetween) {
		t.Errorf("half a connection: %v", err)
	}
}
