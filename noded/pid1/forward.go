package pid1

import (
	"errors"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/forward"
)

// forwardMain is the job's end of gforward: a session that connects to ports as the job's
// user, in the job's network, whatever that is.
//
// It ends with its client or its job. Signals are for the job's programs: one that is told to
// end may have to be reached until it has.
func forwardMain() int {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM)
	err := forward.Serve(newDuplex())
	switch {
	case errors.Is(err, forward.ErrLonely):
		return forward.ExitLonely
	case err != nil:
		return 1
	}
	return 0
}

// duplex is standard input and output as one stream.
type duplex struct{ in, out *os.File }

// newDuplex makes them non-blocking, so that a close wakes whoever reads or writes.
func newDuplex() *duplex {
	d := &duplex{}
	for fd, file := range map[int]**os.File{unix.Stdin: &d.in, unix.Stdout: &d.out} {
		_ = unix.SetNonblock(fd, true)
		*file = os.NewFile(uintptr(fd), "")
	}
	return d
}

func (d *duplex) Read(p []byte) (int, error)  { return d.in.Read(p) }
func (d *duplex) Write(p []byte) (int, error) { return d.out.Write(p) }
func (d *duplex) Close() error                { return errors.Join(d.in.Close(), d.out.Close()) }
