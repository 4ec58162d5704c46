package checkpoint

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// writePages writes a file as CRIU does.
func writePages(dir string, number int, text string) error {
	file, err := os.OpenFile(filepath.Join(dir, PagesFile(number)), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// TestPipedPages: what is written into one file after the other is taken in that order,
// each to its end, also an empty one; no file of it is left.
func TestPipedPages(t *testing.T) {
	for _, texts := range [][]string{{}, {"one"}, {"one", "", strings.Repeat("long", 1<<20), "four"}} {
		dir := t.TempDir()
		var took []string
		p, err := newPipedPages(dir, func(name string, pipe *os.File) error {
			data, err := io.ReadAll(pipe)
			if want := PagesFile(len(took) + 1); name != want {
				t.Errorf("took %s, not %s", name, want)
			}
			took = append(took, string(data))
			return err
		})
		must(t, err)
		for i, text := range texts {
			must(t, writePages(dir, i+1, text))
		}
		must(t, p.end())
		if strings.Join(took, "|") != strings.Join(texts, "|") || len(took) != len(texts) {
			t.Errorf("took %d files, and not %d, or others", len(took), len(texts))
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left are %v, %v", left, err)
		}
	}
}

// TestPagesNotTaken: who does not take what is written makes the writer fail, who is
// never held up, and says why.
func TestPagesNotTaken(t *testing.T) {
	dir := t.TempDir()
	full := errors.New("the store is full")
	p, err := newPipedPages(dir, func(_ string, pipe *os.File) error {
		_, err := io.ReadFull(pipe, make([]byte, 1000))
		return errors.Join(full, err)
	})
	must(t, err)
	written := make(chan error, 1)
	go func() { written <- writePages(dir, 1, strings.Repeat("x", 8<<20)) }()
	select {
	case err := <-written:
		if !errors.Is(err, unix.EPIPE) {
			t.Errorf("written: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the writer is held up")
	}
	if err := p.end(); !errors.Is(err, full) {
		t.Errorf("it ended with %v", err)
	}
}
