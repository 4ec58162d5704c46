package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// FuzzVerifyLog writes over a part of a log file, and makes the checksums of
// the meta pages right again. The check neither panics nor runs forever, and
// what it lets through bbolt can read to the end.
func FuzzVerifyLog(f *testing.F) {
	path := filepath.Join(f.TempDir(), logName)
	if err := createLogFile(path); err != nil {
		f.Fatal(err)
	}
	logs, err := openLogFile(path, quiet)
	if err != nil {
		f.Fatal(err)
	}
	for first := uint64(1); first < 400; first += 40 { // pages of several ages
		var entries []*raft.Log
		for index := first; index < first+40; index++ {
			entries = append(entries, &raft.Log{Index: index, Term: 1, Data: []byte(strings.Repeat("x", int(index)))})
		}
		if err := logs.StoreLogs(entries); err != nil {
			f.Fatal(err)
		}
	}
	if err := errors.Join(logs.SetUint64([]byte("CurrentTerm"), 1), logs.Close()); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	whole = whole[:usedBytes(f, path)]
	f.Add(uint32(16), []byte{1})
	f.Add(uint32(4096+16+16), []byte{5})
	for page := range uint32(len(whole) / 4096) {
		f.Add(page*4096+10, []byte{3})
		f.Add(page*4096+24, []byte{7, 0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, offset uint32, over []byte) {
		text := bytes.Clone(whole)
		copy(text[int(offset)%len(text):], over)
		for _, meta := range [][]byte{text[pageHeader:], text[4096+pageHeader:]} {
			sum := fnv.New64a()
			sum.Write(meta[:metaBytes-8])
			binary.LittleEndian.PutUint64(meta[metaBytes-8:], sum.Sum64())
		}
		if _, _, err := verifyPages(bytes.NewReader(text), int64(len(text))); err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), logName)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := verifyLogFile(path, 0); err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		logs, err := openLogFile(path, quiet)
		if err != nil {
			t.Fatal(err)
		}
		s := logs.current()
		for index := s.First; index <= s.Last; index++ {
			if err := logs.GetLog(index, &raft.Log{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := logs.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
