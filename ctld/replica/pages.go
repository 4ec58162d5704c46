package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// bbolt maps its file and follows its contents without a check: a damaged page
// makes it panic in a goroutine of its own, run off the map or loop forever. So
// the file is read here first, with plain reads, and every page number, count,
// offset and key that bbolt will follow is checked. The format is that of
// bbolt's version 2, little-endian.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	metaBytes   = 64 // behind the header of pages 0 and 1
	pageHeader  = 16
	element     = 16 // of a page's table, in branches and leaves
	pageBranch  = 0x01
	pageLeaf    = 0x02
	noFreelist  = ^uint64(0)
	maxDepth    = 32 // of a tree: a page has two children at least
	maxPageSize = 1 << 16
)

// boltMeta is what a meta page says.
type boltMeta struct {
	pageSize, root, freelist, pages, txid uint64
	idle                                  bool // the last transaction changed nothing
}

// readMeta reads one of the two meta pages, page 0 or 1.
func readMeta(file io.ReaderAt, offset int64) (boltMeta, error) {
	var raw [metaBytes]byte
	if _, err := file.ReadAt(raw[:], offset+pageHeader); err != nil {
		return boltMeta{}, err
	}
	sum := fnv.New64a()
	sum.Write(raw[:metaBytes-8])
	word := binary.LittleEndian
	if word.Uint32(raw[0:]) != boltMagic || word.Uint32(raw[4:]) != boltVersion || word.Uint64(raw[metaBytes-8:]) != sum.Sum64() {
		return boltMeta{}, fmt.Errorf("meta page at byte %d: %w", offset, errSum)
	}
	return boltMeta{
		pageSize: uint64(word.Uint32(raw[8:])), root: word.Uint64(raw[16:]),
		freelist: word.Uint64(raw[32:]), pages: word.Uint64(raw[40:]), txid: word.Uint64(raw[48:]),
	}, nil
}

// readMetas returns the newer one. Both must be whole: with one of them lost,
// bbolt silently continues from the last transaction but one.
func readMetas(file io.ReaderAt, size int64) (boltMeta, error) {
	first, err := readMeta(file, 0)
	if err != nil {
		return boltMeta{}, err
	}
	if first.pageSize < 1<<9 || first.pageSize > maxPageSize {
		return boltMeta{}, fmt.Errorf("pages of %d bytes", first.pageSize)
	}
	second, err := readMeta(file, int64(first.pageSize))
	if err != nil {
		return boltMeta{}, err
	}
	newer, older := first, second
	if older.txid > newer.txid {
		newer, older = older, newer
	}
	switch {
	case newer.txid != older.txid+1 || newer.pageSize != older.pageSize:
		return boltMeta{}, fmt.Errorf("the meta pages are of transactions %d and %d", first.txid, second.txid)
	case newer.pages < 4 || newer.pages > uint64(size)/newer.pageSize:
		return boltMeta{}, fmt.Errorf("it has %d bytes, and needs %d pages of %d: it was cut off", size, newer.pages, newer.pageSize)
	case newer.freelist != noFreelist:
		return boltMeta{}, errors.New("it has a list of free pages, which gctld never writes")
	}
	// bbolt never writes over a page that the transaction before used.
	newer.idle = newer.root == older.root
	return newer, nil
}

// boltFile walks the trees of a file.
type boltFile struct {
	file io.ReaderAt
	meta boltMeta
	seen []bool // pages that belong to a page already read
}

// visit is called for each key of a tree, in order. The bytes are good until
// it returns.
type visit func(key, value []byte, isBucket bool) error

// page reads a page whole.
func (b *boltFile) page(id uint64) ([]byte, error) {
	if id < 2 || id >= b.meta.pages {
		return nil, fmt.Errorf("page %d of %d", id, b.meta.pages)
	}
	var header [pageHeader]byte
	offset := int64(id * b.meta.pageSize)
	if _, err := b.file.ReadAt(header[:], offset); err != nil {
		return nil, err
	}
	more := uint64(binary.LittleEndian.Uint32(header[12:]))
	if binary.LittleEndian.Uint64(header[:]) != id || more >= b.meta.pages-id {
		return nil, fmt.Errorf("page %d has a wrong header", id)
	}
	for i := id; i <= id+more; i++ {
		if b.seen[i] {
			return nil, fmt.Errorf("page %d is used twice", i)
		}
		b.seen[i] = true
	}
	text := make([]byte, (1+more)*b.meta.pageSize)
	if _, err := b.file.ReadAt(text, offset); err != nil {
		return nil, err
	}
	return text, nil
}

// walk visits the tree below a page, whose keys lie from low on and below
// high; nil is no bound.
func (b *boltFile) walk(id uint64, low, high []byte, depth int, each visit) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d lies too deep", id)
	}
	text, err := b.page(id)
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint16(text[8:]) == pageLeaf {
		err = walkLeaf(text, low, high, each)
	} else {
		err = b.walkBranch(text, low, high, depth, each)
	}
	if err != nil && depth == 0 {
		return err
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

func (b *boltFile) walkBranch(text, low, high []byte, depth int, each visit) error {
	count := int(binary.LittleEndian.Uint16(text[10:]))
	if binary.LittleEndian.Uint16(text[8:]) != pageBranch || count == 0 || pageHeader+count*element > len(text) {
		return errors.New("neither a branch nor a leaf")
	}
	keys, children := make([][]byte, count+1), make([]uint64, count)
	keys[count] = high
	for i := range count {
		at := pageHeader + i*element
		start := uint64(at) + uint64(binary.LittleEndian.Uint32(text[at:]))
		length := uint64(binary.LittleEndian.Uint32(text[at+4:]))
		if start < uint64(pageHeader+count*element) || start+length > uint64(len(text)) {
			return fmt.Errorf("key %d lies outside", i)
		}
		keys[i], children[i] = text[start:start+length], binary.LittleEndian.Uint64(text[at+8:])
		if outside(keys[i], low, high) || i > 0 && bytes.Compare(keys[i-1], keys[i]) >= 0 {
			return fmt.Errorf("key %d is out of order", i)
		}
	}
	for i, child := range children {
		if err := b.walk(child, keys[i], keys[i+1], depth+1, each); err != nil {
			return err
		}
	}
	return nil
}

// walkLeaf visits the keys of a leaf, whole pages or the value of a small
// bucket.
func walkLeaf(text, low, high []byte, each visit) error {
	if len(text) < pageHeader || binary.LittleEndian.Uint16(text[8:]) != pageLeaf {
		return errors.New("not a leaf")
	}
	count := int(binary.LittleEndian.Uint16(text[10:]))
	if pageHeader+count*element > len(text) {
		return fmt.Errorf("%d keys in %d bytes", count, len(text))
	}
	var former []byte
	for i := range count {
		at := pageHeader + i*element
		flags := binary.LittleEndian.Uint32(text[at:])
		start := uint64(at) + uint64(binary.LittleEndian.Uint32(text[at+4:]))
		middle := start + uint64(binary.LittleEndian.Uint32(text[at+8:]))
		end := middle + uint64(binary.LittleEndian.Uint32(text[at+12:]))
		if flags > 1 || start < uint64(pageHeader+count*element) || end > uint64(len(text)) {
			return fmt.Errorf("key %d lies outside", i)
		}
		key := text[start:middle]
		if outside(key, low, high) || i > 0 && bytes.Compare(former, key) >= 0 {
			return fmt.Errorf("key %d is out of order", i)
		}
		former = key
		if err := each(key, text[middle:end], flags == 1); err != nil {
			return err
		}
	}
	return nil
}

func outside(key, low, high []byte) bool {
	return bytes.Compare(key, low) < 0 || high != nil && bytes.Compare(key, high) >= 0
}

// walkBucket visits the keys of a bucket, given its header: the page of its
// tree, an unused counter, and, where the page is 0, the leaf itself.
func (b *boltFile) walkBucket(header []byte, each visit) error {
	if len(header) < 16 {
		return errors.New("a bucket without a header")
	}
	if root := binary.LittleEndian.Uint64(header); root != 0 {
		return b.walk(root, nil, nil, 0, each)
	}
	return walkLeaf(header[16:], nil, nil, each)
}
