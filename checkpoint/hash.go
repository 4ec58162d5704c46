package checkpoint

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxHashes bounds what a cache remembers: more than all libraries of a system.
const maxHashes = 65536

// Hashes remembers the SHA-256 of files as long as they stay the same, by the
// device, number, size and times that the kernel tells. So a library is read
// once, however often something that has it mapped is saved. It may be used by
// several goroutines.
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

// Look answers the file at a path, for Fits. Links are followed; what is no
// regular file is an error.
func (h *Hashes) Look(path string) (File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return File{}, err
	}
	defer file.Close()
	size, digest, err := h.Of(context.Background(), file)
	return File{Path: path, Size: size, SHA256: digest}, err
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

// onlyWriter and contextReader keep io.CopyBuffer from going other ways.
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
