package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Word is the first argument of a program that shall call Main.
const Word = "shim"

// answerTimeout bounds how long a new supervisor may take to listen.
const answerTimeout = 30 * time.Second

// Launch makes the part's directory, starts "executable shim DIR" detached
// from the caller, and returns when its socket answers. For a part whose
// directory exists it starts nothing, unless a former call was cut off before
// the start, and answers its handle: ask Alive and Result how it is.
func Launch(ctx context.Context, executable string, s Settings, order *pb.StartPart) (*Handle, error) {
	if order.GetPart().GetJob() == 0 {
		return nil, fmt.Errorf("%w: the order names no job", ErrBadPart)
	}
	dir := partDirectory(s.StateDir, order.Part)
	if !filepath.IsAbs(string(dir)) {
		return nil, fmt.Errorf("%w: the state directory %q is not absolute", ErrBadPart, s.StateDir)
	}
	s.BootID = bootID()
	if err := makeDirectory(dir, &s, order); err != nil {
		return nil, err
	}
	h, err := open(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(dir.path(lockFile)); err == nil {
		return h, nil // started already, by whomever
	}
	said, err := startProcess(executable, dir)
	if err != nil {
		return nil, err
	}
	defer said.Close()
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = said.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line := make([]byte, len(listening))
	if _, err := io.ReadFull(said, line); err == nil && string(line) == listening {
		return h, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the supervisor of part %s does not answer: %w", dir.id(), context.Cause(ctx))
	}
	alive := h.Alive() // asked first: it may write its result, and go, at this moment
	if _, err := h.Result(); err == nil || alive {
		return h, nil // another one was or is at work
	}
	return nil, fmt.Errorf("the supervisor of part %s ended at once: see %s", dir.id(), dir.path(logFile))
}

// bootID answers what tells one run of the machine from the next, or "".
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// makeDirectory makes the directory with its order and settings, whole or not
// at all.
func makeDirectory(dir directory, s *Settings, order *pb.StartPart) error {
	if _, err := os.Lstat(string(dir)); err == nil {
		return nil
	}
	parent := filepath.Dir(string(dir))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return fmt.Errorf("make the directory of parts: %w", err)
	}
	draft := directory(filepath.Join(parent, newPrefix+dir.id()))
	if err := removeTree(string(draft)); err != nil {
		return err
	}
	if err := os.Mkdir(string(draft), 0o700); err != nil {
		return fmt.Errorf("make the part's directory: %w", err)
	}
	// The draft's own entries reach the disk with the rename, or are no part.
	settings, err := json.Marshal(s)
	if err == nil {
		err = draft.writeFile(settingsFile, settings)
	}
	var data []byte
	if err == nil {
		data, err = encodeRecord(order)
	}
	if err == nil {
		err = draft.writeFile(orderFile, data)
	}
	if err == nil {
		err = os.WriteFile(draft.path(resultDraft), make([]byte, resultRoom), 0o600)
	}
	if err == nil {
		err = os.Rename(string(draft), string(dir))
	}
	if err == nil {
		err = syncDir(parent)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make the part's directory: %w", err), removeTree(string(draft)))
	}
	return nil
}

// mostCPUs is how many a supervisor uses at once.
const mostCPUs = 4

// startProcess starts the supervisor in a session and a mount namespace of
// its own. It answers its standard output, which ends with the process.
func startProcess(executable string, dir directory) (*os.File, error) {
	log, err := os.OpenFile(dir.path(logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer write.Close()
	cmd := exec.Command(executable, Word, string(dir))
	cmd.Dir = "/"
	// For each CPU that it may use at once a Go program makes itself at home
	// when it starts, and so does libcontainer's init, which gets the same.
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(min(runtime.NumCPU(), mostCPUs)))
	cmd.Stdout, cmd.Stderr = write, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWNS}
	if err := cmd.Start(); err != nil {
		read.Close()
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	go func() { _ = cmd.Wait() }() // how it went is in its result, or its absence
	return read, nil
}
