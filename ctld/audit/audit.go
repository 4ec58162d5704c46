// Package audit keeps the record of who did what to whom: one JSON object a
// line, in a file that is only appended to.
//
// Contract: a line is in the file (one write) before the request that it
// describes is answered, and on the disk a second later at most, or when the
// log is closed. A line that cannot be written goes to the daemon's own log,
// whole, and Err says so until one could be written again: nothing is dropped
// silently. JSON escapes every control character, so only this package can
// write a line. The file is made with mode 0600. It may be renamed at any time
// (logrotate): Reopen, and a look at the name each second, begin a new one.
// Several processes may append to one file.
package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Entry is one line. Empty fields are left out.
type Entry struct {
	Time       string `json:"time"`
	Host       string `json:"host"`       // where the line was written
	Controller string `json:"controller"` // its name
	Stage      string `json:"stage"`      // asked: before it takes effect (audit = "required"); answered
	Verb       string `json:"verb"`       // the request, as in Cancel or Control.hold
	// The caller: a user, or a node by its certificate.
	UID         *uint32 `json:"uid,omitempty"`
	User        string  `json:"user,omitempty"`
	Node        string  `json:"node,omitempty"`
	Certificate string  `json:"certificate,omitempty"` // "user NAME", "node NAME" or "host NAME"; none on a socket
	VouchedBy   string  `json:"vouched_by,omitempty"`  // "host NAME" or "node NAME": its agent says who asks; "munge ADDRESS": a credential from there does
	InsideJob   bool    `json:"inside_job,omitempty"`  // a job's supervisor vouched for it
	From        string  `json:"from,omitempty"`        // "unix", or the address
	Via         string  `json:"via,omitempty"`         // the controller that passed it on and vouched for the caller
	// What the request was about.
	Jobs      []Job    `json:"jobs,omitempty"`
	JobCount  int      `json:"job_count,omitempty"` // of all jobs, if there are more than are named
	Nodes     string   `json:"nodes,omitempty"`
	Targets   []string `json:"targets,omitempty"` // anything else, by name
	RequestID string   `json:"request_id,omitempty"`
	// The outcome.
	Result string `json:"result,omitempty"` // gRPC's word: OK, PermissionDenied, …
	Error  string `json:"error,omitempty"`
}

// Job is a job that a request was about.
type Job struct {
	Job   string `json:"job"` // 12, or 12_3 of an array
	Owner string `json:"owner,omitempty"`
	UID   uint32 `json:"owner_uid"`
	Error string `json:"error,omitempty"` // what was refused of it
}

// Log is an open file. The zero value and nil write nothing.
type Log struct {
	path string
	host string
	name string
	log  *slog.Logger

	mu    sync.Mutex
	file  *os.File
	dirty bool
	err   error

	stop chan struct{}
	done chan struct{}
}

// every is how long a line may take to reach the disk.
const every = time.Second

// Open begins to append. name is the controller's.
func Open(path, name string, log *slog.Logger) (*Log, error) {
	host, _ := os.Hostname()
	l := &Log{path: path, host: host, name: name, log: log, stop: make(chan struct{}), done: make(chan struct{})}
	if err := l.open(); err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

func (l *Log) open() error {
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("the audit log cannot be opened: %w", err)
	}
	// Root may create it for a daemon that is not root.
	var about, directory syscall.Stat_t
	if os.Geteuid() == 0 && syscall.Fstat(int(file.Fd()), &about) == nil && about.Uid == 0 &&
		syscall.Stat(filepath.Dir(l.path), &directory) == nil && directory.Uid != 0 {
		if err := file.Chown(int(directory.Uid), int(directory.Gid)); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	if l.file != nil {
		_ = l.file.Sync() // of a renamed file: nothing better is possible
		_ = l.file.Close()
	}
	l.file = file
	return nil
}

// Write appends a line. The error is about this line, which is then in the
// daemon's log.
func (l *Log) Write(e *Entry) error {
	if l == nil {
		return nil
	}
	e.Time, e.Host, e.Controller = time.Now().UTC().Format(time.RFC3339Nano), l.host, l.name
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err = l.append(line)
	if err != nil {
		l.log.Error("a line of the audit log could not be written; it follows here: mend the file or its disk", "path", l.path, "line", string(line), "error", err)
	} else if l.err != nil {
		l.log.Info("the audit log is written again", "path", l.path)
	}
	l.err = err
	return err
}

func (l *Log) append(line []byte) error {
	if l.file == nil {
		return os.ErrClosed
	}
	n, err := l.file.Write(append(line, '\n'))
	if err != nil && n > 0 {
		_, _ = l.file.Write([]byte{'\n'}) // the part that was cut off gets its own line
	}
	l.dirty = l.dirty || n > 0
	return err
}

// Err is why the last line could not be written; nil if it could.
func (l *Log) Err() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Problem says what an administrator has to do about it, "" for nothing.
func (l *Log) Problem() string {
	if err := l.Err(); err != nil {
		return fmt.Sprintf("the audit log cannot be written (%v): mend the file or its disk; the lines are in gctld's own log", err)
	}
	return ""
}

// Reopen begins a new file if the name now leads to another one.
func (l *Log) Reopen() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var named, open syscall.Stat_t
	if l.file == nil || syscall.Lstat(l.path, &named) == nil && syscall.Fstat(int(l.file.Fd()), &open) == nil && named.Ino == open.Ino && named.Dev == open.Dev {
		return
	}
	if err := l.open(); err != nil {
		l.err = err
		l.log.Error("the audit log is written to a file that has lost its name; mend its directory or disk, it is tried again every second", "path", l.path, "error", err)
	}
}

func (l *Log) run() {
	defer close(l.done)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.Reopen()
			l.sync()
		case <-l.stop:
			l.sync()
			return
		}
	}
}

// sync brings what was written to the disk, and delays no writer meanwhile.
func (l *Log) sync() {
	l.mu.Lock()
	file, dirty := l.file, l.dirty
	l.dirty = false
	l.mu.Unlock()
	if !dirty || file == nil {
		return
	}
	if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
		l.mu.Lock()
		l.err = err
		l.mu.Unlock()
		l.log.Error("the audit log could not be brought to the disk; its last lines may be lost with the power", "path", l.path, "error", err)
	}
}

// Close brings everything to the disk.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	close(l.stop)
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
