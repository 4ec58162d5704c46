package ctld

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// restoreLimit bounds a restore, from the moment at which all of it has
// arrived.
const restoreLimit = 10 * time.Minute

// Members are the names of the controllers.
func (c *cluster) Members() []string {
	members := c.peer.Members()
	names := make([]string, 0, len(members))
	for _, member := range members {
		names = append(names, member.Name)
	}
	return names
}

// Replace replaces the present state by the one in a file, on every controller,
// made safe to continue from. It returns that state. The file is overwritten.
// Nothing is proposed meanwhile, so that all that the present state gives out
// is known when the other is made.
func (c *cluster) Replace(ctx context.Context, file *os.File) (*state.View, error) {
	replaced, err := readState(file)
	if err != nil {
		return nil, err
	}
	c.replacing.Lock()
	defer c.replacing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, restoreLimit)
	defer cancel()
	if err := c.peer.Barrier(barrierLimit); err != nil {
		return nil, err
	}
	former := c.View()
	if err := replaced.Recover(state.Restored{TimeMS: time.Now().UnixMilli(), Former: former}); err != nil {
		return nil, err
	}
	view := replaced.View()
	size, err := writeState(file, view)
	if err != nil {
		return nil, err
	}
	return view, c.peer.Restore(ctx, size, bufio.NewReaderSize(file, 1<<20))
}

func readState(file *os.File) (*state.State, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the state: %w", err)
	}
	return state.Restore(file)
}

// writeState leaves the file at its beginning.
func writeState(file *os.File, view *state.View) (size int64, err error) {
	_, err = file.Seek(0, io.SeekStart)
	if err = errors.Join(err, file.Truncate(0)); err != nil {
		return 0, fmt.Errorf("write the state: %w", err)
	}
	if err := view.Persist(file); err != nil {
		return 0, err
	}
	if size, err = file.Seek(0, io.SeekCurrent); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return 0, fmt.Errorf("write the state: %w", err)
	}
	return size, nil
}
