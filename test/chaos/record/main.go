// Command record is what every job of the chaos test runs: it writes down that
// it runs, where, and which devices it can open, and continues doing so until its
// time is over, so that the test can tell afterwards what really ran when.
//
// It promises to have its first line on disk before it does anything else, to
// write a sign of life every tenth of a second, and to write its end as its
// last act. It needs a directory for the records that every user may write to,
// and nothing else: it is linked statically and looks at no configuration.
//
//	record job  -dir DIR -for 3s [-exit N] [-deaf]   a batch script of its own
//	record gang -dir DIR -for 3s [-exit N]           a script that runs a task on each node
//	record task -dir DIR -for 3s [-exit N]           such a task
//	record count -dir DIR -for 3s [-exit N]          a script that counts its signs of life, may be saved, and resume elsewhere
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// pulse is the time between two signs of life.
const pulse = 100 * time.Millisecond

// terminated is the exit code of a script that ended because it was told to.
const terminated = 128 + int(syscall.SIGTERM)

type options struct {
	directory string
	length    time.Duration
	exit      int
	deaf      bool // TERM does not end it
}

func main() {
	code, err := command(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		code = 99
	}
	os.Exit(code)
}

func command(words []string) (int, error) {
	if len(words) == 0 {
		return 0, errors.New("what to record is missing: job, gang, task or count")
	}
	var o options
	flags := flag.NewFlagSet("record", flag.ExitOnError)
	flags.StringVar(&o.directory, "dir", "", "`folder` of the records")
	flags.DurationVar(&o.length, "for", time.Second, "`time` to run")
	flags.IntVar(&o.exit, "exit", 0, "exit `code`")
	flags.BoolVar(&o.deaf, "deaf", false, "continue when told to end")
	if err := flags.Parse(words[1:]); err != nil {
		return 0, err
	}
	told := make(chan os.Signal, 4)
	signal.Notify(told, syscall.SIGTERM)
	r, err := begin(o.directory, words[0] != "task")
	if err != nil {
		return 0, err
	}
	defer r.file.Close()
	code, ended := o.exit, false
	switch words[0] {
	case "gang":
		code, err = r.gang(o, told)
	case "count":
		ended, err = r.counting(o, told)
	default:
		ended = r.live(o, told)
	}
	if ended {
		code = terminated
	}
	return code, errors.Join(err, r.end(code))
}

// record is a run's record while it is written.
type record struct {
	file  *os.File
	epoch uint32 // of the run in which the process was last
}

// begin writes the first line, and has it on disk.
func begin(directory string, batch bool) (*record, error) {
	run, err := here(batch)
	if err != nil {
		return nil, err
	}
	line, err := run.Line()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s/%d.%d.%s.*", directory, run.Job, run.Epoch, run.Node)
	file, err := createUnique(name)
	if err != nil {
		return nil, err
	}
	r := &record{file, run.Epoch}
	if err := errors.Join(r.write(line), file.Sync()); err != nil {
		return nil, err
	}
	return r, nil
}

func createUnique(pattern string) (*os.File, error) {
	prefix := pattern[:len(pattern)-1]
	for try := range 1000 {
		name := prefix + strconv.FormatInt(time.Now().UnixNano(), 36) + "." + strconv.Itoa(try)
		file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
		if !errors.Is(err, os.ErrExist) {
			return file, err
		}
	}
	return nil, fmt.Errorf("%s: no name is free", pattern)
}

func (r *record) write(line []byte) error {
	_, err := r.file.Write(line)
	return err
}

// live gives signs of life until the time is over, or until it is told to end,
// which it answers with true.
func (r *record) live(o options, told <-chan os.Signal) bool {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	over := time.After(o.length)
	for {
		select {
		case <-over:
			return false
		case <-told:
			_ = r.write(history.Term(now()))
			if !o.deaf {
				return true
			}
		case <-tick.C:
			_ = r.write(history.Beat(now()))
		}
	}
}

func (r *record) end(code int) error {
	return errors.Join(r.write(history.End(now(), code)), r.file.Sync())
}

// gang runs a task on each node and returns how that ended.
func (r *record) gang(o options, told <-chan os.Signal) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	step := exec.Command("grun", self, "task", "-dir", o.directory, "-for", o.length.String(), "-exit", strconv.Itoa(o.exit))
	step.Stdout, step.Stderr = os.Stdout, os.Stderr
	if err := step.Start(); err != nil {
		return 0, err
	}
	ended := make(chan int, 1)
	go func() {
		_ = step.Wait()
		ended <- step.ProcessState.ExitCode()
	}()
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for {
		select {
		case code := <-ended:
			if code < 0 { // by a signal
				code = 128
			}
			return code, nil
		case <-told:
			_ = r.write(history.Term(now()))
			_ = step.Process.Signal(syscall.SIGTERM)
		case <-tick.C:
			_ = r.write(history.Beat(now()))
		}
	}
}

// now is CLOCK_REALTIME, which no namespace changes.
func now() int64 { return time.Now().UnixMicro() }
