package checkpoint

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/pstree"
	"google.golang.org/protobuf/proto"
)

// writeImage writes one of CRIU's files.
func writeImage(t *testing.T, path string, entries ...proto.Message) {
	t.Helper()
	data := []byte("12345678")
	for _, entry := range entries {
		text, err := proto.Marshal(entry)
		if err != nil {
			t.Fatal(err)
		}
		data = append(binary.LittleEndian.AppendUint32(data, uint32(len(text))), text...)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func entriesOf[T any, P entry[T]](t *testing.T, path string) []P {
	t.Helper()
	entries, err := readEntries[T, P](path)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// FuzzEntries: a file is whole and what it says is all there, byte by byte, or it
// is refused.
func FuzzEntries(f *testing.F) {
	f.Add([]byte("12345678"))
	f.Add([]byte("12345678\x00\x00\x00\x00"))
	f.Add([]byte("12345678\x02\x00\x00\x00\x08\x07"))
	f.Add([]byte("12345678\xff\xff\xff\xff\x08"))
	path := filepath.Join(f.TempDir(), treeImage)
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		magic, texts, err := splitEntries(path)
		if err != nil {
			return
		}
		whole := bytes.Clone(magic)
		for _, text := range texts {
			whole = append(binary.LittleEndian.AppendUint32(whole, uint32(len(text))), text...)
		}
		if !bytes.Equal(whole, data) {
			t.Errorf("%q became %q", data, whole)
		}
		entries, err := readEntries[pstree.PstreeEntry](path)
		if err == nil && len(entries) != len(texts) {
			t.Errorf("%d entries of %d", len(entries), len(texts))
		}
	})
}
