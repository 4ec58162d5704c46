package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"
)

// One of CRIU's files begins with two words that name the kind of its entries. Before
// each entry is its size, a word. Files that hold more than entries (pages, what pipes
// hold) are not read here.
const (
	magicSize = 8
	wordSize  = 4
)

// entry is the type of a file's entries: P is *T.
type entry[T any] interface {
	*T
	proto.Message
}

// readEntries answers the entries of one of CRIU's files, all of one kind. A file
// that is not there has none.
func readEntries[T any, P entry[T]](path string) ([]P, error) {
	_, texts, err := splitEntries(path)
	if err != nil {
		return nil, err
	}
	entries := make([]P, len(texts))
	for i, text := range texts {
		if entries[i], err = decodeEntry[T, P](path, text); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// changeEntries changes entries of one of CRIU's files; change says for each
// whether it did. All others stay the same, byte by byte.
func changeEntries[T any, P entry[T]](path string, change func(P) bool) error {
	magic, texts, err := splitEntries(path)
	if err != nil {
		return err
	}
	changed := false
	for i, text := range texts {
		e, err := decodeEntry[T, P](path, text)
		if err != nil {
			return err
		}
		if change(e) {
			changed = true
			if texts[i], err = proto.Marshal(e); err != nil {
				return fmt.Errorf("write the image's %s: %w", filepath.Base(path), err)
			}
		}
	}
	if !changed {
		return nil
	}
	return writeEntries(path, magic, texts)
}

// dropEntries removes entries from one of CRIU's files; drop says which.
func dropEntries[T any, P entry[T]](path string, drop func(P) bool) error {
	magic, texts, err := splitEntries(path)
	if err != nil {
		return err
	}
	kept := texts[:0:0]
	for _, text := range texts {
		e, err := decodeEntry[T, P](path, text)
		if err != nil {
			return err
		}
		if !drop(e) {
			kept = append(kept, text)
		}
	}
	if len(kept) == len(texts) {
		return nil
	}
	return writeEntries(path, magic, kept)
}

// writeEntries is the reverse of splitEntries.
func writeEntries(path string, magic []byte, texts [][]byte) error {
	out := magic
	for _, text := range texts {
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(text))), text...)
	}
	return os.WriteFile(path, out, 0o600)
}

func decodeEntry[T any, P entry[T]](path string, text []byte) (P, error) {
	e := P(new(T))
	if err := proto.Unmarshal(text, e); err != nil {
		return nil, fmt.Errorf("read the image's %s: %w", filepath.Base(path), err)
	}
	return e, nil
}

// splitEntries answers the beginning of one of CRIU's files, and its entries as
// they are encoded. A file that ends in the middle of an entry is an error.
func splitEntries(path string) (magic []byte, texts [][]byte, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the image: %w", err)
	}
	broken := fmt.Errorf("read the image's %s: it is not whole", filepath.Base(path))
	if len(data) < magicSize {
		return nil, nil, broken
	}
	magic, rest := data[:magicSize:magicSize], data[magicSize:]
	for len(rest) > 0 {
		if len(rest) < wordSize {
			return nil, nil, broken
		}
		size := int(binary.LittleEndian.Uint32(rest))
		if rest = rest[wordSize:]; size > len(rest) {
			return nil, nil, broken
		}
		texts, rest = append(texts, rest[:size]), rest[size:]
	}
	return magic, texts, nil
}
