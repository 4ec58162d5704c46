package session

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// New is a client of the sessions that a job has.
func New(inv *option.Invocation, job *pb.JobId, name string) *Client {
	return &Client{inv: inv, job: job, jobName: name, attach: &step.Attach{Client: uuid.NewString()}}
}

// Join attaches to a session by its number and stays with it.
func (s *Client) Join(number uint32, terminal bool) error {
	s.attach.Step = number
	return s.attend(terminal)
}

// Begin opens a session in a job and stays with it. detached: the user has left it to
// itself. With silent nothing is said of how the task ended.
func Begin(inv *option.Invocation, job *pb.JobId, name string, open *step.Open, silent bool) (detached bool, err error) {
	s := &Client{inv: inv, job: job, jobName: name, open: open, silent: silent}
	err = s.attend(open.Window != nil)
	return s.detached, err
}

// Keep opens a session and stays with it in silence, whatever signals come: its input
// is what the invocation's is, and its output goes nowhere.
func Keep(inv *option.Invocation, job *pb.JobId, name string, open *step.Open) (err error) {
	s := &Client{inv: inv, job: job, jobName: name, open: open, silent: true}
	if s.client, err = client.Connect(s.inv); err != nil {
		return err
	}
	defer s.client.Close()
	s.input = newTypedInput()
	go s.input.read(s.inv.Stdin, nil)
	return s.run(context.WithoutCancel(s.inv.Context))
}

// Carry opens a session whose input and output are a stream of bytes for programs, and stays
// with it to its end, or until ctx is over. It fails with ErrGone when the stream cannot go
// on though the job does.
func Carry(ctx context.Context, inv *option.Invocation, job *pb.JobId, name string, open *step.Open) (err error) {
	s := &Client{inv: inv, job: job, jobName: name, open: open, silent: true, exact: true}
	if s.client, err = client.Connect(s.inv); err != nil {
		return err
	}
	defer s.client.Close()
	s.input = newTypedInput()
	go s.input.read(s.inv.Stdin, nil)
	return s.run(ctx)
}

// Window asks for a terminal; its true size is filled in when the
// session begins.
func Window() *step.Window { return (*screen)(nil).size() }

// attend makes what a session needs of the user's side, and stays with it.
func (s *Client) attend(terminal bool) (err error) {
	if s.client, err = client.Connect(s.inv); err != nil {
		return err
	}
	defer s.client.Close()
	left := make(chan struct{})
	s.input, s.leave = newTypedInput(), left
	var keys *keyWatch
	caught := Forwarded
	if terminal {
		if s.screen, err = takeScreen(s.inv.Stdin, s.inv.Stdout); err != nil {
			return fmt.Errorf("the terminal cannot be made raw: %w", err)
		}
		screen := s.screen
		defer screen.restore()
		if s.open != nil {
			s.open.Window = s.screen.size()
		}
		if s.typing() {
			caught = []os.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT}
		}
		keys = &keyWatch{found: func() { close(left) }}
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, caught...)
	defer signal.Stop(signals)
	s.signals = signals
	go s.input.read(s.inv.Stdin, keys)
	// A signal is for the task, or for leaving in good order.
	return s.run(context.WithoutCancel(s.inv.Context))
}

// Forwarded are the signals that grun passes on to its tasks.
var Forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGALRM, syscall.SIGCONT,
}

// KillWait is between SIGTERM and SIGKILL for a step that must end.
var KillWait = 30 * time.Second

// InterruptPair is how close two interrupts must be to kill the tasks.
var InterruptPair = time.Second
