package shim

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// A record is a message in a file of its own, followed by its CRC-32C in four
// bytes: a message that was cut off between two fields would be read as
// another one.

const (
	// maxRecordBytes bounds what is read of a part's own files; an order is
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
	return seal(data), nil
}

// seal answers a message followed by its checksum.
func seal(data []byte) []byte {
	return binary.BigEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
}

// readRecord reads a record of the part into m. The error wraps ErrDamaged
// when the file is not what was written.
func (d directory) readRecord(name string, m proto.Message) error {
	data, err := readRegular(d.path(name), maxRecordBytes)
	if err != nil {
		return fmt.Errorf("read a part: %w", err)
	}
	const sumBytes = 4
	end := len(data) - sumBytes
	if end < 0 || binary.BigEndian.Uint32(data[end:]) != crc32.Checksum(data[:end], castagnoli) {
		return fmt.Errorf("%s: %w: its checksum is wrong", d.path(name), ErrDamaged)
	}
	if err := proto.Unmarshal(data[:end], m); err != nil {
		return fmt.Errorf("%s: %w: %w", d.path(name), ErrDamaged, err)
	}
	return nil
}

func (d directory) order() (*pb.StartPart, error) {
	order := new(pb.StartPart)
	if err := d.readRecord(orderFile, order); err != nil {
		return nil, err
	}
	if order.GetPart().GetJob() == 0 || partID(order.Part) != d.id() {
		return nil, fmt.Errorf("%s: %w: its order is for %s", d, ErrDamaged, partID(order.Part))
	}
	return order, nil
}

func (d directory) settings() (*Settings, error) {
	data, err := readRegular(d.path(settingsFile), maxRecordBytes)
	if err != nil {
		return nil, fmt.Errorf("read settings of a part: %w", err)
	}
	settings := new(Settings)
	if err := json.Unmarshal(data, settings); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", d.path(settingsFile), ErrDamaged, err)
	}
	return settings, nil
}

// result answers ErrNoResult while there is none.
func (d directory) result() (*pb.PartEnded, error) {
	result := new(pb.PartEnded)
	err := d.readRecord(resultFile, result)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNoResult
	}
	if err != nil {
		return nil, err
	}
	if partID(result.Part) != d.id() || result.Cause == pb.EndCause_END_CAUSE_UNSPECIFIED {
		return nil, fmt.Errorf("%s: %w: it is no result of this part", d.path(resultFile), ErrDamaged)
	}
	return result, nil
}

// conclude writes the result and then deletes what the job left: so the result
// is known however long that takes, and what it is known from is not deleted
// before. On a disk without any room it is the other way round. The first
// error is that of writing.
func (d directory) conclude(result *pb.PartEnded, host *os.File, written func()) (err, cleanErr error) {
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
func (d directory) writeResult(result *pb.PartEnded) error {
	data, err := encodeRecord(result)
	if err == nil {
		err = d.overwrite(resultDraft, data)
	}
	if err == nil {
		err = os.Rename(d.path(resultDraft), d.path(resultFile))
	}
	if err == nil {
		err = syncDir(string(d))
	}
	if err != nil {
		return fmt.Errorf("write the part's result: %w", err)
	}
	return nil
}

// writeFile makes a file with its contents on the disk.
func (d directory) writeFile(name string, data []byte) error {
	if err := d.overwrite(name, data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// overwrite writes a file from its start, cuts off what is left of its former
// contents, and brings it to the disk. What it took there it keeps meanwhile.
func (d directory) overwrite(name string, data []byte) error {
	f, err := os.OpenFile(d.path(name), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
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

// readRegular reads a file that may have been replaced by anything: it follows
// no link, opens regular files only and reads at most limit bytes.
func readRegular(path string, limit int64) ([]byte, error) {
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

// check refuses what cannot be a part's directory as Launch made it. Nothing
// in it is believed then, and no link is followed.
func (d directory) check() error {
	var stat unix.Stat_t
	if err := unix.Lstat(string(d), &stat); err != nil {
		return &os.PathError{Op: "look at", Path: string(d), Err: err}
	}
	why := ""
	switch {
	case stat.Mode&unix.S_IFMT == unix.S_IFLNK:
		why = "it is a symbolic link"
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		why = "it is not a directory"
	case stat.Uid != uint32(os.Geteuid()):
		why = fmt.Sprintf("it belongs to user %d", stat.Uid)
	case stat.Mode&0o022 != 0:
		why = fmt.Sprintf("others may write to it (mode %04o)", stat.Mode&0o7777)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrForeign, why)
}

// holdsPart says whether one of the files is there that only a part's
// directory has, or nothing at all.
func (d directory) holdsPart() bool {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return false
	}
	for _, entry := range entries {
		if kept[entry.Name()] {
			return true
		}
	}
	return len(entries) == 0
}

// gone is the directory's name while the last of it is being deleted. Since a
// part gets it in one step, no part is ever half deleted.
func (d directory) gone() string {
	return filepath.Join(filepath.Dir(string(d)), gonePrefix+d.id())
}
