package bundle

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// A record is a message in a file of its own, followed by its CRC-32C in four
// bytes: a message that was cut off between two fields would be read as
// another one.

const (
	// maxRecordBytes bounds what is read of an allocation's own files; an order is
	// as long as a script and an environment may be.
	maxRecordBytes = 64 << 20
	// resultRoom is kept on the disk for the result from the start on, so that
	// a job that fills the disk cannot keep its end from being known.
	resultRoom = 4096
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeRecord(m proto.Message) ([]byte, error) {
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	return Seal(data), nil
}

// Seal answers a message followed by its checksum.
func Seal(data []byte) []byte {
	return binary.BigEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
}

// readRecord reads a record of the allocation into m. The error wraps ErrDamaged
// when the file is not what was written.
func (d Dir) readRecord(name string, m proto.Message) error {
	data, err := ReadRegular(d.Path(name), maxRecordBytes)
	if err != nil {
		return fmt.Errorf("read an allocation: %w", err)
	}
	const sumBytes = 4
	end := len(data) - sumBytes
	if end < 0 || binary.BigEndian.Uint32(data[end:]) != crc32.Checksum(data[:end], castagnoli) {
		return fmt.Errorf("%s: %w: its checksum is wrong", d.Path(name), ErrDamaged)
	}
	if err := proto.Unmarshal(data[:end], m); err != nil {
		return fmt.Errorf("%s: %w: %w", d.Path(name), ErrDamaged, err)
	}
	return nil
}

func (d Dir) Order() (*pb.StartAlloc, error) {
	order := new(pb.StartAlloc)
	if err := d.readRecord(OrderFile, order); err != nil {
		return nil, err
	}
	if order.GetAlloc().GetJob() == 0 || ID(order.Alloc) != d.ID() {
		return nil, fmt.Errorf("%s: %w: its order is for %s", d, ErrDamaged, ID(order.Alloc))
	}
	return order, nil
}

func (d Dir) Settings() (*Settings, error) {
	data, err := ReadRegular(d.Path(SettingsFile), maxRecordBytes)
	if err != nil {
		return nil, fmt.Errorf("read settings of an allocation: %w", err)
	}
	settings := new(Settings)
	if err := json.Unmarshal(data, settings); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", d.Path(SettingsFile), ErrDamaged, err)
	}
	return settings, nil
}

// Result answers ErrNoResult while there is none.
func (d Dir) Result() (*pb.AllocEnded, error) {
	result := new(pb.AllocEnded)
	err := d.readRecord(ResultFile, result)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNoResult
	}
	if err != nil {
		return nil, err
	}
	if ID(result.Alloc) != d.ID() || result.Cause == pb.EndCause_END_CAUSE_UNSPECIFIED {
		return nil, fmt.Errorf("%s: %w: it is no result of this allocation", d.Path(ResultFile), ErrDamaged)
	}
	return result, nil
}

// Conclude writes the result and then deletes what the job left: so the result
// is known however long that takes, and what it is known from is not deleted
// before. On a disk without any room it is the other way round. The first
// error is that of writing.
func (d Dir) Conclude(result *pb.AllocEnded, host *os.File, written func()) (err, cleanErr error) {
	if err = d.writeResult(result); err == nil {
		written()
		return nil, d.clean(host)
	}
	cleanErr = d.clean(host)
	if err = d.writeResult(result); err == nil {
		written()
	}
	return err, cleanErr
}

// writeResult puts the result in place in one step, and on the disk.
func (d Dir) writeResult(result *pb.AllocEnded) error {
	data, err := encodeRecord(result)
	if err == nil {
		err = d.overwrite(resultDraft, data)
	}
	if err == nil {
		err = os.Rename(d.Path(resultDraft), d.Path(ResultFile))
	}
	if err == nil {
		err = syncDir(string(d))
	}
	if err != nil {
		return fmt.Errorf("write the allocation's result: %w", err)
	}
	return nil
}

// WriteFile makes a file with its contents on the disk.
func (d Dir) WriteFile(name string, data []byte) error {
	if err := d.overwrite(name, data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// overwrite writes a file from its start, cuts off what is left of its former
// contents, and brings it to the disk. What it took there it keeps meanwhile.
func (d Dir) overwrite(name string, data []byte) error {
	f, err := os.OpenFile(d.Path(name), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ReadRegular reads a file that may have been replaced by anything: it follows
// no link, opens regular files only and reads at most limit bytes.
func ReadRegular(path string, limit int64) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: it is not a regular file", path, ErrDamaged)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
