package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/checkpoint-restore/go-criu/v8/rpc"
	"golang.org/x/sys/unix"
)

// This is CRIU's "swrk" mode: one process for one request, with which one
// talks over a socket. Neither libcontainer's own use of it nor go-criu's is
// taken: the former starts the first "criu" of PATH and knows no external
// mounts but those of its configuration; neither of them can be given up in
// the middle, nor tells the process's id before it begins.

const (
	// maxMessage bounds one message of CRIU's.
	maxMessage = 64 << 10
	// lastWords is how long an answer is waited for when CRIU has ended.
	lastWords = time.Second
)

// swrk is one request to CRIU.
type swrk struct {
	engine  *Engine
	request *rpc.CriuReq
	// started is called with CRIU's process id before it gets the request.
	started func(pid int) error
	// notified is called at each step of which CRIU tells; its error ends the
	// request. CRIU waits meanwhile.
	notified func(notify *rpc.CriuNotify) error
	// hold is called before CRIU is killed, or at once when it was: what CRIU
	// holds with ptrace runs as soon as CRIU has ended.
	hold func()
}

// run makes the request and waits until CRIU has ended. At the context's end
// CRIU is killed. So it is when the calling thread ends.
func (s *swrk) run(ctx context.Context) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer ours.Close()
	// Descriptor 3 is the first of ExtraFiles. For the trap see giveUp.
	cmd := exec.Command("/bin/sh", "-c", `trap "" XFSZ; exec "$@"`, "sh", s.engine.Path, "swrk", "3")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL, Setpgid: true}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return fmt.Errorf("start %s: %w", s.engine.Path, err)
	}
	var waitErr error
	ended := make(chan struct{})
	go func() {
		waitErr = cmd.Wait()
		close(ended)
		// What it has forked may hold the other end of the socket.
		_ = ours.SetReadDeadline(time.Now().Add(lastWords))
	}()
	stop := context.AfterFunc(ctx, func() { s.giveUp(cmd.Process, ended) })
	err = s.converse(cmd.Process.Pid, ours)
	stop()
	if err != nil {
		if s.hold != nil && errors.Is(err, errEnded) {
			s.hold()
		}
		// It may wait for an answer, or work on what nobody wants any more.
		kill(cmd.Process)
	}
	ours.Close()
	<-ended
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && waitErr != nil {
		// Killed between its answer and its end: it held the processes all the same.
		if s.hold != nil {
			s.hold()
		}
		err = fmt.Errorf("criu: %w", errors.Join(waitErr, errEnded))
	}
	return err
}

// undoPatience is how long CRIU may take to undo what it has begun.
const undoPatience = 10 * time.Second

// giveUp ends CRIU. It works inside the processes, which may not survive that
// it is killed just then: so first it may write no byte more to any file, and
// undoes what it did because of that. SIGXFSZ, which it would die of, it ignores.
func (s *swrk) giveUp(process *os.Process, ended <-chan struct{}) {
	none := unix.Rlimit{}
	if unix.Prlimit(process.Pid, unix.RLIMIT_FSIZE, &none, nil) == nil {
		select {
		case <-ended:
			return
		case <-time.After(undoPatience):
		}
	}
	if s.hold != nil {
		s.hold()
	}
	kill(process)
}

// kill also kills what CRIU has forked for its own work, which is in its
// process group.
func kill(process *os.Process) {
	_ = unix.Kill(-process.Pid, unix.SIGKILL)
	_ = process.Kill()
}

// converse sends the request and answers what CRIU asks until it is done.
func (s *swrk) converse(pid int, conn *net.UnixConn) error {
	if s.started != nil {
		if err := s.started(pid); err != nil {
			return err
		}
	}
	if err := send(conn, s.request); err != nil {
		return err
	}
	for {
		answer, err := receive(conn)
		if err != nil {
			return err
		}
		if !answer.GetSuccess() {
			return &refusal{syscall.Errno(answer.GetCrErrno())}
		}
		kind := answer.GetType()
		if kind == s.request.GetType() {
			return nil
		}
		if kind != rpc.CriuReqType_NOTIFY {
			return fmt.Errorf("criu answers a question that was not asked: %s", kind)
		}
		var failed error
		if s.notified != nil {
			failed = s.notified(answer.GetNotify())
		}
		success := failed == nil
		if err := send(conn, &rpc.CriuReq{Type: &kind, NotifySuccess: &success}); err != nil {
			return errors.Join(failed, err)
		}
		if failed != nil {
			return failed
		}
	}
}

// refusal is what CRIU answers when it cannot do what was asked. It also quotes
// the first line that it calls an error, which need not be the cause: the log
// is read for that.
type refusal struct{ errno syscall.Errno }

func (r *refusal) Error() string {
	if r.errno != 0 {
		return "CRIU gave up: " + r.errno.Error()
	}
	return "CRIU gave up"
}

func send(conn *net.UnixConn, request *rpc.CriuReq) error {
	data, err := request.MarshalVT()
	if err == nil {
		_, err = conn.Write(data)
	}
	if err != nil {
		return fmt.Errorf("ask criu: %w", err)
	}
	return nil
}

func receive(conn *net.UnixConn) (*rpc.CriuResp, error) {
	buffer := make([]byte, maxMessage)
	n, err := conn.Read(buffer)
	if err != nil || n == 0 {
		return nil, fmt.Errorf("criu ended without an answer: %w", errors.Join(err, errEnded))
	}
	answer := new(rpc.CriuResp)
	if err := answer.UnmarshalVT(buffer[:n]); err != nil {
		return nil, fmt.Errorf("read criu's answer: %w", err)
	}
	return answer, nil
}

var errEnded = errors.New("was it killed?")

// socketPair answers both ends of a connection; the second is for the child.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket for criu: %w", err)
	}
	file := os.NewFile(uintptr(fds[0]), "criu")
	theirs := os.NewFile(uintptr(fds[1]), "criu")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("make a socket for criu: %w", err)
	}
	return conn.(*net.UnixConn), theirs, nil
}
