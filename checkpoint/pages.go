package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// CRIU writes what processes have in memory into files pages-1.img, pages-2.img, and so
// on: one after the other, each from its begin to its end, and reads none of them. So
// each of them may be a named pipe, and what CRIU splices into it are the processes'
// own pages: they are copied once, by whoever reads the pipe, and lie in no file.

// PagesFile answers the name of such a file.
func PagesFile(number int) string { return fmt.Sprintf("pages-%d.img", number) }

// pipedPages hands on what CRIU writes.
type pipedPages struct {
	dir  string
	take func(name string, pipe *os.File) error
	stop *os.File // its other end is closed when CRIU has ended
	over *os.File
	done sync.WaitGroup
	err  error
}

// pipeBytes is how much a pipe holds, at the most: CRIU and the reader take turns less
// often.
const pipeBytes = 1 << 20

// newPipedPages begins with pipes in an empty directory.
func newPipedPages(dir string, take func(name string, pipe *os.File) error) (*pipedPages, error) {
	p := &pipedPages{dir: dir, take: take}
	var err error
	if p.over, p.stop, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("dump: %w", err)
	}
	if err := p.make(1); err != nil {
		return nil, errors.Join(err, p.over.Close(), p.stop.Close())
	}
	p.done.Go(func() { p.err = p.run() })
	return p, nil
}

func (p *pipedPages) make(number int) error {
	path := filepath.Join(p.dir, PagesFile(number))
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return fmt.Errorf("dump: %w", &os.PathError{Op: "make the pipe", Path: path, Err: err})
	}
	return nil
}

// run takes one file after the other. CRIU waits when it opens one until that is opened
// here; by then the next one is there, too.
func (p *pipedPages) run() error {
	for number := 1; ; number++ {
		path := filepath.Join(p.dir, PagesFile(number))
		if err := p.make(number + 1); err != nil {
			return err
		}
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
		begun, err := p.begun(fd)
		if begun {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeBytes) // a smaller one does, too
		}
		pipe := os.NewFile(uintptr(fd), path)
		if err == nil && begun {
			err = p.take(PagesFile(number), pipe)
		}
		// After an error, CRIU cannot write any more, and fails.
		if err = errors.Join(err, pipe.Close(), os.Remove(path)); err != nil || !begun {
			return errors.Join(err, os.Remove(filepath.Join(p.dir, PagesFile(number+1))))
		}
	}
}

// begun waits until CRIU has opened a pipe, or has ended.
func (p *pipedPages) begun(fd int) (bool, error) {
	wait := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(p.over.Fd()), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(wait, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return false, fmt.Errorf("wait for CRIU: %w", err)
		}
		// What CRIU wrote before it ended is there together with its end.
		if wait[0].Revents != 0 {
			return true, nil
		}
		if wait[1].Revents != 0 {
			return false, nil
		}
	}
}

// end waits until everything that CRIU wrote was taken, and answers what went wrong with
// that. CRIU has ended.
func (p *pipedPages) end() error {
	p.stop.Close()
	p.done.Wait()
	p.over.Close()
	return p.err
}
