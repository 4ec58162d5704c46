package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// PrivateProgram is where the project's set-up installs a CRIU, on a
// machine whose own does not work.
const PrivateProgram = "/usr/local/lib/gleaner/criu/criu"

// leastMajor is the oldest major version of CRIU that works on present kernels:
// 3.17, for example, does not start on 6.18.
const leastMajor = 4

// checkTimeout bounds one run of a program that is tried.
const checkTimeout = 30 * time.Second

// Engine is a CRIU that works on this machine.
type Engine struct {
	Path    string // absolute
	Version string // "4.2.1"
}

// Rejected is a CRIU that is there and does not work.
type Rejected struct {
	Path    string
	Version string // "" = it does not say
	Reason  string // in a sentence
}

// Programs answers where to look for CRIU, in order: only the configured path
// if there is one, otherwise PrivateProgram and those in PATH.
func Programs(configured string) []string {
	if configured != "" {
		return []string{configured}
	}
	programs := []string{PrivateProgram}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) {
			programs = append(programs, filepath.Join(dir, "criu"))
		}
	}
	return programs
}

// Find answers the first of programs that works: its version is new enough,
// and "criu check", which needs root, finds nothing missing in the
// kernel. nil = none works. It also answers which programs it rejected, without
// those that do not exist. It remembers what it found out as long as the file
// stays the same, so asking again costs one look at the file.
func Find(ctx context.Context, programs []string) (*Engine, []Rejected) {
	var rejected []Rejected
	seen := map[fileID]bool{}
	for _, program := range programs {
		id, err := identify(program)
		if errors.Is(err, os.ErrNotExist) || err == nil && seen[id] {
			continue
		}
		if err != nil {
			rejected = append(rejected, Rejected{Path: program, Reason: err.Error()})
			continue
		}
		seen[id] = true
		engine, why := tried.try(ctx, program, id)
		if engine != nil {
			return engine, rejected
		}
		rejected = append(rejected, *why)
	}
	return nil, rejected
}

// triedPrograms remembers what was found out about each program.
type triedPrograms struct {
	mu    sync.Mutex
	known map[string]triedProgram
}

type triedProgram struct {
	id     fileID
	engine *Engine
	why    *Rejected
}

var tried = triedPrograms{known: map[string]triedProgram{}}

func (t *triedPrograms) try(ctx context.Context, program string, id fileID) (*Engine, *Rejected) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k, ok := t.known[program]; ok && k.id == id {
		return k.engine, k.why
	}
	engine, why := tryProgram(ctx, program)
	if ctx.Err() == nil {
		t.known[program] = triedProgram{id, engine, why}
	}
	return engine, why
}

// tryProgram runs a program to see whether it is a CRIU that works.
func tryProgram(ctx context.Context, program string) (*Engine, *Rejected) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--version").CombinedOutput()
	version := parseVersion(string(out))
	if err != nil || version == "" {
		return nil, &Rejected{Path: program, Reason: fmt.Sprintf("--version does not answer as it should: %s", said(err, out))}
	}
	major, _, _ := strings.Cut(version, ".")
	if number, err := strconv.Atoi(major); err != nil || number < leastMajor {
		return nil, &Rejected{Path: program, Version: version, Reason: fmt.Sprintf("it is older than version %d", leastMajor)}
	}
	if out, err = exec.CommandContext(ctx, program, "check").CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = errors.New("it does not come to an end")
		}
		return nil, &Rejected{Path: program, Version: version, Reason: "its own check fails: " + said(err, out)}
	}
	// These restore and save a tree in a time namespace; see clocks.go.
	for _, name := range []string{"unshare", "nsenter"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, &Rejected{Path: program, Version: version, Reason: fmt.Sprintf("%s is missing, which a restored job's clocks need: install util-linux", name)}
		}
	}
	return &Engine{Path: program, Version: version}, nil
}

// parseVersion finds the number in "Version: 4.2\nGitID: v4.2".
func parseVersion(text string) string {
	for line := range strings.Lines(text) {
		if version, ok := strings.CutPrefix(line, "Version: "); ok {
			return strings.TrimSpace(version)
		}
	}
	return ""
}

// said joins how a program ended with the last line that it printed.
func said(err error, out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := lines[len(lines)-1]
	switch {
	case err == nil:
		return strconv.Quote(last)
	case last == "":
		return err.Error()
	}
	return fmt.Sprintf("%v: %s", err, last)
}

// fileID tells whether a file is the same as before: anything that writes to
// it or puts another in its place changes one of these.
type fileID struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

// identify follows links. It refuses a path that is not a regular file.
func identify(path string) (fileID, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return fileID{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return identityOf(path, &stat)
}

func identityOf(path string, stat *unix.Stat_t) (fileID, error) {
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return fileID{}, fmt.Errorf("%s is no regular file", path)
	}
	return fileID{stat.Dev, stat.Ino, stat.Size, stat.Mtim, stat.Ctim}, nil
}
