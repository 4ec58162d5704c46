package roots

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/oci/unpack"
)

// record is what is kept beside a layer.
type record struct {
	Size  unpack.Size `json:"size"`
	Users []uint32    `json:"users"` // for whom its bytes came
	Boot  string      `json:"boot"`  // during which it was written; "" = it is on the disk
	Sum   string      `json:"sum"`   // of what was unpacked; "" = nobody has looked yet
}

const (
	recordName = "record.json"
	rootName   = "root"
	// mostUsers bounds a record: those who came first are asked again.
	mostUsers = 4096
	// lookAgain is how often a lock is tried that another process has.
	lookAgain = 50 * time.Millisecond
)

// use holds a layer's lock as long as it is open.
type use struct {
	*os.File
	hex string
}

// Close gives the lock back.
func (u *use) Close() { unflock(u.File) }

// take takes the lock of a layer, or answers nil at once if it is not free and wait is
// false.
func (c *Cache) take(ctx context.Context, hex string, how int, wait bool) (*use, error) {
	for {
		file, err := os.OpenFile(c.path(locksDir, hex), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock a layer: %w", err)
		}
		err = flock(file, how|unix.LOCK_NB)
		if err == nil {
			var stat unix.Stat_t
			if err = unix.Fstat(int(file.Fd()), &stat); err == nil && stat.Nlink > 0 {
				return &use{file, hex}, nil
			}
		}
		file.Close()
		switch {
		case err == nil:
			continue // it was removed meanwhile
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil, fmt.Errorf("lock a layer: %w", err)
		case !wait:
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookAgain):
		}
	}
}

// readRecord answers false for a layer that is not there, or not whole: one that was
// written before the machine crashed need not be.
func (c *Cache) readRecord(hex string) (r record, there bool) {
	text, err := os.ReadFile(c.path(layersDir, hex, recordName))
	if err != nil || json.Unmarshal(text, &r) != nil {
		return r, false
	}
	return r, r.Boot == "" || r.Boot == bootID()
}

func writeRecord(dir string, r record) error { return writeJSON(filepath.Join(dir, recordName), r) }

// writeJSON replaces a file in one step.
func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	draft := path + ".new"
	if err := os.WriteFile(draft, text, 0o600); err != nil {
		return err
	}
	return os.Rename(draft, path)
}

// change changes a layer's record under the lock of the cache.
func (c *Cache) change(hex string, f func(*record)) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, there := c.readRecord(hex)
	if !there {
		return nil
	}
	f(&r)
	return writeRecord(c.path(layersDir, hex), r)
}

func (r *record) admit(uid uint32) {
	if !slices.Contains(r.Users, uid) {
		r.Users = append(r.Users, uid)
	}
	if len(r.Users) > mostUsers {
		r.Users = r.Users[len(r.Users)-mostUsers:]
	}
}

// reserve makes an empty directory for a layer, and room for it: at most want bytes,
// after layers that nobody uses, the longest unused first, have made room. The directory
// is locked as long as the answer is open. others: layers that come at this moment have
// reserved room too, and may need less.
func (c *Cache) reserve(hex string, want int64) (dir *os.File, got int64, others bool, err error) {
	defer c.sweep()
	unlock, err := c.lock()
	if err != nil {
		return nil, 0, false, err
	}
	defer unlock()
	free, others, err := c.free(want)
	if err != nil {
		return nil, 0, others, err
	}
	if got = min(want, free); got <= 0 {
		return nil, 0, others, ErrFull
	}
	path, err := os.MkdirTemp(c.path(unpackingDir), hex[:12]+".")
	if err != nil {
		return nil, 0, others, fmt.Errorf("make room for a layer: %w", err)
	}
	if dir, err = os.Open(path); err == nil {
		if err = errors.Join(flock(dir, unix.LOCK_EX), writeJSON(filepath.Join(path, recordName), record{Size: unpack.Size{Bytes: got}})); err != nil {
			unflock(dir)
		}
	}
	if err != nil {
		return nil, 0, others, fmt.Errorf("make room for a layer: %w", err)
	}
	return dir, got, others, nil
}

// free answers how much room is left, after it has removed what is needed for want.
func (c *Cache) free(want int64) (free int64, others bool, err error) {
	layers, err := c.list()
	if err != nil {
		return 0, false, err
	}
	free = c.Limit
	for _, l := range layers {
		free -= l.Bytes
	}
	reserved, err := os.ReadDir(c.path(unpackingDir))
	if err != nil {
		return 0, false, err
	}
	for _, entry := range reserved {
		var r record
		text, err := os.ReadFile(c.path(unpackingDir, entry.Name(), recordName))
		if err == nil && json.Unmarshal(text, &r) == nil {
			free -= r.Size.Bytes
			others = true
		}
	}
	for _, l := range layers {
		if free >= want {
			break
		}
		gone, err := c.drop(l.Hex)
		if err != nil {
			return 0, others, err
		}
		if gone {
			free += l.Bytes
		}
	}
	return free, others, nil
}

// Layer is one of the cache.
type Layer struct {
	Hex   string
	Bytes int64
	Files int64
	Used  time.Time
}

// list answers all layers, the longest unused first.
func (c *Cache) list() ([]Layer, error) {
	entries, err := os.ReadDir(c.path(layersDir))
	if err != nil {
		return nil, err
	}
	var layers []Layer
	for _, entry := range entries {
		r, _ := c.readRecord(entry.Name())
		l := Layer{Hex: entry.Name(), Bytes: r.Size.Bytes, Files: r.Size.Files}
		if info, err := os.Stat(c.path(locksDir, l.Hex)); err == nil {
			l.Used = info.ModTime()
		}
		layers = append(layers, l)
	}
	slices.SortFunc(layers, func(a, b Layer) int { return cmp.Or(a.Used.Compare(b.Used), cmp.Compare(a.Hex, b.Hex)) })
	return layers, nil
}

// drop takes a layer out of the cache unless a job uses it. sweep deletes it.
func (c *Cache) drop(hex string) (gone bool, err error) {
	held, err := c.take(context.Background(), hex, unix.LOCK_EX, false)
	if held == nil {
		return false, err
	}
	defer held.Close()
	return true, c.dropHeld(hex)
}

// dropHeld is drop for who has the lock.
func (c *Cache) dropHeld(hex string) error {
	grave, err := os.MkdirTemp(c.path(removedDir), hex[:12]+".")
	if err != nil {
		return err
	}
	err = os.Rename(c.path(layersDir, hex), filepath.Join(grave, rootName))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.Remove(c.path(locksDir, hex)))
}
