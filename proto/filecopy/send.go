package filecopy

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// sender is one Send.
type sender struct {
	wire
	options *Options
	source  string
	sum     Summary
}

// Send copies what is at a path to whoever receives at the other end of the stream. An
// error is one of the stream; what could not be copied is counted, and told.
func Send(stream io.ReadWriter, source string, options Options) (Summary, error) {
	s := &sender{wire: wire{in: stream, out: stream}, options: &options, source: source}
	err := s.run()
	return s.sum, err
}

func (s *sender) run() error {
	name := filepath.Base(filepath.Clean(s.source))
	if absolute, err := filepath.Abs(s.source); err == nil {
		name = filepath.Base(absolute)
	}
	if err := s.send(frameName, []byte(name)); err != nil {
		return err
	}
	info, err := os.Stat(s.source)
	switch {
	case err != nil:
		err = s.cannot("", reason(err))
	case info.IsDir() && !s.options.Recursive:
		err = s.cannot("", "is a directory: copy it with -r")
	case info.IsDir():
		err = s.tree(info)
	default:
		err = s.file("", s.source)
	}
	if err != nil {
		return err
	}
	if err := s.send(frameEnd, nil); err != nil {
		return err
	}
	_, err = s.expect(frameEnd, nil)
	return err
}

// cannot tells both sides why something is not copied.
func (s *sender) cannot(path, why string) error {
	s.sum.trouble(s.options, path, why, true)
	return s.sendJSON(frameTrouble, trouble{Path: []byte(path), Text: why[:min(len(why), maxText)]})
}

// tree sends a directory. One that cannot be entered is told, and the rest is sent.
func (s *sender) tree(top fs.FileInfo) error {
	skipped, err := s.directory("", top.Mode())
	if err != nil || skipped {
		return err
	}
	return s.below(s.source, "")
}

// below sends what is in a directory; prefix is its path from the source.
func (s *sender) below(directory, prefix string) error {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return s.cannot(prefix, reason(err))
	}
	for _, entry := range entries {
		path, file := filepath.Join(prefix, entry.Name()), filepath.Join(directory, entry.Name())
		switch {
		case isOurs(entry.Name()): // of a copy that broke off
		case entry.IsDir():
			info, err := entry.Info()
			if err != nil {
				err = s.cannot(path, reason(err))
				if err != nil {
					return err
				}
				continue
			}
			skipped, err := s.directory(path, info.Mode())
			if err == nil && !skipped {
				err = s.below(file, path)
			}
			if err != nil {
				return err
			}
		case entry.Type()&fs.ModeSymlink != 0:
			if err := s.cannot(path, "is a link, and is left out"); err != nil {
				return err
			}
		default:
			if err := s.file(path, file); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sender) directory(path string, mode fs.FileMode) (skipped bool, err error) {
	if err := s.sendJSON(frameEntry, entry{Path: []byte(path), Directory: true, Mode: uint32(mode.Perm())}); err != nil {
		return false, err
	}
	refused, err := s.expect(frameDone, nil)
	if refused != nil {
		s.sum.trouble(s.options, path, refused.Text, false)
	}
	return refused != nil, err
}

// openFile opens what is to be read, if it is a file: nothing waits for the other end of a
// pipe, and no device notices.
func openFile(name string) (*os.File, fs.FileInfo, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a file, and is left out")
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

func (s *sender) file(path, name string) error {
	file, info, err := openFile(name)
	if err != nil {
		return s.cannot(path, reason(err))
	}
	defer file.Close()
	if err := s.sendJSON(frameEntry, entry{Path: []byte(path), Size: info.Size(), Mode: uint32(info.Mode().Perm())}); err != nil {
		return err
	}
	var there have
	refused, err := s.expect(frameHave, &there)
	if err != nil {
		return err
	}
	if refused != nil {
		s.sum.trouble(s.options, path, refused.Text, false)
		return nil
	}
	sum, offset := agreed(file, there, info.Size())
	if err := s.sendJSON(frameGo, have{Offset: offset}); err != nil {
		return err
	}
	if failed, err := s.data(file, path, sum, offset, info.Size()); failed || err != nil {
		return err
	}
	refused, err = s.expect(frameDone, nil)
	if refused != nil {
		s.sum.trouble(s.options, path, refused.Text, false)
		return nil
	}
	s.sum.Files++
	return err
}

// agreed answers how much of a file the other end has already, and its sum; the file stands
// there afterwards.
func agreed(file *os.File, there have, size int64) (hash.Hash, int64) {
	sum := sha256.New()
	if there.Offset > 0 && there.Offset <= size {
		if n, err := io.CopyN(sum, file, there.Offset); err == nil && n == there.Offset && bytes.Equal(sum.Sum(nil), there.Sum) {
			return sum, there.Offset
		}
		sum.Reset()
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return sum, 0 // reading says so
	}
	return sum, 0
}

// data sends a file from where it stands, and the sum of all of it. A file that grows
// meanwhile is sent as it is when its end is reached.
func (s *sender) data(file *os.File, path string, sum hash.Hash, offset, size int64) (failed bool, err error) {
	buffer := make([]byte, dataBytes)
	done := offset
	for {
		n, readErr := file.Read(buffer)
		if n > 0 {
			sum.Write(buffer[:n])
			if err := s.send(frameData, buffer[:n]); err != nil {
				return false, err
			}
			done += int64(n)
			s.options.progress(path, done, max(size, done))
		}
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return true, s.cannot(path, reason(readErr))
		}
		if readErr != nil || done >= size+maxGrowth {
			break
		}
	}
	s.sum.Bytes, s.sum.Sent = s.sum.Bytes+done, s.sum.Sent+done-offset
	return false, s.send(frameSum, sum.Sum(nil))
}

// maxGrowth is how much of a file is sent beyond the size that it had: one that grows as
// fast as it is sent would be sent for ever.
const maxGrowth = 64 << 20
