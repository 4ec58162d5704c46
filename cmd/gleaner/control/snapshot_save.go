package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/snapshotfile"
)

// saveSnapshot writes the whole state of the cluster to a file: to a temporary
// file in the same directory, which is renamed only once all of it is on the
// disk. It holds scripts and environments, so nobody else may read it.
func (c *controlRun) saveSnapshot(path string) error {
	if err := c.mayWrite(path); err != nil {
		return c.inv.Fail("%w", err)
	}
	var err error
	if c.client, err = client.Connect(c.inv); err != nil {
		return err
	}
	defer c.client.Close()
	draft, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return c.inv.Fail("%w", err)
	}
	defer func() {
		_ = draft.Close()
		_ = os.Remove(draft.Name()) // gone already when it was put in its place
	}()
	saved, err := c.receive(draft)
	if local := (*localError)(nil); errors.As(err, &local) {
		return c.inv.Fail("%w: nothing was saved", local.error)
	}
	if errors.Is(err, snapshotfile.ErrDamaged) {
		return c.inv.Fail("what came is not whole: %w: nothing was saved, save it again", err)
	}
	if err != nil {
		return client.LoadError(c.inv, snapshotError, err)
	}
	if err := c.putInPlace(draft, path); err != nil {
		return c.inv.Fail("%w: nothing was saved", err)
	}
	if !c.inv.Given("quiet") {
		_, err = fmt.Fprintf(c.inv.Stdout, "saved %s: %s\n", path, c.contents(saved.Header()))
	}
	return err
}

// mayWrite refuses a place before anything is asked for.
func (c *controlRun) mayWrite(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is there and is no regular file: name another", path)
	case !c.inv.Given("force"):
		return fmt.Errorf("%s is there already: name another file, or add --force to replace it", path)
	}
	return nil
}

// localError is one of this machine, not of the controller.
type localError struct{ error }

// receive writes what a controller sends.
func (c *controlRun) receive(draft *os.File) (*snapshotfile.Checker, error) {
	var checker *snapshotfile.Checker
	var buffer *bufio.Writer
	var writer *snapshotfile.Writer
	var broken error
	begin := func() bool {
		_, err := draft.Seek(0, io.SeekStart)
		broken = errors.Join(err, draft.Truncate(0))
		checker, buffer = new(snapshotfile.Checker), bufio.NewWriterSize(draft, 1<<20)
		writer = snapshotfile.NewWriter(buffer)
		return broken == nil
	}
	begin()
	shown := c.progress("received", 0)
	defer shown.end()
	err := client.List(c.inv.Context, c.client, c.client.SaveSnapshot, &pb.SaveSnapshotRequest{}, begin, func(chunk *pb.SnapshotChunk) error {
		if err := checker.Take(chunk); err != nil {
			return err
		}
		shown.at(checker.Bytes())
		if err := writer.Add(chunk); err != nil {
			return &localError{err}
		}
		return nil
	})
	if err == nil {
		err = checker.Finish()
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(broken, buffer.Flush()); err != nil {
		return nil, &localError{err}
	}
	return checker, nil
}

// putInPlace gives a file that is whole and on the disk its name.
func (c *controlRun) putInPlace(draft *os.File, path string) error {
	if err := draft.Sync(); err != nil {
		return err
	}
	flags := uint(unix.RENAME_NOREPLACE)
	if c.inv.Given("force") {
		flags = 0
	}
	err := unix.Renameat2(unix.AT_FDCWD, draft.Name(), unix.AT_FDCWD, path, flags)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not on this file system
		if err = c.mayWrite(path); err == nil {
			err = os.Rename(draft.Name(), path)
		}
	}
	if err != nil {
		return &os.PathError{Op: "rename", Path: path, Err: err}
	}
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// interruptedReader ends when the user interrupts.
type interruptedReader struct {
	ctx context.Context
	in  io.Reader
}

func (r interruptedReader) Read(to []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, r.ctx.Err()
	}
	return r.in.Read(to)
}
