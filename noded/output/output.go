// Package output sends the file to which a job's script writes, and what is appended to it
// later.
//
// The file is opened as the job's user, by its path, and is read only if it is that
// user's own or one that the user may write to. A file that was renamed is read on
// beside the one that took its name, because the script still writes to it.
package output

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

const (
	// MaxLast bounds the bytes by which a file is known again.
	MaxLast = 4 << 10
	// maxTail bounds how far back the last lines are looked for: a file of one line is
	// not read whole.
	maxTail = 64 << 20
	// block is how much is read, and sent, at once.
	block = 64 << 10
	// looksAName is how often a followed file is read between two looks at its name, which
	// cost a thread each.
	looksAName = 5
)

// look is how often a followed file is read. A variable for tests.
var look = 200 * time.Millisecond

// Request is what to send.
type Request struct {
	User  userpath.Identity
	Path  string
	Lines *uint32 // nil = all
	// Had and Last: see ReadOutput in link.proto.
	Had  uint64
	Last []byte
	// Writes reports whether the job may still write. It is asked before each look
	// at the file; nil = what is there is all.
	Writes func() bool
	// Hidden reports whether jobs do not see a place. Nil = they see all.
	Hidden func(userpath.Place) bool
}

// Sink takes what is sent. Its errors end the sending.
type Sink interface {
	// From comes before data that does not continue what came: see OutputFrom in
	// link.proto.
	From(offset uint64, another, renamed bool) error
	// Data may be kept by nobody.
	Data(data []byte) error
}

// ErrHidden is returned, wrapped, for a file at a place that jobs do not see.
var ErrHidden = errors.New("lies where jobs on this node do not see it")

// Send sends a file, and stays while the job writes.
func Send(ctx context.Context, r Request, sink Sink) error {
	file, err := r.open()
	if err != nil {
		return err
	}
	s := &sending{Request: r, sink: sink, named: &part{file: file}, buffer: make([]byte, block)}
	defer s.close()
	if err := s.begin(); err != nil {
		return err
	}
	for n := 1; ; n++ {
		writes := r.Writes != nil && r.Writes()
		if err := s.drain(ctx); err != nil || r.Writes == nil {
			return err
		}
		if n%looksAName == 0 || !writes {
			if err := s.follow(ctx); err != nil {
				return err
			}
		}
		if !writes {
			return nil
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *Request) open() (*os.File, error) {
	file, err := userpath.OpenOwn(r.User, r.Path)
	if err != nil || r.Hidden == nil {
		return file, err
	}
	place, err := userpath.Where(file)
	if err == nil && r.Hidden(place) {
		err = &os.PathError{Op: "open", Path: r.Path, Err: ErrHidden}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// part is an open file, and how much of it was sent.
type part struct {
	file   *os.File
	offset uint64
}

// sending is one file being sent.
type sending struct {
	Request
	sink  Sink
	named *part // what has the name now
	old   *part // what had it before; nil = it was not renamed
	last  *part // whose data was sent last
	// until is where a file ends that is not followed: a job may write faster than
	// somebody reads.
	until  uint64
	buffer []byte
}

func (s *sending) close() {
	for _, p := range []*part{s.named, s.old} {
		if p != nil {
			p.file.Close()
		}
	}
}

// begin finds where to begin, and says so.
func (s *sending) begin() (err error) {
	another := false
	switch {
	case s.Had > 0:
		var same bool
		if same, err = hasAt(s.named.file, s.Had, s.Last); same {
			s.named.offset = s.Had
		}
		another = !same
	case s.Lines != nil:
		s.named.offset, err = tail(s.named.file, *s.Lines)
	}
	if err != nil {
		return err
	}
	stat, err := s.named.file.Stat()
	if err != nil {
		return err
	}
	if s.until = uint64(stat.Size()); s.Writes != nil {
		s.until = math.MaxInt64
	}
	s.last = s.named
	return s.sink.From(s.named.offset, another, false)
}

// hasAt reports whether a file has certain bytes before an offset.
func hasAt(file *os.File, offset uint64, want []byte) (bool, error) {
	stat, err := file.Stat()
	if err != nil || uint64(stat.Size()) < offset || uint64(len(want)) > offset {
		return false, err
	}
	got := make([]byte, len(want))
	if _, err := file.ReadAt(got, int64(offset)-int64(len(want))); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return bytes.Equal(got, want), nil
}

// tail is where the last lines of a file begin. What follows the last line feed is
// a line too.
func tail(file *os.File, lines uint32) (uint64, error) {
	stat, err := file.Stat()
	if err != nil {
		return 0, err
	}
	end := stat.Size()
	if lines == 0 {
		return uint64(end), nil
	}
	buffer := make([]byte, block)
	from := end
	for from > 0 && end-from < maxTail {
		n := min(from, block)
		from -= n
		if _, err := file.ReadAt(buffer[:n], from); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := n - 1; i >= 0; i-- {
			if buffer[i] != '\n' || from+i == end-1 {
				continue
			}
			if lines--; lines == 0 {
				return uint64(from + i + 1), nil
			}
		}
	}
	return uint64(from), nil
}

// drain sends what is there.
func (s *sending) drain(ctx context.Context) error {
	if s.old != nil {
		if err := s.drainPart(ctx, s.old); err != nil {
			return err
		}
	}
	return s.drainPart(ctx, s.named)
}

func (s *sending) drainPart(ctx context.Context, p *part) error {
	for ctx.Err() == nil && p.offset < s.until {
		n, err := p.file.ReadAt(s.buffer[:min(block, s.until-p.offset)], int64(p.offset))
		if n > 0 {
			if p != s.last {
				s.last = p
				if err := s.sink.From(p.offset, false, p != s.named); err != nil {
					return err
				}
			}
			p.offset += uint64(n)
			if err := s.sink.Data(s.buffer[:n]); err != nil {
				return err
			}
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		if cut, err := s.cut(p); err != nil || !cut {
			return err
		}
	}
	return ctx.Err()
}

// cut begins a file again that was truncated.
func (s *sending) cut(p *part) (bool, error) {
	stat, err := p.file.Stat()
	if err != nil || uint64(stat.Size()) >= p.offset {
		return false, err
	}
	p.offset = 0
	s.last = p
	return true, s.sink.From(0, true, p != s.named)
}

// follow looks what has the name now. A name that leads to nothing that could be shown
// may do so again in a moment.
func (s *sending) follow(ctx context.Context) error {
	file, err := s.open()
	if err != nil {
		return nil
	}
	same, err := isSame(file, s.named.file)
	if err != nil || same {
		file.Close()
		return err
	}
	if s.old != nil {
		if err := s.drainPart(ctx, s.old); err != nil {
			file.Close()
			return err
		}
		s.old.file.Close()
	}
	s.old, s.named = s.named, &part{file: file}
	s.last = s.named
	if err := s.sink.From(0, true, false); err != nil {
		return err
	}
	return s.drain(ctx)
}

func isSame(a, b *os.File) (bool, error) {
	var one, other unix.Stat_t
	if err := errors.Join(unix.Fstat(int(a.Fd()), &one), unix.Fstat(int(b.Fd()), &other)); err != nil {
		return false, err
	}
	return one.Dev == other.Dev && one.Ino == other.Ino, nil
}
