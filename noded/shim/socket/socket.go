// Package socket makes and reaches unix sockets below a state directory, however
// long its path, and those in a directory that belongs to a job, whose user could
// put anything in their place.
package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A socket's name has room for 107 bytes, which a path below a state
// directory may exceed. So sockets are named through a descriptor of their
// directory.

func throughDir(path string, use func(name string) error) error {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer unix.Close(dir)
	return use("/proc/self/fd/" + strconv.Itoa(dir) + "/" + filepath.Base(path))
}

// Listen makes a unix socket at path, of owner uid, mode 0600.
func Listen(path string, uid, gid int) (listener *net.UnixListener, err error) {
	err = throughDir(path, func(name string) error {
		if err := unix.Unlink(name); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		// The mode is that of the socket before it has a name: a name in a job's
		// directory may mean something else a moment later.
		private := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
			return errors.Join(raw.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }), err)
		}}
		made, err := private.Listen(context.Background(), "unix", name)
		if err != nil {
			return err
		}
		listener = made.(*net.UnixListener)
		// The name will not be valid at the end.
		listener.SetUnlinkOnClose(false)
		return os.Lchown(name, uid, gid)
	})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return listener, nil
}

// Dial connects to a socket in a directory that only root can write.
func Dial(ctx context.Context, path string) (conn net.Conn, err error) {
	err = throughDir(path, func(name string) error {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", name)
		return err
	})
	return conn, err
}

// DialJob connects to a socket in a directory that belongs to a job. It
// follows no link there, which could lead to a socket that trusts root, and
// talks only to a process of one of the users.
func DialJob(ctx context.Context, path string, uids ...uint32) (net.Conn, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("%s is not a socket", path)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(fd))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	peer, err := PeerUID(conn)
	if err == nil && !slices.Contains(uids, peer) {
		err = fmt.Errorf("%s is answered by user %d, not by user %d", path, peer, uids[0])
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// PeerUID answers who is at the other end of a unix socket.
func PeerUID(conn net.Conn) (uint32, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a unix socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *unix.Ucred
	var inner error
	if err := raw.Control(func(fd uintptr) {
		credentials, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if inner != nil {
		return 0, fmt.Errorf("ask who is at the other end: %w", inner)
	}
	return credentials.Uid, nil
}
