package store

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// A pack is a file of chunks, one behind the other, as they are stored:
//
//	magic        16 bytes
//	chunks       as stored
//	index        for each chunk: BLAKE3 (32), size (4), stored size (4)
//	footer       SHA-256 of the rest of the footer and the index (32),
//	             chunks (4), target (4), bytes before the index (8)
//
// Numbers are little-endian. A chunk whose stored size is its size is stored
// as it is, any other as a zstd frame.
const (
	packMagic   = "gleaner pack 1\r\n"
	entryBytes  = sha256.Size + 8
	footerBytes = sha256.Size + 16
	packSuffix  = ".pack"
	// packChunks times the target of the chunks is about what a pack has.
	packChunks = 1024
	// maxPackEntries bounds the memory for a pack's index: with every chunk as
	// short as a unit and compressed to next to nothing it is ended, too.
	maxPackEntries = 64 * packChunks
)

// entry is a chunk in a pack.
type entry struct {
	digest checkpoint.Digest
	size   uint32
	stored uint32
}

// packWriter writes a pack.
type packWriter struct {
	file    newFile
	name    string
	target  int
	bytes   int64
	pushed  int64
	entries []entry
}

// pushEvery is how much is written before the disk is told to begin with it.
const pushEvery = 8 << 20

func newPackWriter(d disk, name string, target int) (*packWriter, error) {
	file, err := d.Create(name)
	if err != nil {
		return nil, err
	}
	w := &packWriter{file: file, name: name, target: target}
	if err := w.write([]byte(packMagic)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return w, nil
}

func (w *packWriter) write(data []byte) error {
	n, err := w.file.Write(data)
	w.bytes += int64(n)
	if err == nil && w.bytes-w.pushed >= pushEvery {
		w.pushed = w.bytes
		return w.file.Push()
	}
	return err
}

// add writes chunks, which lie one behind the other in data.
func (w *packWriter) add(data []byte, entries []entry) error {
	w.entries = append(w.entries, entries...)
	return w.write(data)
}

func (w *packWriter) full() bool {
	return w.bytes >= int64(packChunks)*int64(w.target) || len(w.entries) >= maxPackEntries
}

// finish writes the index and makes the pack durable.
func (w *packWriter) finish() error {
	begin := w.bytes
	err := w.write(encodeIndex(w.entries, w.target, begin))
	if err == nil {
		err = w.file.Sync()
	}
	return errors.Join(err, w.file.Close())
}

func encodeIndex(entries []entry, target int, begin int64) []byte {
	data := make([]byte, 0, len(entries)*entryBytes+footerBytes)
	for i := range entries {
		e := &entries[i]
		data = append(data, e.digest[:]...)
		data = binary.LittleEndian.AppendUint32(data, e.size)
		data = binary.LittleEndian.AppendUint32(data, e.stored)
	}
	tail := binary.LittleEndian.AppendUint32(nil, uint32(len(entries)))
	tail = binary.LittleEndian.AppendUint32(tail, uint32(target))
	tail = binary.LittleEndian.AppendUint64(tail, uint64(begin))
	sum := sha256.New()
	sum.Write(tail)
	sum.Write(data)
	return append(sum.Sum(data), tail...)
}

// pack is a whole pack that is read.
type pack struct {
	file    oldFile
	name    string
	bytes   int64 // with index and footer
	target  int
	entries []entry
}

// errPack says what is wrong with a pack.
type errPack struct{ what string }

func (e errPack) Error() string { return e.what }

// openPack reads a pack's index. An errPack means that it is damaged.
func openPack(d disk, name string) (_ *pack, err error) {
	file, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	if size < int64(len(packMagic)+footerBytes) {
		return nil, errPack{fmt.Sprintf("it has %d bytes, and the smallest pack has %d", size, len(packMagic)+footerBytes)}
	}
	footer := make([]byte, footerBytes)
	if _, err := file.ReadAt(footer, size-footerBytes); err != nil {
		return nil, err
	}
	tail := footer[sha256.Size:]
	count := int64(binary.LittleEndian.Uint32(tail))
	begin := int64(binary.LittleEndian.Uint64(tail[8:]))
	if begin < int64(len(packMagic)) || begin > size || size-footerBytes-begin != count*entryBytes {
		return nil, errPack{"it is cut off, or something was added to it"}
	}
	index := make([]byte, count*entryBytes)
	if _, err := file.ReadAt(index, begin); err != nil {
		return nil, err
	}
	sum := sha256.New()
	sum.Write(tail)
	sum.Write(index)
	if [sha256.Size]byte(sum.Sum(nil)) != [sha256.Size]byte(footer) {
		return nil, errPack{"its index was changed"}
	}
	p := &pack{file: file, name: name, bytes: size, target: int(binary.LittleEndian.Uint32(tail[4:])), entries: make([]entry, count)}
	stored := int64(0)
	for i := range p.entries {
		raw := index[i*entryBytes:]
		e := entry{size: binary.LittleEndian.Uint32(raw[sha256.Size:]), stored: binary.LittleEndian.Uint32(raw[sha256.Size+4:])}
		copy(e.digest[:], raw)
		stored += int64(e.stored)
		p.entries[i] = e
	}
	if stored != begin-int64(len(packMagic)) {
		return nil, errPack{"its index is not that of its chunks"}
	}
	return p, nil
}
