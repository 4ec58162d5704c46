package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"
)

// magicSize is that of the two words that one of CRIU's files begins with; each
// entry after them has its size, a word, before it.
const (
	magicSize = 8
	wordSize  = 4
)

// rewriteImage changes entries of one of CRIU's files; change says of each
// whether it did. All others stay byte by byte as they are. A file that is not
// there has no entries.
func rewriteImage(path string, kind func() proto.Message, change func(proto.Message) bool) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	broken := fmt.Errorf("read the image's %s: it is not whole", filepath.Base(path))
	if len(data) < magicSize {
		return broken
	}
	out, rest, changed := append([]byte(nil), data[:magicSize]...), data[magicSize:], false
	for len(rest) > 0 {
		if len(rest) < wordSize {
			return broken
		}
		size := int(binary.LittleEndian.Uint32(rest))
		if size > len(rest)-wordSize {
			return broken
		}
		text := rest[wordSize : wordSize+size]
		rest = rest[wordSize+size:]
		entry := kind()
		if err := proto.Unmarshal(text, entry); err != nil {
			return fmt.Errorf("read the image's %s: %w", filepath.Base(path), err)
		}
		if change(entry) {
			changed = true
			if text, err = proto.Marshal(entry); err != nil {
				return fmt.Errorf("write the image's %s: %w", filepath.Base(path), err)
			}
		}
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(text))), text...)
	}
	if !changed {
		return nil
	}
	return os.WriteFile(path, out, 0o600)
}
