package squash

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/diskfs/go-diskfs/filesystem"
	"github.com/diskfs/go-diskfs/filesystem/squashfs"

	"github.com/gleaner-hpc/gleaner/oci/manifest"
	"github.com/gleaner-hpc/gleaner/oci/ref"
)

// What a file system may have at most. The node's cache has bounds besides, which are
// smaller.
const (
	mostBytes = 1 << 40
	mostFiles = 4_000_000
	mostPath  = 4096
	mostName  = 255
)

// Content is what was found while a tar was written.
type Content struct {
	Runscript bool
}

// guard turns what a library does with input that it did not expect into an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: its squashfs cannot be read: %v", manifest.ErrBroken, p)
		}
	}()
	return f()
}

// Tar writes all that is in the file as the tar of a layer. Devices are there for whoever
// unpacks it to refuse; sockets are left out, as in other images.
func (f *File) Tar(ctx context.Context, to io.Writer) (Content, error) {
	w := &walk{ctx: ctx, tar: tar.NewWriter(to), seen: map[uint32]bool{}, linked: map[uint32]first{}, buffer: make([]byte, 1<<20)}
	err := guard(func() error {
		size := f.end - f.start
		from, err := squashfs.Read(storage{io.NewSectionReader(f, 0, size)}, size, 0, 0)
		if err != nil {
			return broken(err)
		}
		w.from = from
		if err := w.directory("."); err != nil {
			return err
		}
		return w.tar.Close()
	})
	return w.content, err
}

func broken(err error) error { return fmt.Errorf("%w: %w", manifest.ErrBroken, err) }

// first is a file that may have other names.
type first struct {
	name string
	size int64
}

// walk goes through a file system in the order of its directories.
type walk struct {
	ctx     context.Context
	from    *squashfs.FileSystem
	tar     *tar.Writer
	seen    map[uint32]bool  // directories
	linked  map[uint32]first // files that can have several names
	files   int64
	bytes   int64
	buffer  []byte
	content Content
}

func (w *walk) directory(dir string) error {
	entries, err := w.from.ReadDir(dir)
	if err != nil {
		return broken(err)
	}
	last := ""
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || len(name) > mostName:
			return fmt.Errorf("%w: a file in /%s is named %.300q, and no file can be", manifest.ErrBroken, dir, name)
		case name <= last:
			return fmt.Errorf("%w: /%s has %q twice, or out of order", manifest.ErrBroken, dir, name)
		}
		last = name
		if err := w.entry(path.Join(dir, name), entry); err != nil {
			return err
		}
	}
	return nil
}

// opener is an entry of the library's directories.
type opener interface {
	Open() (filesystem.File, error)
}

func (w *walk) entry(name string, entry fs.DirEntry) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	info, err := entry.Info()
	if err != nil {
		return broken(err)
	}
	stat, is := info.Sys().(*squashfs.StatT)
	if !is {
		return fmt.Errorf("%w: nothing is known of /%s", manifest.ErrBroken, name)
	}
	if w.files++; w.files > mostFiles || len(name) > mostPath {
		return fmt.Errorf("%w: it has more than %d files, or paths longer than %d bytes", manifest.ErrBroken, mostFiles, mostPath)
	}
	header := &tar.Header{
		Name: name, Mode: int64(info.Mode().Perm()), Uid: int(stat.UID), Gid: int(stat.GID), ModTime: info.ModTime().UTC(), Format: tar.FormatPAX,
	}
	switch mode := info.Mode(); {
	case mode.IsDir() != entry.IsDir():
		return fmt.Errorf("%w: /%s is a directory and is none", manifest.ErrBroken, name)
	case mode.IsDir():
		if w.seen[stat.Inode] {
			return fmt.Errorf("%w: the directory /%s is in it twice, or in itself", manifest.ErrBroken, name)
		}
		w.seen[stat.Inode] = true
		header.Typeflag, header.Name = tar.TypeDir, name+"/"
		if err := w.header(header); err != nil {
			return err
		}
		return w.directory(name)
	case mode.IsRegular():
		return w.file(header, info.Size(), stat, entry)
	case mode&fs.ModeSymlink != 0:
		header.Typeflag, header.Linkname = tar.TypeSymlink, stat.LinkTarget
	case mode&fs.ModeNamedPipe != 0:
		header.Typeflag = tar.TypeFifo
	case mode&fs.ModeSocket != 0:
		return nil
	case mode&fs.ModeCharDevice != 0:
		header.Typeflag = tar.TypeChar
	default:
		header.Typeflag = tar.TypeBlock
	}
	return w.header(header)
}

// header writes one. What a tar cannot have, no root has either.
func (w *walk) header(header *tar.Header) error {
	err := w.tar.WriteHeader(header)
	if errors.Is(err, tar.ErrHeader) {
		return broken(err)
	}
	return err
}

func (w *walk) file(header *tar.Header, size int64, stat *squashfs.StatT, entry fs.DirEntry) error {
	if size < 0 || size > mostBytes-w.bytes {
		return fmt.Errorf("%w: its files have more than %d bytes", manifest.ErrBroken, int64(mostBytes))
	}
	name := header.Name
	if name == ref.Runscript && header.Mode&0o111 != 0 {
		w.content.Runscript = true
	}
	// Only files that the file system keeps with their number of links have several names.
	if strings.HasPrefix(stat.InodeType, "extended") {
		if other, is := w.linked[stat.Inode]; is && other.size == size {
			header.Typeflag, header.Linkname = tar.TypeLink, other.name
			return w.header(header)
		}
		w.linked[stat.Inode] = first{name, size}
	}
	w.bytes += size
	header.Typeflag, header.Size = tar.TypeReg, size
	if err := w.header(header); err != nil {
		return err
	}
	from, is := entry.(opener)
	if !is {
		return fmt.Errorf("%w: /%s cannot be opened", manifest.ErrBroken, name)
	}
	content, err := from.Open()
	if err != nil {
		return broken(err)
	}
	defer content.Close()
	return w.copy(name, content, size)
}

// copy copies a file until it has as many bytes as it should.
func (w *walk) copy(name string, content io.Reader, size int64) error {
	for left := size; left > 0; {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		n, err := content.Read(w.buffer[:min(left, int64(len(w.buffer)))])
		if n > 0 {
			if _, err := w.tar.Write(w.buffer[:n]); err != nil {
				return err
			}
			left -= int64(n)
		}
		if left > 0 && (err != nil || n == 0) {
			return fmt.Errorf("%w: /%s ends too early: %v", manifest.ErrBroken, name, err)
		}
	}
	return nil
}
