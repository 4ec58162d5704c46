package simulate

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/gleaner-hpc/gleaner/proto/snapshotfile"
)

// maxUnpacked bounds what is read of a trace: five million lines are below a gigabyte.
const maxUnpacked = 2 << 30

// readTrace reads a file, unpacked if it is gzip.
func readTrace[T any](path string, read func(io.Reader) (T, error)) (T, error) {
	var none T
	file, err := os.Open(path)
	if err != nil {
		return none, errors.Unwrap(err)
	}
	defer file.Close()
	from := io.Reader(bufio.NewReaderSize(file, 1<<20))
	if head, _ := from.(*bufio.Reader).Peek(2); string(head) == "\x1f\x8b" {
		if from, err = gzip.NewReader(from); err != nil {
			return none, err
		}
	}
	return read(&bounded{from, maxUnpacked})
}

// isSnapshot reports whether a file is a snapshot of a cluster (gcontrol snapshot save).
func isSnapshot(path string) (bool, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return false, err // a pipe is read once only
	}
	head := make([]byte, len(snapshotfile.Magic))
	_, err = io.ReadFull(file, head)
	return string(head) == snapshotfile.Magic, err
}

// bounded refuses to read beyond a number of bytes: a small file may unpack to any.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(to []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("it has more than %d bytes (unpacked); cut the trace", int64(maxUnpacked))
	}
	n, err := b.from.Read(to[:min(int64(len(to)), b.left)])
	b.left -= int64(n)
	return n, err
}

// interruptible does something that may take long, and ends before it when the user
// interrupts: a trace may be a pipe.
func interruptible(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-done:
		return err
	}
}
