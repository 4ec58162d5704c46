package pid1

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// This file serves PMI-1 to the tasks of a step: lines of words over a socket that each
// task has as PMI_FD. What they put goes to the client at a fence, and comes back with
// what the tasks of the other nodes have put (proto/step/pmi.go).

// pmiFd is the descriptor of the task's end.
const pmiFd = taskReportFd + 1

// maxPMILine bounds what a task says at once.
const maxPMILine = 8 << 10

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
}

// pmiTask is one task's end.
type pmiTask struct {
	rank uint32
	conn *os.File
	// begun: it has said that it is there, and not that it is done.
	begun bool
}

// newPMI is nil if the step is not served.
func newPMI(launch *step.Launch, send func(step.Message)) *pmiServer {
	if launch.PMI == nil {
		return nil
	}
	s := &pmiServer{PMI: *launch.PMI, send: send, fresh: step.Pairs{}}
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
	s.tasks = append(s.tasks, &pmiTask{rank: rank, conn: os.NewFile(uintptr(ends[0]), "pmi")})
	return os.NewFile(uintptr(ends[1]), "pmi of the task"), nil
}

// environment is what tells a task of it.
func (s *pmiServer) environment(task *step.Task, here int) []string {
	return []string{
		"PMI_FD=" + strconv.Itoa(pmiFd), "PMI_RANK=" + strconv.FormatUint(uint64(task.Rank), 10), "PMI_SIZE=" + strconv.Itoa(s.Size),
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

func (s *pmiServer) serveTask(t *pmiTask) {
	lines := bufio.NewScanner(t.conn)
	lines.Buffer(make([]byte, 0, 512), maxPMILine)
	for lines.Scan() {
		answer := s.answer(t, parsePMI(lines.Text()))
		if answer == "" {
			continue
		}
		if _, err := t.conn.WriteString(answer + "\n"); err != nil {
			break
		}
	}
}

// ended is the end of a task. One that failed before it was done leaves the others waiting
// at their next fence, so the step ends.
func (s *pmiServer) ended(rank uint32, failed bool) {
	if s == nil || !failed {
		return
	}
	s.mu.Lock()
	at := slices.IndexFunc(s.tasks, func(t *pmiTask) bool { return t.rank == rank })
	begun := at >= 0 && s.tasks[at].begun
	s.mu.Unlock()
	if begun {
		s.abort(1, fmt.Sprintf("task %d ended without MPI_Finalize", rank))
	}
}

func (s *pmiServer) setBegun(t *pmiTask, begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.begun = begun
}

// parsePMI reads "cmd=put key=a value=b c": the last word of a put goes to the line's end.
func parsePMI(line string) map[string]string {
	words := map[string]string{}
	for rest := line; rest != ""; {
		name, value, _ := strings.Cut(strings.TrimLeft(rest, " "), "=")
		if name == "value" {
			words[name] = value
			break
		}
		words[name], rest, _ = strings.Cut(value, " ")
	}
	return words
}

// answer is the line that answers; "" = none, or one that comes later.
func (s *pmiServer) answer(t *pmiTask, said map[string]string) string {
	switch said["cmd"] {
	case "init":
		s.setBegun(t, true)
		if said["pmi_version"] != "1" {
			return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1"
		}
		return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
	case "get_maxes":
		return fmt.Sprintf("cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d", step.MaxPMIKey, step.MaxPMIKey, step.MaxPMIValue)
	case "get_appnum":
		return "cmd=appnum appnum=0"
	case "get_my_kvsname":
		return "cmd=my_kvsname kvsname=" + s.Name
	case "get_universe_size":
		return "cmd=universe_size size=" + strconv.Itoa(s.Size)
	case "put":
		if why := s.put(said["key"], said["value"]); why != "" {
			return "cmd=put_result rc=-1 msg=" + why
		}
		return "cmd=put_result rc=0 msg=success"
	case "get":
		if value, known := s.get(said["key"]); known {
			return "cmd=get_result rc=0 msg=success value=" + value
		}
		return "cmd=get_result rc=-1 msg=key_" + clipWord(said["key"]) + "_not_found value=unknown"
	case "barrier_in":
		s.arrive()
		return ""
	case "finalize":
		s.setBegun(t, false)
		return "cmd=finalize_ack"
	case "abort":
		s.setBegun(t, false)
		code, err := strconv.Atoi(said["exitcode"])
		if err != nil || code < 1 || code > 255 {
			code = 1
		}
		s.abort(code, fmt.Sprintf("task %d called MPI_Abort(%d)", t.rank, code))
		return ""
	}
	return "cmd=" + clipWord(said["cmd"]) + "_result rc=-1 msg=not_supported"
}

// clipWord keeps an answer to one line that a client reads whole.
func clipWord(text string) string { return text[:min(len(text), step.MaxPMIKey)] }

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

// arrive is a task at the fence; the last one here has the client told.
func (s *pmiServer) arrive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.arrived++; s.arrived < len(s.tasks) {
		return
	}
	fence := &step.Fence{Pairs: s.fresh}
	s.known.Add(s.fresh)
	s.fresh, s.bytes, s.arrived = step.Pairs{}, 0, 0
	go s.send(fence)
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
		_, _ = t.conn.WriteString("cmd=barrier_out\n") // one that has gone is noticed by its reader
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
