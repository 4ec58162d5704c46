// Package unpack writes one layer of a container image into a directory, as a layer of an
// overlay that is mounted with userxattr. Whoever made the layer may be an enemy of
// the machine. So the caller is root of nothing but a user namespace of its own, and
// the directory is its root: no path leads out of it. Both digests of the layer are
// compared, and devices, more bytes and more files than allowed are refused.
package unpack

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/pkg/archive"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

var (
	// ErrBroken is returned, wrapped, for a layer that is not what its digests say, or no
	// layer.
	ErrBroken = errors.New("a layer of the container image is broken")
	// ErrHostile is returned, wrapped, for a layer that has what none may have.
	ErrHostile = errors.New("a layer of the container image has what none may have")
	// ErrRoom is returned, wrapped, for a layer that is larger than there is room for.
	ErrRoom = errors.New("a layer of the container image is too large")
)

// Limits bound a layer.
type Limits struct {
	Bytes int64 // on the disk
	Files int64
}

// Want is what a layer should be. Both are SHA-256 in hexadecimal digits.
type Want struct {
	Blob   string // of the bytes as they come
	DiffID string // of the tar in them
}

// Size is what a layer takes.
type Size struct {
	Bytes int64 `json:"bytes"`
	Files int64 `json:"files"`
}

const (
	// block is what the content of a file is rounded up to, and inode what it takes besides.
	block, inode = 4096, 512
	// mostMemory bounds what zstd may want for a window.
	mostMemory = 256 << 20
	// nobody owns what belongs to an id that containers do not have.
	nobody  = 65534
	highest = 65535
)

// Layer unpacks a layer into the directory, which is empty.
func Layer(ctx context.Context, from io.Reader, into string, want Want, limits Limits) (Size, error) {
	blob, diff := sha256.New(), sha256.New()
	raw := bufio.NewReaderSize(io.TeeReader(from, blob), 1<<20)
	plain, err := decompress(raw)
	if err != nil {
		return Size{}, err
	}
	defer plain.Close()
	u := &unpacking{limits: limits}
	content := &bounded{from: io.TeeReader(plain, diff), left: limits.Bytes + limits.Files*block}
	if _, err = archive.Apply(ctx, into, content, archive.WithFilter(u.accept), archive.WithConvertWhiteout(whiteout)); err == nil {
		_, err = io.Copy(io.Discard, content) // what follows the end of the archive has a digest too
	}
	if err == nil {
		_, err = io.Copy(io.Discard, raw)
	}
	switch {
	case errors.Is(err, ErrHostile), errors.Is(err, ErrRoom), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), ctx.Err() != nil:
		return u.size, err
	case err != nil:
		return u.size, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return u.size, errors.Join(compare(blob, want.Blob, "it"), compare(diff, want.DiffID, "what is in it"))
}

func compare(got hash.Hash, want, what string) error {
	if sum := hex.EncodeToString(got.Sum(nil)); sum != want {
		return fmt.Errorf("%w: %s should be sha256:%s and is sha256:%s", ErrBroken, what, want, sum)
	}
	return nil
}

// decompress finds out by the first bytes how a layer is compressed, whatever is said of
// it.
func decompress(raw *bufio.Reader) (io.ReadCloser, error) {
	begin, err := raw.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	switch {
	case bytes.HasPrefix(begin, []byte{0x1f, 0x8b}):
		reader, err := gzip.NewReader(raw)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBroken, err)
		}
		return reader, nil
	case bytes.HasPrefix(begin, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		reader, err := zstd.NewReader(raw, zstd.WithDecoderMaxMemory(mostMemory), zstd.WithDecoderMaxWindow(mostMemory), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBroken, err)
		}
		return reader.IOReadCloser(), nil
	}
	return io.NopCloser(raw), nil
}

// bounded fails where there is more than is allowed.
type bounded struct {
	from io.Reader
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(into []byte) (int, error) {
	n, err := b.from.Read(into)
	if b.left -= int64(n); b.left < 0 {
		return n, fmt.Errorf("%w: it does not end where its files do", ErrRoom)
	}
	return n, err
}

// unpacking counts.
type unpacking struct {
	limits Limits
	size   Size
}

// accept looks at each entry before anything is made of it.
func (u *unpacking) accept(header *tar.Header) (bool, error) {
	name := filepath.Clean("/" + header.Name)
	if strings.HasPrefix(name, "/dev/") {
		return false, nil // jobs have a /dev of their own
	}
	switch header.Typeflag {
	case tar.TypeChar, tar.TypeBlock:
		return false, fmt.Errorf("%w: a device file, %s: leave it out of the image; jobs get their devices from the node", ErrHostile, name)
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo, tar.TypeXGlobalHeader:
	default:
		return false, fmt.Errorf("%w: %s is of type %q", ErrHostile, name, header.Typeflag)
	}
	if header.Name == ".." || strings.HasPrefix(header.Name, "../") {
		return false, fmt.Errorf("%w: a path that leads out of it, %s", ErrHostile, header.Name)
	}
	keepUserAttributes(header)
	if header.Uid > highest || header.Uid < 0 {
		header.Uid = nobody
	}
	if header.Gid > highest || header.Gid < 0 {
		header.Gid = nobody
	}
	return true, u.count(header.Size)
}

// count adds a file. What a sparse one says of its size is only said, and may be more
// than can be added to anything.
func (u *unpacking) count(bytes int64) error {
	if u.size.Files++; u.size.Files > u.limits.Files {
		return fmt.Errorf("%w: it has more than %d files", ErrRoom, u.limits.Files)
	}
	if bytes >= 0 && bytes <= u.limits.Bytes {
		u.size.Bytes += (bytes+block-1)/block*block + inode
	}
	if bytes < 0 || bytes > u.limits.Bytes || u.size.Bytes > u.limits.Bytes {
		return fmt.Errorf("%w: it needs more than %d bytes", ErrRoom, u.limits.Bytes)
	}
	return nil
}

// keepUserAttributes drops all extended attributes but the user's own: those of the
// overlay say what is hidden, and those of root mean nothing to a job.
func keepUserAttributes(header *tar.Header) {
	const prefix, user, overlay = "SCHILY.xattr.", "user.", "user.overlay."
	for key := range header.PAXRecords {
		if name, is := strings.CutPrefix(key, prefix); is && (!strings.HasPrefix(name, user) || strings.HasPrefix(name, overlay)) {
			delete(header.PAXRecords, key)
		}
	}
}

// whiteout writes for the overlay what a layer says of the layers below it.
func whiteout(header *tar.Header, path string) (writeFile bool, err error) {
	const hidden, opaque = ".wh.", ".wh..wh..opq"
	dir, base := filepath.Split(path)
	switch {
	case base == opaque:
		return false, unix.Setxattr(filepath.Clean(dir), "user.overlay.opaque", []byte("y"), 0)
	case strings.HasPrefix(base, hidden):
		at := filepath.Join(dir, strings.TrimPrefix(base, hidden))
		if err := unix.Mknod(at, unix.S_IFCHR, 0); err != nil && !errors.Is(err, unix.EEXIST) {
			return false, err // what the same layer has at that name stays
		}
		return false, nil
	}
	return true, nil
}
