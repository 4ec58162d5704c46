package shim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
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

// listen makes a unix socket at path, of owner uid, mode 0600.
func listen(path string, uid, gid int) (listener *net.UnixListener, err error) {
	err = throughDir(path, func(name string) error {
		if err := unix.Unlink(name); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		// The mode is that of the socket before it has a name: a name in a job's
		// directory may stand for something else a moment later.
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

// dialSocket connects to a socket in a directory that only root can write.
func dialSocket(ctx context.Context, path string) (conn net.Conn, err error) {
	err = throughDir(path, func(name string) error {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", name)
		return err
	})
	return conn, err
}

// dialJobSocket connects to a socket in a directory that belongs to a job. It
// follows no link there, which could lead to a socket that trusts root, and
// talks only to a process of one of the users.
func dialJobSocket(ctx context.Context, path string, uids ...uint32) (net.Conn, error) {
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
	peer, err := peerUID(conn)
	if err == nil && !slices.Contains(uids, peer) {
		err = fmt.Errorf("%s is answered by user %d, not by user %d", path, peer, uids[0])
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// dialStep connects to process 1 of the job. A socket that was restored is the
// container's root's, as whom CRIU made it listen; nothing else in a job of a user is.
func (p *part) dialStep(ctx context.Context) (net.Conn, error) {
	uids := []uint32{p.user.UID}
	if p.order.Restore != nil {
		uids = append(uids, container.HostIDBase)
	}
	conn, err := dialJobSocket(ctx, p.dir.path(runDir, pid1.StepSocket), uids...)
	if err != nil {
		return nil, fmt.Errorf("reach process 1 of the job: %w", err)
	}
	return conn, nil
}

// peerUID answers who is at the other end of a unix socket.
func peerUID(conn net.Conn) (uint32, error) {
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

// userListener lets only one user in, and that one with so many connections
// at once: they cost memory and descriptors that are not the job's.
type userListener struct {
	*net.UnixListener
	uid    uint32
	door   *door
	places chan struct{}
}

func newUserListener(l *net.UnixListener, uid uint32, d *door) userListener {
	return userListener{l, uid, d, make(chan struct{}, maxConnections)}
}

// Accept implements net.Listener.
func (l userListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.UnixListener.Accept()
		if err != nil {
			return nil, err
		}
		if uid, err := peerUID(conn); err == nil && uid == l.uid {
			select {
			case l.places <- struct{}{}:
				return &countedConn{Conn: &leavingConn{Conn: conn, door: l.door}, leave: sync.OnceFunc(func() { <-l.places })}, nil
			default:
			}
		}
		conn.Close()
	}
}

// countedConn gives its place back when it is closed.
type countedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
