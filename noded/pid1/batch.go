package pid1

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Exit codes of a script that could not be executed, as a shell has them.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// batch is the batch script's process.
type batch struct {
	mu      sync.Mutex
	asked   bool // somebody has started it
	running *child
	startMS int64
}

// startBatch starts the script, only once however often it is called, and does not
// wait: opening a named pipe may take for ever.
func (p *process1) startBatch() {
	b := &p.batch
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.asked {
		b.asked = true
		go p.runBatch()
	}
}

// runBatch runs the script to its end.
func (p *process1) runBatch() {
	b := &p.batch
	child, startMS, err := p.launchBatch(p.config.Batch)
	if err != nil {
		code := exitNotFound
		var failed *execError
		if errors.As(err, &failed) && failed.errno != syscall.ENOENT {
			code = exitNotExecutable
		}
		p.finishBatch(&Exit{Code: code, EndMS: time.Now().UnixMilli(), Detail: err.Error()})
		return
	}
	status := <-child.ended
	b.ended()
	exit := &Exit{StartMS: startMS, EndMS: time.Now().UnixMilli()}
	if status.Signaled() {
		exit.Signal = int(status.Signal())
	} else {
		exit.Code = status.ExitStatus()
	}
	p.finishBatch(exit)
}

// launchBatch opens the script's files and executes it.
func (p *process1) launchBatch(b *Batch) (*child, int64, error) {
	files, err := openStdio(b)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	child, startMS, err := p.batch.fork(func() (*child, error) {
		return p.start(&command{
			argv: b.Argv, env: b.Env, cwd: string(b.Cwd), umask: b.Umask,
			files: [3]uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()},
		})
	})
	if err != nil {
		return nil, 0, err
	}
	if err := child.started(b.Argv[0]); err != nil {
		p.batch.ended()
		fmt.Fprintf(files[2], "error: %v\n", err)
		return nil, 0, err
	}
	// This serves if this process is killed before it writes exit.json.
	_ = writeFile(filepath.Join(p.dir, StartFile), &Start{StartMS: startMS})
	return child, startMS, nil
}

// fork starts the process, and keeps everybody else waiting who would signal it: a script
// may run, and say so, before the call that started it returns.
func (b *batch) fork(start func() (*child, error)) (child *child, startMS int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if child, err = start(); err != nil {
		return nil, 0, err
	}
	b.running, b.startMS = child, time.Now().UnixMilli()
	return child, b.startMS, nil
}

// ended forgets the process.
func (b *batch) ended() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running = nil
}

// finishBatch leaves the result for the supervisor and ends process 1.
func (p *process1) finishBatch(exit *Exit) {
	if err := writeFile(filepath.Join(p.dir, ExitFile), exit); err != nil {
		// The supervisor still sees the exit status of process 1.
		fmt.Fprintf(os.Stderr, "ginit: write %s: %v\n", ExitFile, err)
	}
	status := exit.Code
	if exit.Signal != 0 {
		status = 128 + exit.Signal
	}
	p.batchDone <- status
}

// openStdio opens standard input, output and error of the script. It always answers
// all three, although the last may be a second opening of the second.
func openStdio(b *Batch) ([3]*os.File, error) {
	var files [3]*os.File
	stderr := b.Stderr
	if stderr == "" {
		stderr = b.Stdout
	}
	stdin := b.Stdin
	if stdin == "" {
		stdin = os.DevNull
	}
	for i, open := range []struct {
		path string
		mode int
	}{
		{stdin, os.O_RDONLY}, {b.Stdout, os.O_WRONLY | os.O_APPEND}, {stderr, os.O_WRONLY | os.O_APPEND},
	} {
		f, err := os.OpenFile(open.path, open.mode|unix.O_NOCTTY, 0)
		if err != nil {
			for _, opened := range files[:i] {
				opened.Close()
			}
			return files, fmt.Errorf("open standard input and output: %w", err)
		}
		files[i] = f
	}
	return files, nil
}

// signal signals the script's own process only; false when it does not run.
func (b *batch) signal(sig unix.Signal) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running == nil {
		return false
	}
	return unix.Kill(b.running.pid, sig) == nil
}

func (b *batch) signalGroup(sig unix.Signal) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running == nil {
		return false
	}
	b.running.signalGroup(sig)
	return true
}
