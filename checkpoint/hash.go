package checkpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// maxHashes bounds what a cache remembers: more than all libraries of a system.
const maxHashes = 65536

// Hashes remembers the SHA-256 of files as long as their device, number, size and
// times stay the same. So a library is read once, however often processes that have
// it mapped are saved. Several goroutines may use it.
type Hashes struct {
	mu    sync.Mutex
	known map[fileID]Digest
}

// Of answers size and SHA-256 of an open file.
func (h *Hashes) Of(ctx context.Context, file *os.File) (int64, Digest, error) {
	id, err := openID(file)
	if err != nil {
		return 0, Digest{}, err
	}
	h.mu.Lock()
	digest, ok := h.known[id]
	h.mu.Unlock()
	if ok {
		return id.size, digest, nil
	}
	size, digest, err := digestOf(ctx, file)
	if err != nil {
		return 0, Digest{}, err
	}
	after, err := openID(file)
	if err != nil {
		return 0, Digest{}, err
	}
	if after == id {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.known == nil || len(h.known) >= maxHashes {
			h.known = make(map[fileID]Digest)
		}
		h.known[id] = digest
	}
	return size, digest, nil
}

// Look answers the file at a path, for Fits. It follows links. Anything but a
// regular file is an error.
func (h *Hashes) Look(path string) (File, error) {
	file, err := OpenFile(path)
	if err != nil {
		return File{}, err
	}
	defer file.Close()
	size, digest, err := h.Of(context.Background(), file)
	return File{Path: path, Size: size, SHA256: digest}, err
}

// OpenFile opens a regular file for reading, and nothing else: opening a device may
// start something, and a name that a job chose is not trusted that far.
func OpenFile(path string) (*os.File, error) {
	seen, err := os.OpenFile(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer seen.Close()
	if info, err := seen.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(&os.PathError{Op: "open", Path: path, Err: errors.New("it is no regular file")}, err)
	}
	return os.Open("/proc/self/fd/" + strconv.Itoa(int(seen.Fd())))
}

func openID(file *os.File) (fileID, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return fileID{}, &os.PathError{Op: "stat", Path: file.Name(), Err: err}
	}
	return identityOf(file.Name(), &stat)
}

// digestOf reads a file from its start.
func digestOf(ctx context.Context, file *os.File) (int64, Digest, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return 0, Digest{}, err
	}
	hash := sha256.New()
	buffer := make([]byte, 1<<20)
	size, err := io.CopyBuffer(onlyWriter{hash}, contextReader{ctx, file}, buffer)
	if err != nil {
		return 0, Digest{}, fmt.Errorf("read %s: %w", file.Name(), err)
	}
	return size, Digest(hash.Sum(nil)), nil
}

// onlyWriter and contextReader keep io.CopyBuffer from taking shortcuts.
type onlyWriter struct{ io.Writer }

type contextReader struct {
	ctx  context.Context
	file *os.File
}

func (r contextReader) Read(buffer []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.file.Read(buffer)
}
