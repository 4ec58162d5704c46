package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"filippo.io/age"
	"golang.org/x/sys/unix"
)

// sealedDisk encrypts each file with the site's newest key, in age's format, and reads those
// that one of the keys opens, and those that were written before there was a key. Names stay
// as they are: they say which job, user and node an image is of, and when it was made.
type sealedDisk struct {
	disk
	keys *Keys
}

// sealed answers a disk whose files are encrypted, if there are keys.
func sealed(on disk, keys *Keys) disk {
	if keys == nil {
		return on
	}
	return &sealedDisk{disk: on, keys: keys}
}

// sealMagic is how an encrypted file begins.
const sealMagic = "age-encryption.org/v1\n"

// Create implements disk.
func (s *sealedDisk) Create(name string) (newFile, error) {
	_, recipient, err := s.keys.current()
	if err != nil {
		return nil, err
	}
	file, err := s.disk.Create(name)
	if err != nil {
		return nil, err
	}
	out := bufio.NewWriterSize(file, 256<<10)
	seal, err := age.Encrypt(out, recipient)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("encrypt: %w", err), file.Close())
	}
	return &sealedNew{newFile: file, out: out, seal: seal}, nil
}

// sealedNew is a file that is encrypted while it is written.
type sealedNew struct {
	newFile
	out  *bufio.Writer
	seal io.WriteCloser
}

func (s *sealedNew) Write(data []byte) (int, error) { return s.seal.Write(data) }

// Sync writes the end, too: nothing is written after it.
func (s *sealedNew) Sync() error {
	if err := s.seal.Close(); err != nil {
		return err
	}
	if err := s.out.Flush(); err != nil {
		return err
	}
	return s.newFile.Sync()
}

// Link links what the newest key has encrypted. What another key has, or none, is written
// once more: a key that is to go must not be needed for new images.
func (s *sealedDisk) Link(old, name string) error {
	_, recipient, err := s.keys.current()
	if err != nil {
		return err
	}
	file, err := s.disk.Open(old)
	if err != nil {
		return err
	}
	mine, err := s.isNewest(file, recipient)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if !mine {
		return unix.ENOTSUP
	}
	return s.disk.Link(old, name)
}

// isNewest says whether the newest key alone opens a file.
func (s *sealedDisk) isNewest(file oldFile, newest age.Recipient) (bool, error) {
	all, _, err := s.keys.current()
	if err != nil {
		return false, err
	}
	head, sealedFile, err := readHead(file)
	if err != nil || !sealedFile {
		return false, err
	}
	_, err = age.Decrypt(bytes.NewReader(head), all[len(all)-1])
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) {
		return false, nil
	}
	return err == nil, nil
}

// headBytes has the header of every file that one key has encrypted.
const headBytes = 8 << 10

// readHead answers how a file begins, and whether it is encrypted.
func readHead(file oldFile) ([]byte, bool, error) {
	size, err := file.Size()
	if err != nil {
		return nil, false, err
	}
	head := make([]byte, min(size, headBytes))
	if _, err := file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	return head, bytes.HasPrefix(head, []byte(sealMagic)), nil
}

// Open implements disk.
func (s *sealedDisk) Open(name string) (oldFile, error) {
	file, err := s.disk.Open(name)
	if err != nil {
		return nil, err
	}
	opened, err := s.open(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), file.Close())
	}
	return opened, nil
}

func (s *sealedDisk) open(file oldFile) (oldFile, error) {
	head, is, err := readHead(file)
	if err != nil || !is {
		return file, err
	}
	all, _, err := s.keys.current()
	if err != nil {
		return nil, err
	}
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	o := &sealedOld{oldFile: file, spans: &spans{of: file}}
	if err := o.keepEnds(head, size); err != nil {
		return nil, err
	}
	o.plain, o.size, err = age.DecryptReaderAt(o.spans, size, all...)
	var none *age.NoIdentityMatchError
	switch {
	case errors.As(err, &none):
		return nil, fmt.Errorf("%w: none of the %d in %s opens this: add the one that wrote it", ErrKey, len(all), s.keys.path)
	case err != nil && !Away(err):
		return nil, errPack{"it cannot be decrypted: " + err.Error()}
	case err != nil:
		return nil, err
	}
	return o, nil
}

// sealedOld is an encrypted file that is read.
type sealedOld struct {
	oldFile
	spans *spans
	plain io.ReaderAt
	size  int64
}

// sealedChunk is what age encrypts together, and sealedOver how much longer that gets.
const (
	sealedChunk = 64 << 10
	sealedOver  = 16
)

// keepEnds holds the file's beginning and end, which are needed more than once.
func (o *sealedOld) keepEnds(head []byte, size int64) error {
	o.spans.add(&span{at: 0, data: head})
	if tail := max(size-2*sealedChunk, int64(len(head))); tail < size {
		s, err := o.spans.read(tail, size)
		if err != nil {
			return err
		}
		o.spans.add(s)
	}
	return nil
}

// Size answers what the file has, decrypted.
func (o *sealedOld) Size() (int64, error) { return o.size, nil }

// ReadAt reads the stretch that it needs at once: each read of a bucket is a request.
func (o *sealedOld) ReadAt(p []byte, at int64) (int, error) {
	if at >= o.size {
		return 0, io.EOF
	}
	chunks := (o.size + sealedChunk - 1) / sealedChunk
	whole, err := o.oldFile.Size()
	if err != nil {
		return 0, err
	}
	payload := whole - o.size - chunks*sealedOver
	first, last := at/sealedChunk, min((at+int64(len(p))+sealedChunk-1)/sealedChunk, chunks)
	from := payload + first*(sealedChunk+sealedOver)
	to := min(payload+last*(sealedChunk+sealedOver), whole)
	if !o.spans.has(from, to) {
		s, err := o.spans.read(from, to)
		if err != nil {
			return 0, err
		}
		o.spans.add(s)
		defer o.spans.drop(s)
	}
	n, err := o.plain.ReadAt(p, at)
	switch {
	case n == len(p):
		err = nil // where the file ends, too
	case err != nil && !errors.Is(err, io.EOF) && !Away(err):
		err = errPack{"it cannot be decrypted: " + err.Error()}
	}
	return n, err
}

// ReadDirect implements oldFile.
func (o *sealedOld) ReadDirect(p []byte, at int64) (int, error) { return o.ReadAt(p, at) }

// spans are stretches of a file that are in memory for those who read there.
type spans struct {
	of oldFile

	mu  sync.Mutex
	all []*span
}

type span struct {
	at   int64
	data []byte
}

func (s *spans) read(from, to int64) (*span, error) {
	data := make([]byte, to-from)
	n, err := s.of.ReadAt(data, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return &span{at: from, data: data[:n]}, nil
}

func (s *spans) add(one *span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
}

func (s *spans) drop(one *span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.all {
		if other == one {
			s.all = append(s.all[:i:i], s.all[i+1:]...)
			return
		}
	}
}

// find answers the span that has all of a stretch, or nil.
func (s *spans) find(from, to int64) *span {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if from >= one.at && to <= one.at+int64(len(one.data)) {
			return one
		}
	}
	return nil
}

func (s *spans) has(from, to int64) bool { return s.find(from, to) != nil }

// ReadAt implements io.ReaderAt.
func (s *spans) ReadAt(p []byte, at int64) (int, error) {
	if one := s.find(at, at+int64(len(p))); one != nil {
		return copy(p, one.data[at-one.at:]), nil
	}
	return s.of.ReadAt(p, at)
}
