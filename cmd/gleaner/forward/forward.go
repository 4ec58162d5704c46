package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/session"
	"github.com/gleaner-hpc/gleaner/proto/forward"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// forwarding is one gforward.
type forwarding struct {
	inv  *option.Invocation
	job  *pb.JobId
	name string
	host string // inside the job; "" = that of the batch script

	mu      sync.Mutex
	current *forward.Client // nil = there is no session
	told    map[string]time.Time
}

// standardAddress is where the local ports are open: others than this host's users do not
// reach them.
const standardAddress = "127.0.0.1"

// forwardPorts is gforward.
func forwardPorts(inv *option.Invocation) error {
	if len(inv.Operands) < 2 {
		return option.Fail(1, "gforward needs a job and a port: type gforward JOB PORT[:LOCAL], as in gforward 12 8888")
	}
	job, err := client.OneJob(inv.Operands[0])
	if err != nil {
		return err
	}
	pairs, err := parsePairs(inv.Operands[1:])
	if err != nil {
		return err
	}
	f := &forwarding{inv: inv, job: job, name: inv.Operands[0], host: inv.Text(optNode), told: map[string]time.Time{}}
	if f.host != "" && !spec.ValidHostName(f.host) {
		return option.Fail(1, "--%s=%s is no node: type one of the job's nodes, as in n2", optNode, console.Quoted(f.host))
	}
	listeners, err := listen(cmp.Or(inv.Text(optAddress), standardAddress), pairs)
	if err != nil {
		return err
	}
	for i, l := range listeners {
		defer l.Close()
		go f.accept(l, forward.Target{Host: f.host, Port: pairs[i].inside})
	}
	return f.run(inv.Context, listeners, pairs)
}

// run keeps a session in the job, one after the other, until the job is over.
func (f *forwarding) run(ctx context.Context, listeners []net.Listener, pairs []pair) error {
	pace := client.RetryPace()
	for again := false; ; again = true {
		began := time.Now()
		ready := func() {
			if again {
				f.say("job %s was started over, or goes on from an earlier image: new connections reach it", f.name)
				return
			}
			for i, l := range listeners {
				f.say("%s leads to port %d of job %s", l.Addr(), pairs[i].inside, f.name)
			}
		}
		err := f.session(ctx, ready)
		switch {
		case ctx.Err() != nil:
			return option.Exit(console.Interrupted)
		case !errors.Is(err, session.ErrGone):
			return err
		}
		if time.Since(began) > time.Minute {
			pace = client.RetryPace()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pace.NextBackOff()):
		}
	}
}

// partTime is how long the job's end has to end in good order.
const partTime = 2 * time.Second

// session runs the job's end, to its end.
func (f *forwarding) session(ctx context.Context, ready func()) error {
	umask, err := jobspec.FileMask("")
	if err != nil {
		return err
	}
	open := &step.Open{Name: uuid.NewString(), Client: uuid.NewString(), Argv: []string{step.Init, forward.Word}, Umask: umask}
	near, far := newStream()
	inner := *f.inv
	inner.Stdin, inner.Stdout = far, far
	stay, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	ended := make(chan error, 1)
	go func() {
		err := session.Carry(stay, &inner, f.job, f.name, open)
		near.end()
		ended <- err
	}()
	c, err := forward.NewClient(near)
	if err != nil {
		return err
	}
	f.use(c)
	defer f.use(nil)
	go func() {
		if c.Ready() == nil {
			ready()
		}
	}()
	select {
	case err = <-ended:
		c.Close()
	case <-ctx.Done():
		c.Close() // so the job's end ends too
		select {
		case err = <-ended:
		case <-time.After(partTime):
			leave()
			err = <-ended
		}
	}
	return f.outcome(err)
}

// outcome says what the end of the session means.
func (f *forwarding) outcome(err error) error {
	failure := (*option.Failure)(nil)
	switch {
	case err == nil:
		return option.Fail(1, "the end of gforward in job %s has ended: type the command again", f.name)
	case !errors.As(err, &failure) || failure.Error() != "":
		return err
	case failure.Status == forward.ExitLonely:
		return session.ErrGone
	}
	return option.Fail(1, "job %s is over, or its end of gforward was killed (exit status %d): if the job runs, see whether it is short of memory, and type the command again", f.name, failure.Status)
}

// use makes a session the one that new connections use.
func (f *forwarding) use(c *forward.Client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current = c
}

// accept carries what connects to a local port.
func (f *forwarding) accept(l net.Listener, to forward.Target) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Second / 10) // too many files are open, for example
			continue
		}
		go f.carry(conn, to)
	}
}

func (f *forwarding) carry(conn net.Conn, to forward.Target) {
	f.mu.Lock()
	c := f.current
	f.mu.Unlock()
	if c == nil {
		conn.Close()
		return
	}
	err, refused := c.Carry(conn, to), (*forward.RefusedError)(nil)
	switch {
	case errors.As(err, &refused):
		f.tell("port %d of job %s cannot be reached: %s", to.Port, f.name, format.Printable(refused.Why))
	case errors.Is(err, forward.ErrFull):
		f.tell("a connection is closed: %v are open", err)
	}
}

// tellEvery is how often the same is said.
const tellEvery = 10 * time.Second

// tell says an error of a connection, the same not too often.
func (f *forwarding) tell(text string, arguments ...any) {
	const most = 64
	line := fmt.Sprintf(text, arguments...)
	f.mu.Lock()
	last, known := f.told[line]
	quiet := known && time.Since(last) < tellEvery
	if len(f.told) >= most {
		clear(f.told)
	}
	f.told[line] = time.Now()
	f.mu.Unlock()
	if !quiet {
		f.print(line)
	}
}

func (f *forwarding) say(text string, arguments ...any) {
	if !f.inv.Given(optQuiet) {
		f.print(fmt.Sprintf(text, arguments...))
	}
}

func (f *forwarding) print(line string) {
	fmt.Fprintf(f.inv.Stderr, "%s: %s\n", f.inv.Command.Program(), line)
}

// stream is the near end of a session's input and output; far is what the session has.
type stream struct {
	output *io.PipeReader // what the session writes
	input  *io.PipeWriter // what it reads
}

type farStream struct {
	input  *io.PipeReader
	output *io.PipeWriter
}

func newStream() (*stream, *farStream) {
	output, written := io.Pipe()
	read, input := io.Pipe()
	return &stream{output, input}, &farStream{read, written}
}

func (s *stream) Read(p []byte) (int, error)  { return s.output.Read(p) }
func (s *stream) Write(p []byte) (int, error) { return s.input.Write(p) }

// Close ends the input; what comes yet is dropped.
func (s *stream) Close() error { return errors.Join(s.input.Close(), s.output.Close()) }

// end has the session be over, for whoever reads or writes.
func (s *stream) end() {
	_ = s.output.CloseWithError(io.EOF)
	_ = s.input.CloseWithError(io.EOF)
}

func (f *farStream) Read(p []byte) (int, error) { return f.input.Read(p) }

// Write drops what nobody reads any more.
func (f *farStream) Write(p []byte) (int, error) {
	n, err := f.output.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		return len(p), nil
	}
	return n, err
}
