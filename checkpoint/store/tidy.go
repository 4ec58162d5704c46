package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What is being made lies below making/ in a directory that is named after its
// writer: the machine's boot and PID namespace, the process, when it was
// started, and a random word. On the same machine one can look whether the
// writer is alive. Writers elsewhere touch their directory every touchEvery;
// one that was not touched for deadAfter, by the clock of the file system that
// all share, no longer has a writer. A writer that only slept so long finds its
// directory gone when it is to be renamed, and its Put fails.
const (
	touchEvery = 20 * time.Second
	deadAfter  = 15 * time.Minute
)

// writer makes the names of what one process makes.
type writer struct {
	prefix  string // of this process, with the machine's
	machine string
}

var thisWriter = sync.OnceValue(func() writer {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, err2 := os.Readlink("/proc/self/ns/pid")
	started, err3 := startOf(os.Getpid())
	if errors.Join(err, err2, err3) != nil {
		// Nobody can look whether we are alive: our touches have to tell.
		boot, space = []byte(rand.Text()), ""
	}
	sum := sha256.Sum256([]byte(string(boot) + space))
	machine := hex.EncodeToString(sum[:8])
	return writer{prefix: fmt.Sprintf("%s-%d-%s", machine, os.Getpid(), started), machine: machine}
})

var writerName = regexp.MustCompile(`^([0-9a-f]{16})-([0-9]{1,10})-([0-9]{0,20})-[A-Z2-7]+$`)

// atWork has the names that this process is at work on.
var atWork sync.Map

// next answers a name that nobody had, and remembers it until release.
func (w writer) next() string {
	name := w.prefix + "-" + rand.Text()
	atWork.Store(name, true)
	return name
}

func release(name string) { atWork.Delete(name) }

// startOf answers when a process was started, in clock ticks since the boot:
// with the pid it names one process of a boot.
func startOf(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The name in parentheses may have anything in it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields[19], nil
}

// dead says whether the writer of something below making/ has ended, if
// that was touched last at changed and the file system's clock shows now.
func (w writer) dead(name string, changed time.Time, now func() (time.Time, error)) (bool, error) {
	if _, ours := atWork.Load(name); ours {
		return false, nil
	}
	if parts := writerName.FindStringSubmatch(name); parts != nil && parts[1] == w.machine {
		pid, err := strconv.Atoi(parts[2])
		if err != nil || pid == os.Getpid() && strings.HasPrefix(name, w.prefix+"-") {
			return true, nil // this process made it, and no longer works on it
		}
		started, err := startOf(pid)
		return err != nil || started != parts[3], nil
	}
	at, err := now()
	return err == nil && at.Sub(changed) > deadAfter, err
}

// Tidy implements Store.
func (d *Directory) Tidy(ctx context.Context) (int, error) {
	return within(ctx, d, "tidy", d.tidy)
}

func (d *Directory) tidy(ctx context.Context) (int, error) {
	names, err := d.disk.Names(makingName)
	if err != nil {
		return 0, err
	}
	now := sync.OnceValues(d.clock)
	removed := 0
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return removed, context.Cause(ctx)
		}
		name = path.Join(makingName, name)
		state, err := d.disk.Status(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return removed, err
		}
		dead, err := d.writer.dead(path.Base(name), state.Changed, now)
		if err != nil {
			return removed, err
		}
		if !dead {
			continue
		}
		if state.Directory {
			err = d.discard(name)
		} else {
			err = d.disk.Remove(name)
		}
		if err != nil && !errors.Is(err, ErrNoImage) && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// clock answers what time it is for the file system, which may be on another
// machine: by a directory that is made for that.
func (d *Directory) clock() (time.Time, error) {
	name := path.Join(makingName, d.writer.next())
	defer release(path.Base(name))
	if err := d.disk.MakeDirectory(name); err != nil {
		return time.Time{}, err
	}
	state, err := d.disk.Status(name)
	return state.Changed, errors.Join(err, d.disk.RemoveDirectory(name))
}
