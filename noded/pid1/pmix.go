package pid1

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// This file serves PMIx to the tasks of a step by a program beside process 1, which has
// the library (cmd/gpmix): it tells the tasks' fences and ends, and process 1 brings what
// the other nodes' tasks have put, as it does for PMI.

const (
	pmixProgram = "gpmix"
	// pmixReady bounds the start of the library, pmixGrace its end.
	pmixReady = 30 * time.Second
	pmixGrace = 2 * time.Second
	// maxPMIxErrors bounds what is kept of its standard error.
	maxPMIxErrors = 4 << 10
)

// pmixDirs have the program before PATH is looked at.
var pmixDirs = []string{"/usr/local/bin", "/usr/bin"}

var errPMIxEnded = errors.New(pmixProgram + " has ended")

// pmixServer is the program, as long as the step runs.
type pmixServer struct {
	send  func(step.Message)
	child *child // nil in tests
	in    *os.File
	lines *bufio.Scanner
	out   *os.File

	variables map[uint32]step.Strings // by rank

	mu      sync.Mutex
	begun   map[uint32]bool // ranks that are connected
	aborted bool
	closing bool
}

// startPMIx starts the program if the step asks for it.
func (p *process1) startPMIx(run *stepRun, launch *step.Launch) error {
	if launch.PMIx == nil {
		return nil
	}
	path := findPMIx(launch.Env)
	if path == "" {
		return fmt.Errorf("--mpi=pmix: this node has no %s: install libpmix-dev and build Gleaner there again, or start the program by mpirun, or with --mpi=none", pmixProgram)
	}
	child, in, out, stderr, err := p.startProgram(path, launch.Env)
	if err != nil {
		return fmt.Errorf("--mpi=pmix: %w", err)
	}
	run.pmix = newPMIx(launch.PMIx, in, out, run.send)
	run.pmix.child = child
	said := make(chan string, 1)
	go func() { said <- lastLine(stderr) }()
	if err := child.started(path); err != nil {
		return fmt.Errorf("--mpi=pmix: %w", err)
	}
	if err := run.pmix.begin(launch.PMIx); err != nil {
		run.pmix.close()
		if text := <-said; text != "" && errors.Is(err, errPMIxEnded) {
			err = errors.New(text) // as of a library that is missing
		}
		return fmt.Errorf("--mpi=pmix: %w", err)
	}
	return nil
}

// startProgram starts it, and answers our ends of what it reads and writes. Its own are
// closed here: else the end of the program would not be seen.
func (p *process1) startProgram(path string, env []string) (child *child, in, out, stderr *os.File, err error) {
	var theirs, ours [3]*os.File
	for i := range theirs {
		read, write, pipeErr := os.Pipe()
		if pipeErr != nil {
			err = fmt.Errorf("make a pipe: %w", pipeErr)
			break
		}
		if theirs[i], ours[i] = write, read; i == 0 {
			theirs[i], ours[i] = read, write
		}
	}
	if err == nil {
		child, err = p.start(&command{argv: []string{path}, env: env, cwd: "/", umask: 0o077, files: [3]uintptr{theirs[0].Fd(), theirs[1].Fd(), theirs[2].Fd()}})
	}
	for i := range theirs {
		theirs[i].Close() // of a nil file it is an error, and no harm
		if err != nil {
			ours[i].Close()
		}
	}
	return child, ours[0], ours[1], ours[2], err
}

// findPMIx is where the program is; "" = nowhere.
func findPMIx(env []string) string {
	dirs := pmixDirs
	for _, entry := range env {
		if path, found := strings.CutPrefix(entry, "PATH="); found {
			dirs = append(dirs[:len(dirs):len(dirs)], filepath.SplitList(path)...)
		}
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, pmixProgram)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}

// lastLine reads all, so that the program is not held up, and keeps the last line.
func lastLine(f *os.File) string {
	defer f.Close()
	last, reader := "", bufio.NewReaderSize(f, maxPMIxErrors)
	for {
		line, err := reader.ReadSlice('\n')
		if text := strings.TrimSpace(string(line)); text != "" {
			last = text
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return last
		}
	}
}

func newPMIx(job *step.PMIxJob, in, out *os.File, send func(step.Message)) *pmixServer {
	s := &pmixServer{send: send, in: in, out: out, lines: bufio.NewScanner(out), begun: map[uint32]bool{}}
	s.lines.Buffer(make([]byte, 0, 64<<10), step.MaxPMIxLine)
	return s
}

// begin tells the program of the step, and waits for what its tasks are to have in their
// environment.
func (s *pmixServer) begin(job *step.PMIxJob) error {
	late := time.AfterFunc(pmixReady, s.kill)
	defer late.Stop()
	if err := s.tell(job); err != nil {
		return err
	}
	said, err := s.next()
	switch {
	case err != nil:
		return err
	case said.Failed != "":
		return errors.New(said.Failed)
	case job.Here < 0 || job.Here >= len(job.Nodes) || len(said.Environment) != len(job.Nodes[job.Here].Ranks):
		return fmt.Errorf("%s says nothing of its tasks", pmixProgram)
	}
	s.variables = map[uint32]step.Strings{}
	for i, rank := range job.Nodes[job.Here].Ranks {
		s.variables[rank] = said.Environment[i]
	}
	return nil
}

func (s *pmixServer) tell(what any) error {
	line, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		return errPMIxEnded
	}
	return nil
}

func (s *pmixServer) next() (*step.PMIxSaid, error) {
	if !s.lines.Scan() {
		if err := s.lines.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", pmixProgram, err)
		}
		return nil, errPMIxEnded
	}
	said := &step.PMIxSaid{}
	if err := json.Unmarshal(s.lines.Bytes(), said); err != nil {
		return nil, fmt.Errorf("%s: %w", pmixProgram, err)
	}
	return said, nil
}

// environment is by what a task finds the program.
func (s *pmixServer) environment(rank uint32) []string {
	if s == nil {
		return nil
	}
	return s.variables[rank]
}

// serve passes on what tasks do, until close.
func (s *pmixServer) serve() {
	if s != nil {
		go s.follow()
	}
}

func (s *pmixServer) follow() {
	for {
		said, err := s.next()
		if err != nil {
			s.mu.Lock()
			closing := s.closing
			s.mu.Unlock()
			if !closing {
				s.abort(1, err.Error())
			}
			return
		}
		switch {
		case said.Fence != nil:
			if len(*said.Fence) > step.MaxPMIBytes {
				s.abort(1, fmt.Sprintf("the tasks put more than %d bytes by PMIx", step.MaxPMIBytes))
				break
			}
			s.send(&step.Fence{Data: *said.Fence})
		case said.Begun != nil:
			s.setBegun(*said.Begun, true)
		case said.Finalized != nil:
			s.setBegun(*said.Finalized, false)
		case said.Abort != nil:
			s.setBegun(said.Abort.Rank, false)
			s.abort(exitStatus(said.Abort.Code), abortText(said.Abort))
		case said.Failed != "":
			s.abort(1, said.Failed)
		}
	}
}

// exitStatus is one that a process can have, and is not that of success.
func exitStatus(code int) int {
	if code < 1 || code > 255 {
		return 1
	}
	return code
}

func abortText(abort *step.PMIxAbort) string {
	text := fmt.Sprintf("task %d called PMIx_Abort(%d)", abort.Rank, abort.Code)
	if why := strings.TrimSpace(abort.Text); why != "" && why != "N/A" { // Open MPI's word for nothing
		text += ": " + strings.ToValidUTF8(why[:min(len(why), maxPMI2Text)], "?")
	}
	return text
}

func (s *pmixServer) setBegun(rank uint32, begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ours := s.variables[rank]; ours {
		s.begun[rank] = begun
	}
}

// ended is the end of a task, as pmiServer.ended. What the program has to say of it comes
// another way, and may come later.
func (s *pmixServer) ended(rank uint32, failed bool) {
	if s == nil || !failed {
		return
	}
	time.AfterFunc(lastWords, func() {
		s.mu.Lock()
		begun := s.begun[rank]
		s.mu.Unlock()
		if begun {
			s.abort(1, endedEarly(rank))
		}
	})
}

// fenced lets the tasks go on that are at a fence.
func (s *pmixServer) fenced(data []byte) {
	if s != nil {
		go func() { _ = s.tell(&step.PMIxFenced{Data: data}) }() // that it has ended is noticed by follow
	}
}

// abort has the client end the step.
func (s *pmixServer) abort(code int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.aborted && !s.closing {
		s.aborted = true
		go s.send(&step.Fence{Aborted: true, Code: code, Text: text})
	}
}

func (s *pmixServer) kill() {
	if s.child != nil {
		s.child.signalGroup(unix.SIGKILL)
	}
}

// close has the program end, which takes its files along.
func (s *pmixServer) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	closed := s.closing
	s.closing = true
	s.mu.Unlock()
	if closed {
		return
	}
	s.in.Close()
	if s.child != nil {
		select {
		case <-s.child.ended:
		case <-time.After(pmixGrace):
			s.kill()
		}
	}
	s.out.Close()
}
