package cuda

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// mostStray is how many killed helpers may not have ended yet when another is
// started: a driver that hangs keeps them in the kernel.
const mostStray = 4

// client asks the helper process, and starts it when there is none.
type client struct {
	command []string // program and first arguments
	library string
	environ []string
	start   time.Duration // patience with a new one: cuInit takes seconds
	margin  time.Duration // beside the time that a call is given

	mu      sync.Mutex // held during a call: the helper does one at a time
	conn    net.Conn
	lines   *bufio.Reader
	process *running
	version int32
	lastID  uint64

	stray atomic.Int32 // processes that were started and have not ended
}

// hello starts the helper if there is none, and loads the library in it.
func (c *client) hello(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ensure(ctx)
}

// ask makes the helper carry out one request within a time. The error is a *CallError
// if the driver refused.
func (c *client) ask(ctx context.Context, r request, within time.Duration) (State, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ensure(ctx); err != nil {
		return 0, err
	}
	said, err := c.exchange(ctx, &r, within+c.margin)
	switch {
	case err != nil:
		c.drop()
		return 0, fmt.Errorf("%w: %s of process %d: %w", ErrHelper, r.Call, r.PID, err)
	case said.Error != "":
		return 0, errors.New(said.Error)
	case said.Code != 0:
		return 0, &CallError{Call: r.Call, PID: r.PID, Code: said.Code, Name: said.Name}
	}
	return said.State, nil
}

func (c *client) ensure(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	if c.stray.Load() >= mostStray {
		return fmt.Errorf("%w: %d that were killed have not ended, so the driver hangs: dmesg | grep -i -e nvrm -e xid says why, and a reset of the GPU or the machine ends it", ErrHelper, mostStray)
	}
	if err := c.launch(); err != nil {
		return fmt.Errorf("%w: %w", ErrHelper, err)
	}
	said, err := c.exchange(ctx, &request{Call: callHello, Library: c.library}, c.start)
	if err != nil {
		c.drop()
		return fmt.Errorf("%w: load %s: %w", ErrHelper, c.library, err)
	}
	if said.Error == "" {
		c.version = said.Version
		return nil
	}
	c.drop()
	for sentinel, is := range map[error]bool{ErrNoDriver: said.NoDriver, ErrTooOld: said.TooOld} {
		if is {
			return fmt.Errorf("%w%s", sentinel, strings.TrimPrefix(said.Error, sentinel.Error()))
		}
	}
	return errors.New(said.Error)
}

// launch starts the process at the other end of a socket.
func (c *client) launch() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	mine, theirs := os.NewFile(uintptr(pair[0]), "helper"), os.NewFile(uintptr(pair[1]), "helper")
	defer mine.Close()
	defer theirs.Close()
	conn, err := net.FileConn(mine)
	if err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	cmd := exec.Command(c.command[0], c.command[1:]...)
	cmd.Dir = "/"
	cmd.Env = c.environ
	process := &running{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = theirs, &process.words, endPatience
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		conn.Close()
		return err
	}
	c.stray.Add(1)
	go func() {
		_ = cmd.Wait() // how it ended is told by the call that it was in
		close(process.ended)
		c.stray.Add(-1)
	}()
	c.conn, c.lines, c.process = conn, bufio.NewReaderSize(conn, longestMessage), process
	return nil
}

// running is a helper process.
type running struct {
	cmd   *exec.Cmd
	ended chan struct{}
	words firstWords
}

// endPatience is how long one that is dying may take to say how.
const endPatience = time.Second

// lastWords is how it died, if it did.
func (r *running) lastWords() string {
	select {
	case <-r.ended:
	case <-time.After(endPatience):
		return ""
	}
	line, _, _ := strings.Cut(string(r.words), "\n")
	return strings.Join(strings.Fields(": "+strings.ToValidUTF8(line, "?")+" ("+r.cmd.ProcessState.String()+")"), " ")
}

// firstWords keeps the beginning of what is written, and takes the rest.
type firstWords []byte

func (w *firstWords) Write(text []byte) (int, error) {
	const most = 256
	*w = append(*w, text[:min(len(text), most-len(*w))]...)
	return len(text), nil
}

// exchange sends a request and reads its answer.
func (c *client) exchange(ctx context.Context, r *request, within time.Duration) (*answer, error) {
	deadline := time.Now().Add(within)
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(deadline) {
		deadline = earlier
	}
	if err := c.conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	conn := c.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c.lastID++
	r.ID = c.lastID
	out, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(append(out, '\n')); err != nil {
		return nil, c.whyNoAnswer(ctx, err)
	}
	line, err := c.lines.ReadSlice('\n')
	if err != nil {
		return nil, c.whyNoAnswer(ctx, err)
	}
	said := new(answer)
	if err := json.Unmarshal(line, said); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	if said.ID != r.ID {
		return nil, fmt.Errorf("it answered question %d, not %d", said.ID, r.ID)
	}
	return said, nil
}

func (c *client) whyNoAnswer(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("no answer in time")
	}
	return errors.New("it died" + c.process.lastWords())
}

// drop ends the helper, whatever it does.
func (c *client) drop() {
	if c.conn == nil {
		return
	}
	c.conn.Close()
	_ = c.process.cmd.Process.Kill()
	c.conn, c.lines, c.process = nil, nil, nil
}

func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

// helperEnvironment is what a helper gets of an environment: without what would
// hide GPUs from it.
func helperEnvironment(environ []string) []string {
	var kept []string
	for _, entry := range environ {
		if !strings.HasPrefix(entry, "CUDA_") && !strings.HasPrefix(entry, "NVIDIA_") {
			kept = append(kept, entry)
		}
	}
	return append(kept, "GOMAXPROCS=2")
}
