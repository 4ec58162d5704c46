package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/proto/filecopy"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// sayEvery is how often it is said how far a copy is.
const sayEvery = time.Second

// copier copies, and says how far it is in a file that the job's supervisor reads.
type copier struct {
	getenv func(name string) string
	says   string // the file; "" = nobody reads it
	said   time.Time
}

func newCopier(getenv func(string) string) *copier {
	c := &copier{getenv: getenv}
	if socket := getenv("GLEANER_STEP_SOCKET"); socket != "" {
		c.says = filepath.Join(filepath.Dir(socket), step.StagingFile)
	}
	return c
}

func isURL(text string) bool { return strings.Contains(text, "://") }

// copy makes one copy.
func (c *copier) copy(ctx context.Context, one spec.Staging) error {
	c.said = time.Time{}
	var err error
	switch {
	case strings.HasPrefix(one.Target, spec.SubmitScheme+"://"):
		err = c.awaitFetch(ctx, one)
	case one.Out:
		err = c.sendAway(ctx, one)
	case strings.HasPrefix(one.Source, spec.SubmitScheme+"://"):
		err = c.awaitHere(ctx, one)
	case isURL(one.Source):
		err = c.fetch(ctx, one)
	default:
		err = c.copyHere(one)
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = fmt.Errorf("%w: ask for more with --tmp", err)
	}
	if err != nil {
		return fmt.Errorf("%s to %s: %w", nameOf(one.Source), nameOf(one.Target), err)
	}
	return nil
}

// nameOf is a place as it is told: what follows a ? may be a secret.
func nameOf(place string) string {
	u, err := url.Parse(place)
	if err != nil || !isURL(place) {
		return place
	}
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}

// say writes what the supervisor reads.
func (c *copier) say(format string, values ...any) {
	if c.says == "" {
		return
	}
	text, err := json.Marshal(step.Staging{Text: fmt.Sprintf(format, values...)})
	if err != nil {
		return
	}
	draft := c.says + ".new"
	if os.WriteFile(draft, text, 0o600) == nil {
		_ = os.Rename(draft, c.says)
	}
}

// progress says how far a file is; size -1 = nobody knows how large it is.
func (c *copier) progress(name string, done, size int64) {
	if time.Since(c.said) < sayEvery {
		return
	}
	c.said = time.Now()
	if size < 0 {
		c.say("%s: %s", name, show.SizeText(uint64(done)))
		return
	}
	c.say("%s: %s of %s", name, show.SizeText(uint64(done)), show.SizeText(uint64(size)))
}

// copyHere copies between two paths that the job sees, as gcp does.
func (c *copier) copyHere(one spec.Staging) error {
	if err := makeParent(one.Target); err != nil {
		return err
	}
	var troubles []error
	options := filecopy.Options{
		Recursive: true, Umask: umask(), Progress: func(name string, done, size int64) { c.progress(nameIn(one.Source, name), done, size) },
		Trouble: func(name, why string, _ bool) {
			troubles = append(troubles, fmt.Errorf("%s: %s", nameIn(one.Source, name), why))
		},
	}
	here, there := net.Pipe()
	sent := make(chan error, 1)
	go func() {
		quiet := options
		quiet.Progress, quiet.Trouble = nil, nil
		_, err := filecopy.Send(there, one.Source, quiet)
		sent <- errors.Join(err, there.Close())
	}()
	_, err := filecopy.Receive(here, one.Target, options)
	_ = here.Close()
	if sendErr := <-sent; err == nil && len(troubles) == 0 {
		err = sendErr
	}
	if err == nil && len(troubles) > 0 {
		err = troubles[0]
	}
	return err
}

func nameIn(source, name string) string {
	if name == "" {
		return source
	}
	return path.Join(source, name)
}

func umask() fs.FileMode {
	mask := unix.Umask(0o077)
	unix.Umask(mask)
	return fs.FileMode(mask)
}

// makeParent makes the directory that a target lies in, or is.
func makeParent(target string) error {
	dir := filepath.Dir(target) // of one that ends with a / itself
	return os.MkdirAll(dir, 0o777)
}

// into is the file that a copy from elsewhere makes: it gets its name when it is whole.
type into struct {
	root *os.Root
	name string
	part *os.File
}

const partSuffix = ".staging"

// makeInto opens the file below a directory for what comes.
func makeInto(root *os.Root, name string) (*into, error) {
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
	}
	part, err := root.OpenFile(name+partSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o666)
	if err != nil {
		return nil, err
	}
	return &into{root, name, part}, nil
}

// finish gives the file its name, or removes it if it is not whole.
func (f *into) finish(err error) error {
	if err == nil {
		err = f.part.Sync()
	}
	err = errors.Join(err, f.part.Close())
	if err == nil {
		err = f.root.Rename(f.name+partSuffix, f.name)
	}
	if err != nil {
		_ = f.root.Remove(f.name + partSuffix)
	}
	_ = f.root.Remove(f.name + markSuffix)
	return err
}

// openTarget opens the directory that a target is, or lies in, and answers the name that a
// file has in it whose source has a name.
func openTarget(target, source string) (*os.Root, string, error) {
	if err := makeParent(target); err != nil {
		return nil, "", err
	}
	dir, name := filepath.Dir(target), filepath.Base(target)
	if info, err := os.Stat(target); strings.HasSuffix(target, "/") || err == nil && info.IsDir() {
		dir, name = target, source
	}
	if !filepath.IsLocal(name) || name == "." {
		return nil, "", fmt.Errorf("the source has no name that a file can have: name the target whole")
	}
	root, err := os.OpenRoot(dir)
	return root, name, err
}

// eachFile calls send for a file, or for each file of a directory with its name in it. Links
// and special files in a directory are an error: a result would be missing.
func eachFile(source string, send func(file *os.File, name string, size int64) error) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return withFile(func() (*os.File, error) { return os.OpenFile(source, os.O_RDONLY|unix.O_NONBLOCK, 0) }, "", send)
	}
	root, err := os.OpenRoot(source)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return nil
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is no file, and is not copied: remove it, or make an archive", path.Join(source, name))
		}
		return withFile(func() (*os.File, error) { return root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) }, name, send)
	})
}

func withFile(open func() (*os.File, error), name string, send func(file *os.File, name string, size int64) error) error {
	file, err := open()
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no file")
	}
	return send(file, name, info.Size())
}

// counted tells how much was read.
type counted struct {
	io.Reader
	done int64
	tell func(done int64)
}

// Read implements io.Reader.
func (r *counted) Read(into []byte) (int, error) {
	n, err := r.Reader.Read(into)
	r.done += int64(n)
	r.tell(r.done)
	return n, err
}
