package filecopy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// receiver is one Receive.
type receiver struct {
	wire
	options *Options
	target  string
	sum     Summary
	root    *os.Root // what is received lies below it
	base    string   // the name of the source below the root
}

// Receive takes what the other end of the stream sends. A target that is a directory gets it
// under the name that it has there; any other target is its new name.
func Receive(stream io.ReadWriter, target string, options Options) (Summary, error) {
	r := &receiver{wire: wire{in: stream, out: stream}, options: &options, target: target}
	err := r.run()
	if r.root != nil {
		err = errors.Join(err, r.root.Close())
	}
	return r.sum, err
}

func (r *receiver) run() error {
	var kind byte
	kind, data, err := r.next()
	if err != nil {
		return err
	}
	name := string(data)
	if kind != frameName || !isName(name) && name != "/" && name != "." {
		return fmt.Errorf("%w: it names its source %.100q", ErrMalformed, name)
	}
	broken := r.open(name) // told for each entry: the other end counts them
	for {
		kind, data, err := r.next()
		if err != nil {
			return err
		}
		switch kind {
		case frameEnd:
			return r.send(frameEnd, nil)
		case frameTrouble:
			t, err := readTrouble(data)
			if err != nil {
				return err
			}
			r.sum.trouble(r.options, string(t.Path), t.Text, false)
		case frameEntry:
			var e entry
			if err := decode(data, &e); err != nil {
				return err
			}
			if err := r.take(e, broken); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: a frame %q where an entry is due", ErrMalformed, kind)
		}
	}
}

// isName says whether a name is one in a directory.
func isName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

// open opens the directory that the target is, or lies in.
func (r *receiver) open(name string) error {
	directory, base := filepath.Dir(filepath.Clean(r.target)), filepath.Base(filepath.Clean(r.target))
	info, err := os.Stat(r.target)
	switch {
	case err == nil && info.IsDir():
		if !isName(name) {
			return errors.New("the source has no name: say what it is to be called here")
		}
		directory, base = r.target, name
	case err == nil: // a file, or a link to one
		there, err := filepath.EvalSymlinks(r.target)
		if err != nil {
			return err
		}
		directory, base = filepath.Dir(there), filepath.Base(there)
	case strings.HasSuffix(r.target, "/"):
		return errors.New("is no directory: make it first")
	}
	if r.root, err = os.OpenRoot(directory); err != nil {
		return err
	}
	r.base = base
	return nil
}

// take receives an entry. An error is one of the stream.
func (r *receiver) take(e entry, broken error) error {
	path := string(e.Path)
	if path != "" && !filepath.IsLocal(path) || strings.Contains(path, "\x00") || filepath.Clean("/"+path) != "/"+path {
		return fmt.Errorf("%w: it sends %.100q", ErrMalformed, path)
	}
	err := broken
	if err == nil && e.Directory {
		err = r.directory(path, fs.FileMode(e.Mode).Perm())
		if err == nil {
			return r.send(frameDone, nil)
		}
	}
	if err == nil {
		return r.file(path, e)
	}
	return r.refuse(path, err)
}

func (r *receiver) refuse(path string, why error) error {
	text := reason(why)
	r.sum.trouble(r.options, path, text, true)
	return r.sendJSON(frameTrouble, trouble{Path: []byte(path), Text: text[:min(len(text), maxText)]})
}

// here answers where an entry lies below the root.
func (r *receiver) here(path string) string { return filepath.Join(r.base, path) }

func (r *receiver) directory(path string, mode fs.FileMode) error {
	err := r.root.Mkdir(r.here(path), mode&^r.options.Umask|0o700)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := r.root.Lstat(r.here(path))
	if err == nil && !info.IsDir() {
		err = errors.New("there is something that is no directory")
	}
	return err
}

// partPrefix is how the name of a file begins that is not whole yet.
const partPrefix = ".gcp-"

// partOf answers the name under which a file is received.
func partOf(name string) string {
	sum := sha256.Sum256([]byte(filepath.Base(name)))
	return filepath.Join(filepath.Dir(name), partPrefix+hex.EncodeToString(sum[:8]))
}

// isOurs says whether a name is one of partOf's.
func isOurs(name string) bool {
	return strings.HasPrefix(name, partPrefix) && len(name) == len(partPrefix)+16
}

// file receives one file.
func (r *receiver) file(path string, e entry) error {
	name := r.here(path)
	part, err := r.openPart(name)
	if err != nil {
		return r.refuse(path, err)
	}
	defer part.Close()
	there := part
	if old := r.sameSize(name, e.Size); old != nil {
		defer old.Close()
		there = old
	}
	sum, offset, err := sumOf(there, e.Size)
	if err != nil {
		return r.refuse(path, err)
	}
	start, err := r.offer(sum, offset)
	if err != nil {
		return err
	}
	if start == 0 {
		sum.Reset()
	}
	kept := there != part && start > 0 // it is there under its name
	into := part
	if kept {
		into = nil
		_ = r.root.Remove(partOf(name)) // an empty one, which the next copy would find
	}
	failed, err := r.fill(into, path, sum, start, e.Size)
	if err != nil {
		return err
	}
	if failed == nil && !kept {
		failed = r.publish(part, name, fs.FileMode(e.Mode).Perm())
	}
	switch {
	case errors.Is(failed, errSender):
		return nil // told already; the next copy goes on here
	case failed != nil:
		_ = r.root.Remove(partOf(name)) // it may take the room that is short
		return r.refuse(path, failed)
	}
	r.sum.Files++
	return r.send(frameDone, nil)
}

// sameSize opens the file that is there under its name if it may be what is sent, or nil.
func (r *receiver) sameSize(name string, size int64) *os.File {
	info, err := r.root.Lstat(name)
	if err != nil || size == 0 || info.Size() != size {
		return nil
	}
	file, err := r.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil // it is replaced, if its directory allows that
	}
	return file
}

// openPart opens what is received of a file, which may be there from a copy that broke off.
func (r *receiver) openPart(name string) (*os.File, error) {
	switch info, err := r.root.Lstat(name); {
	case err == nil && !info.Mode().IsRegular():
		return nil, errors.New("there is something that is no file, and is not replaced")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	part, err := r.root.OpenFile(partOf(name), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := part.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("something is in the way: remove " + partOf(name))
	}
	if err == nil {
		if locked := unix.Flock(int(part.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(locked, unix.EWOULDBLOCK) {
			err = errors.New("another gcp receives it at this moment")
		}
	}
	if err != nil {
		return nil, errors.Join(err, part.Close())
	}
	return part, nil
}

// sumOf answers the sum of what there is of a file, and how much that is: not more than most.
func sumOf(file *os.File, most int64) (hash.Hash, int64, error) {
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(file, most))
	return sum, n, err
}

// offer says what is there, and answers from where on the rest comes.
func (r *receiver) offer(sum hash.Hash, offset int64) (int64, error) {
	if err := r.sendJSON(frameHave, have{Offset: offset, Sum: sum.Sum(nil)}); err != nil {
		return 0, err
	}
	var from have
	if _, err := r.expect(frameGo, &from); err != nil {
		return 0, err
	}
	if from.Offset != 0 && from.Offset != offset {
		return 0, fmt.Errorf("%w: it sends from byte %d on, where %d or 0 can be", ErrMalformed, from.Offset, offset)
	}
	return from.Offset, nil
}

// errSender stands for trouble of the sender, which has told it.
var errSender = errors.New("the other end could not read it")

// fill writes what comes into a file, from a place on. failed is why the file is not whole;
// it is read to its end all the same.
func (r *receiver) fill(part *os.File, path string, sum hash.Hash, at, size int64) (failed, err error) {
	if part != nil {
		failed = part.Truncate(at)
	}
	from := at
	for {
		kind, data, err := r.next()
		if err != nil {
			return failed, err
		}
		switch kind {
		case frameData:
			if at += int64(len(data)); at > max(size, 0)+maxGrowth+dataBytes {
				return failed, fmt.Errorf("%w: it sends more than the %d bytes that it announced", ErrMalformed, size)
			}
			sum.Write(data)
			if part != nil && failed == nil {
				_, failed = part.WriteAt(data, at-int64(len(data)))
			}
			r.options.progress(path, at, max(size, at))
		case frameSum:
			if failed == nil && !bytes.Equal(data, sum.Sum(nil)) {
				failed = errors.New("its bytes were changed on the way: copy it again")
			}
			r.sum.Bytes, r.sum.Sent = r.sum.Bytes+at, r.sum.Sent+at-from
			return failed, nil
		case frameTrouble:
			t, err := readTrouble(data)
			if err != nil {
				return nil, err
			}
			r.sum.trouble(r.options, path, t.Text, false)
			return errSender, nil
		default:
			return failed, fmt.Errorf("%w: a frame %q in the middle of a file", ErrMalformed, kind)
		}
	}
}

// publish gives a file its name.
func (r *receiver) publish(part *os.File, name string, mode fs.FileMode) error {
	if err := part.Chmod(mode &^ r.options.Umask); err != nil {
		return err
	}
	return r.root.Rename(partOf(name), name)
}
