package dial

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ListenUnix opens a socket for everyone on this host: who they are is the kernel's word
// (PeerOf). The socket of a dead program is replaced, that of a live one is not. setting
// is what the operator gives the path by, as in --socket.
func ListenUnix(path, setting string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make directory of the socket: %w", err)
	}
	if err := removeStale(path, setting); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s to users: %w", path, err), listener.Close())
	}
	return listener, nil
}

func removeStale(path, setting string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there and is not a socket: move it away, or give another %s", path, setting)
	}
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = conn.Close()
		return fmt.Errorf("another program answers on %s: stop it, or give another %s", path, setting)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the socket of a program that is gone: %w", err)
	}
	return nil
}

// PeerOf asks the kernel who connected (socket(7), SO_PEERCRED).
func PeerOf(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var found *unix.Ucred
	var failure error
	if err := raw.Control(func(descriptor uintptr) {
		found, failure = unix.GetsockoptUcred(int(descriptor), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	if failure != nil {
		return nil, fmt.Errorf("ask the kernel who connected: %w", failure)
	}
	return found, nil
}
