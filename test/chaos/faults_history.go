package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// historyFaults take a controller's database of history away, or damage it. They are in
// the lane of those that wipe a whole controller: one at a time.
var historyFaults = []fault{
	{"lose-history", 2, 0, 0, true, func(w *weather, c cast) (*strike, error) {
		return spoilHistory(w, of(w.controllers, c.pick), "removed while it runs", (*controller).removeHistory)
	}},
	{"damage-history", 2, 0, 0, true, func(w *weather, c cast) (*strike, error) {
		return spoilHistory(w, of(w.controllers, c.pick), "overwritten", func(one *controller) error {
			one.stop(syscall.SIGKILL)
			err := overwrite(one.historyPath(), c.pick2)
			one.want(true)
			return err
		})
	}},
}

func (c *controller) historyPath() string { return filepath.Join(c.data, "history.db") }

func (c *controller) removeHistory() error {
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(c.historyPath() + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// spoilHistory does something to a database while another one has all that it has, and
// heals when it is as complete as it was.
func spoilHistory(w *weather, one *controller, how string, do func(*controller) error) (*strike, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	if !w.othersWell(ctx, one) {
		return nil, errors.New("the others are not well enough")
	}
	own, _, err := w.historyOf(ctx, one)
	if err == nil {
		err = do(one)
	}
	if err != nil {
		return nil, err
	}
	return &strike{target: one.name + ": history.db " + how, harm: history.Silences, every: true,
		heal: func(ctx context.Context) error {
			if err := w.historyKept(ctx, one, own); err != nil {
				return err
			}
			return one.removeDamaged()
		}}, nil
}

// removeDamaged removes the copies that a controller keeps of damaged databases: its disk
// is small.
func (c *controller) removeDamaged() error {
	paths, err := filepath.Glob(c.historyPath() + ".damaged-*")
	for _, path := range paths {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// overwrite writes over some pages of a file, perhaps of those that are in use.
func overwrite(path string, pick uint64) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	garbage := make([]byte, 4096)
	for i := range garbage {
		garbage[i] = byte(pick >> (i % 8 * 8))
	}
	for page := range int64(1 + pick%4) {
		if _, err := file.WriteAt(garbage, (page+int64(pick/4%2))*4096); err != nil {
			return fmt.Errorf("page %d: %w", page, err)
		}
	}
	return nil
}
