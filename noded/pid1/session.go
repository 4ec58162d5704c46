package pid1

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// session is a step of one task that needs no client. It is all in this
// process's memory, so it is saved, and resumes, with the job.
//
// With a terminal, output that does not fit while nobody is attached is
// forgotten, the oldest first, like what has left a screen. With pipes, the task
// waits, because a file that lacks something is damaged.
type session struct {
	number  uint32
	name    string
	command string
	child   *child
	tty     *terminal // nil = pipes
	stdin   *os.File
	outputs []*os.File
	input   inputQueue
	drained sync.WaitGroup

	mu     sync.Mutex
	wake   *sync.Cond // of every change below
	kept   keptOutput
	record step.Record
	exited *step.Exited // nil = it runs
	closed bool         // exited, and all of its output is kept
	now    *attachment  // nil = nobody is attached
	// client is the one that sent the last input, with how much of its input came and
	// was written. Input of an earlier client does not count.
	client        string
	clientTurn    uint32
	inputEnded    bool
	came, written uint64
}

// id implements running.
func (s *session) id() uint32 { return s.number }

// signal implements running.
func (s *session) signal(sig unix.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exited != nil {
		return false
	}
	s.child.signalGroup(sig)
	return true
}

// startSession starts what open asks for.
func (p *process1) startSession(open *step.Open) (*session, error) {
	s := &session{name: open.Name, number: p.grants.number()}
	s.wake = sync.NewCond(&s.mu)
	s.input.init(2 * step.InputWindow) // a client's, and what is being written of one before
	env := p.sessionEnvironment(s.number, open)
	argv := []string(open.Argv)
	if len(argv) == 0 {
		argv = []string{lookup(env, "SHELL")}
		if argv[0] == "" {
			argv[0] = "/bin/sh"
		}
	}
	s.command = strings.Join(argv, " ")
	s.record = beginning(s.number, argv, 1)
	theirs, err := s.openFiles(open.Window)
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	if err == nil {
		s.child, err = p.start(&command{
			argv: argv, env: env, cwd: string(open.Cwd), umask: open.Umask, terminal: s.tty != nil,
			files: [3]uintptr{theirs[0].Fd(), theirs[1].Fd(), theirs[2].Fd()},
		})
	}
	if err == nil {
		err = s.child.started(argv[0])
	}
	if err != nil {
		s.closeFiles()
		return nil, err
	}
	p.records.write(p.dir, &s.record)
	s.drained.Add(len(s.outputs))
	for i, f := range s.outputs {
		go s.readOutput(f, []step.Stream{step.Stdout, step.Stderr}[i])
	}
	go s.pumpInput()
	go s.await(p)
	return s, nil
}

// openFiles makes the terminal or the pipes, and answers the task's ends.
func (s *session) openFiles(window *step.Window) (theirs [3]*os.File, err error) {
	if window != nil {
		tty, terminal, err := openTerminal(*window)
		if err != nil {
			return theirs, err
		}
		s.tty, s.stdin, s.outputs = &tty, tty.File, []*os.File{tty.File}
		// Each descriptor is closed once, so that each is its own.
		theirs[0] = terminal
		for i := 1; i < 3 && err == nil; i++ {
			theirs[i], err = os.OpenFile(terminal.Name(), os.O_RDWR|unix.O_NOCTTY, 0)
		}
		return theirs, err
	}
	s.outputs = make([]*os.File, 2)
	theirs[0], s.stdin, err = os.Pipe()
	for i := range s.outputs {
		if err == nil {
			s.outputs[i], theirs[i+1], err = os.Pipe()
		}
	}
	return theirs, err
}

func (s *session) closeFiles() {
	s.stdin.Close()
	for _, f := range s.outputs {
		f.Close() // closing a closed file, or nil, does no harm
	}
}

// sessionEnvironment is what the client gave, except for what the job knows better.
func (p *process1) sessionEnvironment(number uint32, open *step.Open) []string {
	var ofJob []string
	for _, entry := range p.config.Batch.Env {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case strings.HasPrefix(name, "SLURM_"), strings.HasPrefix(name, "GLEANER_"), name == "CUDA_VISIBLE_DEVICES",
			name == "HOME", name == "USER", name == "LOGNAME", name == "SHELL":
			ofJob = append(ofJob, entry)
		}
	}
	id := strconv.FormatUint(uint64(number), 10)
	return Mirror(Overlay(open.Env, ofJob, p.config.StepEnv, []string{
		"SLURM_STEP_ID=" + id, "SLURM_STEPID=" + id, "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_TASKS_PER_NODE=1",
		"SLURM_STEP_NODELIST=" + lookup(p.config.StepEnv, "SLURMD_NODENAME"), "SLURM_GTIDS=0", "SLURM_PROCID=0", "SLURM_LOCALID=0",
	}))
}

// readOutput keeps what the task writes until it, and all that inherited its
// output, have closed it.
func (s *session) readOutput(f *os.File, stream step.Stream) {
	defer s.drained.Done()
	buffer := make([]byte, readBytes)
	for {
		s.waitForRoom()
		n, err := f.Read(buffer)
		s.mu.Lock()
		s.kept.add(stream, buffer[:n])
		s.wake.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return // a terminal that nobody has open answers EIO
		}
	}
}

// waitForRoom holds up the task while nobody reads what it wrote. Without a
// client, a terminal makes room instead.
func (s *session) waitForRoom() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.kept.bytes >= step.SessionWindow {
		if s.now == nil && s.tty != nil {
			s.kept.drop(s.kept.end() - (step.SessionWindow - readBytes))
			return
		}
		s.wake.Wait()
	}
}

// pumpInput writes input to the task in the order in which it came.
func (s *session) pumpInput() {
	for {
		item, ok := s.input.pop()
		if !ok {
			return
		}
		switch {
		case !item.end:
			_, _ = s.stdin.Write(item.data) // fails when the task has ended
		case s.tty != nil:
			go s.endTerminal(item.rank)
		default:
			s.stdin.Close()
		}
		s.input.credit(len(item.data))
		s.mu.Lock()
		if item.rank == s.clientTurn {
			s.written += uint64(len(item.data))
		}
		s.wake.Broadcast()
		s.mu.Unlock()
	}
}

// await notes the end of the task and of its output. A process that it left behind may
// hold the output open; then await closes it.
func (s *session) await(p *process1) {
	status := <-s.child.ended
	exited := &step.Exited{}
	if status.Signaled() {
		exited.Signal = int(status.Signal())
	} else {
		exited.Code = status.ExitStatus()
	}
	s.mu.Lock()
	s.exited = exited
	addEnded(&s.record, 0, &status)
	over(&s.record)
	record := s.record
	s.mu.Unlock()
	p.records.write(p.dir, &record)
	drained := make(chan struct{})
	go func() { s.drained.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-time.After(outputGrace):
	}
	// A shell with job control makes a group of every command, so the
	// whole session is killed.
	killSession(s.child.pid)
	s.hangUp(drained)
	s.input.close()
	s.closeFiles()
	s.mu.Lock()
	s.closed = true
	s.wake.Broadcast()
	s.mu.Unlock()
}

// killSession kills every process of a session in the kernel's sense.
func killSession(leader int) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return // these are other processes' numbers
	}
	paths, _ := filepath.Glob("/proc/[0-9]*") // the pattern is sound
	for _, path := range paths {
		if pid, err := strconv.Atoi(filepath.Base(path)); err == nil && pid > 1 {
			killOfSession(pid, leader)
		}
	}
}

// killOfSession kills a process if it belongs to a session. The descriptor comes
// before the look, so that a number that is given to another process in between
// hits nobody.
func killOfSession(pid, leader int) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(process)
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return
	}
	// After the name, which may hold anything: state, parent, group, session.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) > 3 && fields[3] == strconv.Itoa(leader) {
		_ = unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0)
	}
}

// hangUp waits for the end of the output as long as somebody takes what there
// is, and then closes it.
func (s *session) hangUp(drained <-chan struct{}) {
	for {
		s.mu.Lock()
		before := s.kept.end()
		full := s.kept.bytes >= step.SessionWindow
		s.mu.Unlock()
		select {
		case <-drained:
			return
		case <-time.After(drainTimeout):
		}
		s.mu.Lock()
		quiet := s.kept.end() == before && !full
		s.mu.Unlock()
		if quiet {
			s.closeFiles()
			<-drained
			return
		}
	}
}

// info is what a list says about it.
func (s *session) info() step.SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return step.SessionInfo{
		Step: s.number, Command: step.Bytes(s.command[:min(len(s.command), maxCommandShown)]), Terminal: s.tty != nil,
		Attached: s.now != nil, Ended: s.exited != nil,
	}
}

// maxCommandShown bounds a command in a list.
const maxCommandShown = 256

var errTooManySessions = errors.New("this job has " + strconv.Itoa(step.MaxSessions) + " sessions already: end some (gattach shows them)")
