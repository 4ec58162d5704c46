package pid1

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A process is started through a launcher, this same program under the word
// "task": it knows its own process id, which belongs in the environment, and
// can tell a missing work directory from a missing program.
const taskWord = "task"

// taskReportFd is where the launcher writes the errno of a failed execve. The
// descriptor closes by itself when the program starts.
const taskReportFd = 3

// command is one process to start.
type command struct {
	argv  []string
	env   []string
	cwd   string
	umask uint32
	files [3]uintptr // standard input, output, error
	// terminal: standard input becomes the controlling terminal.
	terminal bool
	// cpus are those that it is bound to, as the kernel's list; "" = those of the job.
	// report is what it says of that.
	cpus, report string
}

// child is a process that was started.
type child struct {
	pid    int
	ended  <-chan ending
	report *os.File
}

// execError is a program that could not be executed.
type execError struct {
	program string
	errno   syscall.Errno
}

// Error is Slurm's sentence. If a script's interpreter is missing, the kernel says that
// the script is missing, so Error names the interpreter.
func (e *execError) Error() string {
	if interpreter := interpreterOf(e.program); e.errno == syscall.ENOENT && interpreter != "" {
		return fmt.Sprintf("execve(): %s: its interpreter %s: %s", e.program, interpreter, errorText(e.errno))
	}
	return fmt.Sprintf("execve(): %s: %s", e.program, errorText(e.errno))
}

// interpreterOf is the program that a script's first line names; "" when the
// file is no script.
func interpreterOf(program string) string {
	file, err := os.OpenFile(program, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a FIFO
	if err != nil {
		return ""
	}
	defer file.Close()
	// The kernel does not read the rest of the line either (execve(2)).
	start := make([]byte, 256)
	n, _ := io.ReadFull(file, start)
	line, _, _ := strings.Cut(string(start[:n]), "\n")
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(words) == 0 {
		return ""
	}
	return words[0]
}

// errorText is strerror(3), which starts with a capital.
func errorText(errno syscall.Errno) string {
	text := errno.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// start forks the launcher, in its own session. The caller asks started
// whether the program runs.
func (p *process1) start(c *command) (*child, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer write.Close()
	argv := append([]string{"ginit", taskWord, strconv.FormatUint(uint64(c.umask), 8), c.cpus, c.report, c.cwd}, c.argv...)
	attr := &syscall.ProcAttr{
		Env:   c.env,
		Files: []uintptr{c.files[0], c.files[1], c.files[2], write.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: c.terminal},
	}
	pid, ended, err := p.reaper.start(func() (int, error) {
		return syscall.ForkExec("/proc/self/exe", argv, attr)
	})
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("fork: %w", err)
	}
	return &child{pid: pid, ended: ended, report: read}, nil
}

// started waits until the program executes; the error is an *execError.
func (c *child) started(program string) error {
	defer c.report.Close()
	var errno [4]byte
	if _, err := io.ReadFull(c.report, errno[:]); err != nil {
		return nil // execve closed it, or a death that ended reports
	}
	return &execError{program, syscall.Errno(binary.BigEndian.Uint32(errno[:]))}
}

// signalGroup signals every process of the child's group.
func (c *child) signalGroup(sig unix.Signal) { _ = unix.Kill(-c.pid, sig) }

// The launcher executes from its main thread, to which the kernel gives a
// signal for the process first: a signal that another thread has taken is
// lost when execve ends that thread.
func init() {
	if len(os.Args) > 1 && os.Args[1] == taskWord {
		runtime.LockOSThread()
	}
}

// taskMain is the launcher: umask, CPUs, what to say of these, work directory, program,
// arguments.
func taskMain(args []string) int {
	unix.CloseOnExec(taskReportFd)
	if len(args) < 5 {
		return exitSetup
	}
	umask, err := strconv.ParseUint(args[0], 8, 32)
	if err != nil {
		return exitSetup
	}
	unix.Umask(int(umask & 0o777))
	if err := bindTask(args[1], args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
	}
	cwd, argv := args[3], args[4:]
	if err := unix.Chdir(cwd); err != nil {
		var errno syscall.Errno
		errors.As(err, &errno)
		fmt.Fprintf(os.Stderr, "error: couldn't chdir to `%s': %s: going to /tmp instead\n", cwd, errorText(errno))
		_ = unix.Chdir("/tmp")
	}
	pid := strconv.Itoa(os.Getpid())
	env := Overlay(os.Environ(), []string{"SLURM_TASK_PID=" + pid, "GLEANER_TASK_PID=" + pid})
	program, err := findProgram(argv[0], lookup(env, "PATH"))
	if err == nil {
		err = syscall.Exec(program, argv, env)
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		errno = syscall.EINVAL
	}
	report := binary.BigEndian.AppendUint32(nil, uint32(errno))
	_, _ = unix.Write(taskReportFd, report)
	return exitSetup
}

// findProgram looks for a program as execvp(3) does.
func findProgram(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	found := error(syscall.ENOENT)
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		candidate := dir + "/" + name
		info, err := os.Stat(candidate)
		if err != nil || info.IsDir() {
			continue
		}
		if unix.Access(candidate, unix.X_OK) == nil {
			return candidate, nil
		}
		found = syscall.EACCES
	}
	return "", found
}
