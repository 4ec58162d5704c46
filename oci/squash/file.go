// Package squash reads container images that are files of squashfs: bare ones (.sqsh,
// .squashfs), and Apptainer's, which have one in a container of their own (.sif). What it
// makes of one is the tar of a layer, the same bytes for the same file system each time,
// so that the digest of that layer pins it. No kernel mounts anything. Whoever made the
// file may be an enemy: the caller has no rights but its user's.
package squash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/sylabs/sif/v2/pkg/sif"

	"github.com/gleaner-hpc/gleaner/oci/manifest"
)

// File is a file of squashfs that is open.
type File struct {
	// Architecture is what it says it is for; "" = it does not say.
	Architecture string

	file       *os.File
	start, end int64
}

// Open opens one, whatever its name ends in.
func Open(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f := &File{file: file}
	if err := guard(f.find); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Close closes it.
func (f *File) Close() error { return f.file.Close() }

// find looks for the file system in the file.
func (f *File) find() error {
	info, err := f.file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: it is no regular file", manifest.ErrBroken)
	}
	f.end = info.Size()
	begin := make([]byte, launchBytes+len(sifMagic))
	n, err := f.file.ReadAt(begin, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n == len(begin) && string(begin[launchBytes:]) == sifMagic {
		if err := f.findPartition(); err != nil {
			return err
		}
	}
	return f.checkSuperblock()
}

const (
	// sifMagic follows the line with which a .sif is started as a program.
	sifMagic    = "SIF_MAGIC\x00"
	launchBytes = 32
)

// findPartition looks for the root among what a .sif has.
func (f *File) findPartition() error {
	container, err := sif.LoadContainer(f.file, sif.OptLoadWithCloseOnUnload(false))
	if err != nil {
		return fmt.Errorf("%w: it is no .sif that can be read: %w", manifest.ErrBroken, err)
	}
	d, err := container.GetDescriptor(sif.WithPartitionType(sif.PartPrimSys))
	if err != nil {
		return fmt.Errorf("%w: the .sif has no root in it, or several: %w", manifest.ErrBroken, err)
	}
	kind, _, architecture, err := d.PartitionMetadata()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", manifest.ErrBroken, err)
	case kind == sif.FsEncryptedSquashfs:
		return fmt.Errorf("%w: its root is encrypted: build it without --encrypt", manifest.ErrBroken)
	case kind != sif.FsSquash:
		return fmt.Errorf("%w: its root is %s and not squashfs: build it again with a newer Apptainer", manifest.ErrBroken, kind)
	case d.Offset() < 0 || d.Size() < 0 || d.Offset() > f.end || d.Size() > f.end-d.Offset():
		return fmt.Errorf("%w: its root lies beyond its end: copy the file again", manifest.ErrBroken)
	}
	f.start, f.end, f.Architecture = d.Offset(), d.Offset()+d.Size(), architecture
	return nil
}

// The superblock, as far as it is looked at here.
const (
	superblockBytes = 96
	squashfsMagic   = "hsqs"
	compressionAt   = 20
	flagsAt         = 24
	versionAt       = 28
	usedAt          = 40
	attributesAt    = 56
	flagNoXattrs    = 1 << 9
)

// compressions are those of squashfs, in the order of its numbers; those that cannot be
// read have a false.
var compressions = []struct {
	name string
	read bool
}{{"none", false}, {"gzip", true}, {"lzma", false}, {"lzo", false}, {"xz", true}, {"lz4", false}, {"zstd", true}}

func (f *File) checkSuperblock() error {
	block := make([]byte, superblockBytes)
	_, err := f.ReadAt(block, 0)
	switch {
	case errors.Is(err, io.EOF), err == nil && string(block[:len(squashfsMagic)]) != squashfsMagic:
		return fmt.Errorf("%w: it is neither a .sif nor squashfs", manifest.ErrBroken)
	case err != nil:
		return err
	}
	if version := binary.LittleEndian.Uint32(block[versionAt:]); version != 4 {
		return fmt.Errorf("%w: its squashfs is of version %d.%d, and 4.0 is known", manifest.ErrBroken, version&0xffff, version>>16)
	}
	if used := binary.LittleEndian.Uint64(block[usedAt:]); used > uint64(f.end-f.start) {
		return fmt.Errorf("%w: it has %d bytes and should have %d: copy the file again", manifest.ErrBroken, f.end-f.start, used)
	}
	number := int(binary.LittleEndian.Uint16(block[compressionAt:]))
	name := fmt.Sprint("number ", number)
	if number < len(compressions) {
		if compressions[number].read {
			return nil
		}
		name = compressions[number].name
	}
	return fmt.Errorf("%w: it is compressed with %s, and gzip, xz and zstd can be read: make it again with mksquashfs -comp zstd (Enroot: ENROOT_SQUASH_OPTIONS=\"-comp zstd\")", manifest.ErrBroken, name)
}

// ReadAt implements io.ReaderAt for the file system. It has no extended attributes: what
// reads it mixes those of root up with the user's.
func (f *File) ReadAt(into []byte, at int64) (int, error) {
	if at < 0 || at >= f.end-f.start {
		return 0, io.EOF
	}
	var err error
	if left := f.end - f.start - at; int64(len(into)) > left {
		into, err = into[:left], io.EOF
	}
	n, readErr := f.file.ReadAt(into, f.start+at)
	for i := range n {
		switch field := at + int64(i); {
		case field >= superblockBytes:
			return n, errors.Join(err, readErr)
		case field >= attributesAt && field < attributesAt+8:
			into[i] = math.MaxUint8
		case field == flagsAt+1:
			into[i] |= flagNoXattrs >> 8
		}
	}
	return n, errors.Join(err, readErr)
}

// storage is a File as the library wants it.
type storage struct{ *io.SectionReader }

var _ backend.Storage = storage{}

// Stat, Close, Sys, Writable and Path implement backend.Storage. Reading needs none of
// them.
func (storage) Stat() (os.FileInfo, error)              { return nil, backend.ErrNotSuitable }
func (storage) Close() error                            { return nil }
func (storage) Sys() (*os.File, error)                  { return nil, backend.ErrNotSuitable }
func (storage) Writable() (backend.WritableFile, error) { return nil, backend.ErrIncorrectOpenMode }
func (storage) Path() string                            { return "" }
