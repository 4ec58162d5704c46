package filecopy

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// both runs the two ends over a stream, which wrap may break.
func both(t *testing.T, source, target string, options Options, wrap func(net.Conn) io.ReadWriter) (sent, received Summary, err error) {
	t.Helper()
	here, there := net.Pipe()
	done := make(chan error, 1)
	go func() {
		var err error
		sent, err = Send(wrap(here), source, options)
		here.Close()
		done <- err
	}()
	received, err = Receive(there, target, options)
	there.Close()
	return sent, received, errors.Join(err, <-done)
}

func whole(c net.Conn) io.ReadWriter { return c }

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o640); err != nil {
		t.Fatal(err)
	}
}

func noise(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.Read(data)
	return data
}

func same(t *testing.T, a, b string) {
	t.Helper()
	one, err1 := os.ReadFile(a)
	two, err2 := os.ReadFile(b)
	if err := errors.Join(err1, err2); err != nil || !bytes.Equal(one, two) {
		t.Errorf("%s (%d bytes) and %s (%d bytes): %v", a, len(one), b, len(two), err)
	}
}

func TestOneFileAndItsNames(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	source := filepath.Join(from, "a file")
	write(t, source, noise(300_000))
	write(t, filepath.Join(to, "old"), []byte("another"))
	if err := os.Symlink("old", filepath.Join(to, "link")); err != nil {
		t.Fatal(err)
	}
	for target, made := range map[string]string{to: "a file", to + "/": "a file", to + "/new": "new", to + "/old": "old", to + "/link": "old"} {
		sent, received, err := both(t, source, target, Options{}, whole)
		if err != nil || sent.Files != 1 || received.Files != 1 || received.Bytes != 300_000 || sent.Troubles+received.Troubles > 0 {
			t.Errorf("%s: %+v, %+v, %v", target, sent, received, err)
		}
		same(t, source, filepath.Join(to, made))
	}
	if info, err := os.Stat(filepath.Join(to, "new")); err != nil || info.Mode() != 0o640 {
		t.Errorf("mode: %v, %v", info, err)
	}
	for _, c := range []struct{ source, target, why string }{
		{from + "/none", to, "no such file"}, {from, to, "copy it with -r"}, {source, to + "/no/such", "no such file"},
		{source, to + "/new/", "is no directory"}, {source, to + "/gone/", "make it first"}, {"/dev/null", to, "is not a file"},
	} {
		var why []string
		owned := 0 // one end says that it is its own trouble
		sent, _, err := both(t, c.source, c.target, Options{Trouble: func(_, text string, ours bool) {
			if why = append(why, text); ours {
				owned++
			}
		}}, whole)
		if err != nil || owned != 1 || sent.Files != 0 || sent.Troubles != 1 || len(why) == 0 || !strings.Contains(why[0], c.why) {
			t.Errorf("%s to %s: %+v, %q, %v", c.source, c.target, sent, why, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(to, ".gcp-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// breaking breaks the stream after some bytes.
type breaking struct {
	net.Conn
	left int
}

func (b *breaking) Write(data []byte) (int, error) {
	if b.left -= len(data); b.left < 0 {
		b.Conn.Close()
		return 0, io.ErrClosedPipe
	}
	return b.Conn.Write(data)
}

func TestGoesOnWhereItBroke(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	source, target := filepath.Join(from, "f"), filepath.Join(to, "f")
	write(t, source, noise(2_000_000))
	write(t, target, []byte("as it was"))
	if _, _, err := both(t, source, target, Options{}, func(c net.Conn) io.ReadWriter { return &breaking{c, 1_200_000} }); err == nil {
		t.Fatal("the stream did not break")
	}
	if was, err := os.ReadFile(target); err != nil || string(was) != "as it was" {
		t.Errorf("the file before: %.20q, %v", was, err)
	}
	sent, _, err := both(t, source, target, Options{}, whole)
	if err != nil || sent.Sent > 900_000 || sent.Bytes != 2_000_000 {
		t.Errorf("again: %+v, %v", sent, err)
	}
	same(t, source, target)
	if sent, _, err = both(t, source, target, Options{}, whole); err != nil || sent.Sent != 0 || sent.Files != 1 {
		t.Errorf("once more: %+v, %v", sent, err)
	}
	// The same size and other bytes; then what is there of a broken copy is of another file.
	write(t, target, noise(2_000_000))
	if sent, _, err = both(t, source, target, Options{}, whole); err != nil || sent.Sent != 2_000_000 {
		t.Errorf("other bytes: %+v, %v", sent, err)
	}
	same(t, source, target)
	write(t, partOf(target), noise(700_000))
	write(t, source, noise(900_000))
	if sent, _, err = both(t, source, target, Options{}, whole); err != nil || sent.Sent != 900_000 {
		t.Errorf("a part of another: %+v, %v", sent, err)
	}
	same(t, source, target)
}

func TestTree(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for name, data := range map[string][]byte{"t/a": noise(10), "t/b/c": noise(100_000), "t/b/d/e": {}, "t/\xff name\n": noise(5), "t/.hidden": noise(3)} {
		write(t, filepath.Join(from, name), data)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(from, "t/link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(from, "t/b/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	troubles := map[string]string{}
	options := Options{Recursive: true, Umask: 0o077, Trouble: func(path, why string, ours bool) { troubles[path] = why }}
	sent, _, err := both(t, filepath.Join(from, "t"), to, options, whole)
	if err != nil || sent.Files != 5 || sent.Troubles != 2 || troubles["link"] == "" || troubles["b/pipe"] == "" {
		t.Errorf("%+v, %q, %v", sent, troubles, err)
	}
	for _, name := range []string{"t/a", "t/b/c", "t/b/d/e", "t/\xff name\n", "t/.hidden"} {
		same(t, filepath.Join(from, name), filepath.Join(to, name))
	}
	if _, err := os.Lstat(filepath.Join(to, "t/link")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link was made: %v", err)
	}
	// Into a new name, and again: nothing is sent twice.
	for _, want := range []int64{100_018, 0} {
		if sent, _, err = both(t, filepath.Join(from, "t"), filepath.Join(to, "new"), options, whole); want > 0 {
			if err != nil || sent.Sent != want {
				t.Errorf("%+v, %v", sent, err)
			}
		}
	}
}

// A link that lies in the target's tree leads nowhere.
func TestLinksBelowTheTarget(t *testing.T) {
	from, to, outside := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(from, "t/d/f"), noise(10))
	if err := os.MkdirAll(filepath.Join(to, "t"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(to, "t/d")); err != nil {
		t.Fatal(err)
	}
	sent, _, err := both(t, filepath.Join(from, "t"), to, Options{Recursive: true}, whole)
	if err != nil || sent.Troubles == 0 || sent.Files > 0 {
		t.Errorf("%+v, %v", sent, err)
	}
	if there, err := os.ReadDir(outside); err != nil || len(there) > 0 {
		t.Errorf("outside: %v, %v", there, err)
	}
}

// What a sender may not send: it is refused, and nothing is made outside of the target.
func TestHostileSender(t *testing.T) {
	frame := func(kind byte, text string) string {
		return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(text)))) + text
	}
	name := frame(frameName, "n")
	for _, sent := range []string{
		frame(frameName, "../n"), frame(frameName, "a/b"), frame(frameEnd, ""), frame(frameName, "..") + frame(frameEnd, ""),
		name + frame(frameEntry, `{"path":"Li4veA==","directory":true}`), // ../x
		name + frame(frameEntry, `{"path":"L3g=","directory":true}`),     // /x
		name + frame(frameEntry, `{"path":"YS8uLi94"}`),                  // a/../x
		name + frame(frameEntry, `{"path":"eAB5"}`),                      // x NUL y
		name + frame(frameEntry, `{`), name + "E\xff\xff\xff\xff", name + frame(frameData, "x"), name + frame(frameEntry, `{"path":""}`)[:9],
	} {
		to := t.TempDir()
		_, err := Receive(&struct {
			io.Reader
			io.Writer
		}{strings.NewReader(sent), io.Discard}, filepath.Join(to, "in"), Options{Recursive: true})
		if err == nil || !errors.Is(err, ErrMalformed) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v", sent, err)
		}
		if there, err := os.ReadDir(to); err != nil || len(there) > 0 {
			t.Errorf("%q made %v, %v", sent, there, err)
		}
	}
}

// FuzzReceive: whatever comes, nothing is made outside of the target.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("N\x00\x00\x00\x01nE\x00\x00\x00\x18{\"path\":\"\",\"directory\":1}"))
	f.Add([]byte("N\x00\x00\x00\x01nE\x00\x00\x00\x0b{\"path\":\"\"}G\x00\x00\x00\x02{}D\x00\x00\x00\x01xS\x00\x00\x00\x00.\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		top := t.TempDir()
		to := filepath.Join(top, "to")
		if err := os.Mkdir(to, 0o700); err != nil {
			t.Fatal(err)
		}
		_, _ = Receive(&struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(data), io.Discard}, to, Options{Recursive: true})
		if there, err := os.ReadDir(top); err != nil || len(there) != 1 {
			t.Errorf("made %v, %v", there, err)
		}
	})
}
