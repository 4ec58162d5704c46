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

// This is CRIU's "swrk" mode: one process for each request, which is reached over a
// socket. Neither libcontainer nor go-criu serves here: libcontainer starts the first
// "criu" in PATH and knows no external mounts except those of its configuration;
// neither of them can be aborted in the middle, or tells the process's id before it
// begins.

const (
	// maxMessage bounds one message of CRIU's.
	maxMessage = 64 << 10
	// answerPatience is how long an answer may still come after CRIU has ended.
	answerPatience = time.Second
)

// swrk is one request to CRIU.
type swrk struct {
	engine  *Engine
	request *rpc.CriuReq
	// started is called with CRIU's process id before it gets the request.
	started func(pid int) error
	// notified is called at each step that CRIU announces; its error ends the
	// request. CRIU waits meanwhile.
	notified func(notify *rpc.CriuNotify) error
	// hold is called before CRIU is killed, or at once if somebody else killed it: what
	// CRIU holds with ptrace runs as soon as CRIU has ended.
	hold func()
	// through is a command before CRIU's own that leads it to its place.
	through []string
	// owner is the user as whom CRIU runs; see runAs.
	owner uint32
	// maker is the user who makes a user namespace for CRIU to run in. images and logs
	// are the directories that CRIU gets; see runBelow.
	maker        uint32
	images, logs *os.File
}

// run makes the request and waits until CRIU has ended. CRIU is killed at the
// context's end, and when the calling thread ends.
func (s *swrk) run(ctx context.Context) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer ours.Close()
	// Descriptor 3 is the first of ExtraFiles. For the trap see giveUp.
	cmd := exec.Command("/bin/sh", "-c", `trap "" XFSZ; exec "$@"`, "sh")
	cmd.Args = append(append(cmd.Args, s.through...), s.engine.Path, "swrk", "3")
	cmd.ExtraFiles = []*os.File{theirs}
	purpose := forDumps
	if s.maker != 0 {
		purpose = forRestores
	}
	cmd.Env = withMemory(os.Environ(), purpose)
	words, err := newLastWords()
	if err != nil {
		ours.Close()
		theirs.Close()
		return err
	}
	defer words.Close()
	cmd.Stderr = words.File
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL, Setpgid: true}
	if s.owner != 0 {
		if err := s.runAs(cmd.SysProcAttr); err != nil {
			return err
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if s.maker != 0 {
		err = s.runBelow(cmd)
	} else {
		err = cmd.Start()
	}
	theirs.Close()
	if err != nil {
		return fmt.Errorf("start %s: %w", s.engine.Path, err)
	}
	var waitErr error
	ended := make(chan struct{})
	go func() {
		waitErr = cmd.Wait()
		close(ended)
		// A process that it forked may hold the other end of the socket.
		_ = ours.SetReadDeadline(time.Now().Add(answerPatience))
	}()
	stop := context.AfterFunc(ctx, func() { s.giveUp(cmd.Process, ended) })
	err = s.converse(cmd.Process.Pid, ours)
	stop()
	if err != nil {
		if s.hold != nil && errors.Is(err, errEnded) {
			s.hold()
		}
		// It may wait for an answer, or work on something that nobody wants any longer.
		kill(cmd.Process)
	}
	ours.Close()
	<-ended
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errEnded) {
		err = words.join(err, waitErr)
	}
	if err == nil && waitErr != nil {
		// It was killed between its answer and its end: it still held the processes.
		if s.hold != nil {
			s.hold()
		}
		err = words.join(fmt.Errorf("criu: %w", errEnded), waitErr)
	}
	return err
}

// undoPatience is how long CRIU may take to undo what it has begun.
const undoPatience = 10 * time.Second

// giveUp ends CRIU. CRIU works inside the processes, which may die if it is killed
// at that moment. So giveUp first keeps it from writing another byte to any file, and
// CRIU then fails and undoes what it did. It ignores SIGXFSZ, which would kill it.
func (s *swrk) giveUp(process *os.Process, ended <-chan struct{}) {
	if s.forbidWriting(process.Pid) == nil {
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
// the first line that it calls an error. That need not be the cause, which is looked up
// in the log.
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
	if errors.Is(err, unix.EPIPE) {
		err = errors.Join(err, errEnded)
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
