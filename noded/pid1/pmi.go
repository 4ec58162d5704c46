package pid1

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// This file serves PMI to the tasks of a step, over a socket that each task has as PMI_FD:
// by PMI-1 (pmi1.go), or PMI-2 (pmi2.go) if a task asks for that first. What they put goes
// to the client at a fence, and comes back with what the tasks of the other nodes have put
// (proto/step/pmi.go).

// pmiFd is the descriptor of the task's end.
const pmiFd = taskReportFd + 1

// lastWords bounds the wait for what a task has said that has ended.
const lastWords = time.Second

// pmiServer serves the tasks of one step on this node.
type pmiServer struct {
	step.PMI
	send func(step.Message)

	mu      sync.Mutex
	known   step.Pairs // before the last fence, on all nodes
	fresh   step.Pairs // since
	bytes   int        // of fresh
	tasks   []*pmiTask
	arrived int // tasks that are at the fence
	aborted bool

	attributes step.Pairs // of this node, by PMI-2
	attrBytes  int
	waiting    []attrWait // tasks that wait for one
}

// pmiTask is one task's end.
type pmiTask struct {
	heard chan struct{} // closed when nothing more comes from it
	rank  uint32
	conn  *os.File
	// begun: it has said that it is there, and not that it is done.
	begun bool
	// atFence: it waits. leave is what lets it go on.
	atFence bool
	leave   string
}

// newPMI is nil if the step is not served.
func newPMI(launch *step.Launch, send func(step.Message)) *pmiServer {
	if launch.PMI == nil {
		return nil
	}
	s := &pmiServer{PMI: *launch.PMI, send: send, fresh: step.Pairs{}, attributes: step.Pairs{}}
	s.known = step.Pairs{"PMI_process_mapping": s.Mapping}
	return s
}

// add makes the socket of a task, and answers the task's end of it.
func (s *pmiServer) add(rank uint32) (*os.File, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket for PMI: %w", err)
	}
	if err := unix.SetNonblock(ends[0], true); err != nil { // else Close would not end a Read
		return nil, err
	}
	s.tasks = append(s.tasks, &pmiTask{heard: make(chan struct{}), rank: rank, conn: os.NewFile(uintptr(ends[0]), "pmi")})
	return os.NewFile(uintptr(ends[1]), "pmi of the task"), nil
}

// environment is what tells a task of it.
func (s *pmiServer) environment(task *step.Task, here int) []string {
	return []string{
		"PMI_FD=" + strconv.Itoa(pmiFd), "PMI_RANK=" + strconv.FormatUint(uint64(task.Rank), 10), "PMI_SIZE=" + strconv.Itoa(s.Size), "PMI_JOBID=" + s.Name,
		"MPI_LOCALRANKID=" + strconv.FormatUint(uint64(task.Local), 10), "MPI_LOCALNRANKS=" + strconv.Itoa(here),
	}
}

// serve answers the tasks until close.
func (s *pmiServer) serve() {
	if s == nil {
		return
	}
	for _, t := range s.tasks {
		go s.serveTask(t)
	}
}

func (s *pmiServer) close() {
	if s == nil {
		return
	}
	for _, t := range s.tasks {
		t.conn.Close()
	}
}

// serveTask answers a task until it closes its end, or says what cannot be read: then its
// end is closed, so that it does not wait.
func (s *pmiServer) serveTask(t *pmiTask) {
	defer close(t.heard)
	defer t.conn.Close()
	reader := bufio.NewReaderSize(t.conn, maxPMILine)
	read, answer := readPMI, s.answerLine
	for {
		said, err := read(reader)
		if err != nil {
			return
		}
		if reply := answer(t, said); reply != "" {
			if _, err := t.conn.WriteString(reply); err != nil {
				return
			}
		}
		switch {
		case said["cmd"] == "init" && said["pmi_version"] == "2":
			read, answer = readPMI2, s.answerMessage
		case said["cmd"] == "finalize": // a script may start another program, which begins by a line
			read, answer = readPMI, s.answerLine
		}
	}
}

// ended is the end of a task. One that failed before it was done leaves the others waiting
// at their next fence, so the step ends. What it said last, why it gave up for example,
// is heard first.
func (s *pmiServer) ended(rank uint32, failed bool) {
	if s == nil || !failed {
		return
	}
	at := slices.IndexFunc(s.tasks, func(t *pmiTask) bool { return t.rank == rank })
	if at < 0 {
		return
	}
	t := s.tasks[at]
	go func() {
		select {
		case <-t.heard:
		case <-time.After(lastWords): // a process that it has started has its end too
		}
		s.mu.Lock()
		begun := t.begun
		s.mu.Unlock()
		if begun {
			s.abort(1, endedEarly(rank))
		}
	}()
}

// endedEarly is why a step ends with such a task.
func endedEarly(rank uint32) string { return fmt.Sprintf("task %d ended without MPI_Finalize", rank) }

func (s *pmiServer) setBegun(t *pmiTask, begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.begun = begun
}

// put answers why it did not.
func (s *pmiServer) put(key, value string) string {
	switch {
	case key == "" || len(key) > step.MaxPMIKey || len(value) > step.MaxPMIValue:
		return "too_long"
	case !utf8.ValidString(key) || !utf8.ValidString(value):
		return "not_text"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	added := step.Pairs{key: value}.Bytes()
	if s.bytes+added > step.MaxPMIBytes {
		return "full"
	}
	s.fresh[key] = value
	s.bytes += added
	return ""
}

func (s *pmiServer) get(key string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value, known := s.fresh[key]; known {
		return value, true
	}
	value, known := s.known[key]
	return value, known
}

// arrive is a task at the fence, and what lets it go on; the last one here has the client
// told. It answers false to a task that is there already.
func (s *pmiServer) arrive(t *pmiTask, leave string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.atFence {
		return false
	}
	t.atFence, t.leave = true, leave
	if s.arrived++; s.arrived < len(s.tasks) {
		return true
	}
	fence := &step.Fence{Pairs: s.fresh}
	s.known.Add(s.fresh)
	s.fresh, s.bytes, s.arrived = step.Pairs{}, 0, 0
	go s.send(fence)
	return true
}

// fenced lets all go on.
func (s *pmiServer) fenced(pairs step.Pairs) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.Add(pairs)
	for _, t := range s.tasks {
		if t.atFence {
			t.atFence = false
			_, _ = t.conn.WriteString(t.leave) // one that has gone is noticed by its reader
		}
	}
}

// abort has the client end the step.
func (s *pmiServer) abort(code int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.aborted {
		s.aborted = true
		go s.send(&step.Fence{Aborted: true, Code: code, Text: text})
	}
}
