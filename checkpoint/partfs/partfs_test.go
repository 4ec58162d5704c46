package partfs

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// parts is a source in memory.
type parts struct {
	names []string
	data  map[string][]byte

	mu     sync.Mutex
	users  int
	spoilt int64 // reads from there on fail; 0 = none
}

func (p *parts) Parts() []string        { return p.names }
func (p *parts) Size(part string) int64 { return int64(len(p.data[part])) }

func (p *parts) Read(part string, offset, most int64) ([][]byte, func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spoilt > 0 && offset >= p.spoilt {
		return nil, nil, errors.New("spoilt")
	}
	data := p.data[part][offset:]
	data = data[:min(most, int64(len(data)), 300_001)] // not what the kernel asked for
	p.users++
	if len(data) == 0 {
		return nil, func() { p.mu.Lock(); p.users--; p.mu.Unlock() }, nil
	}
	return [][]byte{data[:len(data)/3], data[len(data)/3:]}, func() { p.mu.Lock(); p.users--; p.mu.Unlock() }, nil
}

func noise(n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(n)})
	data := make([]byte, n)
	_, _ = r.Read(data)
	return data
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// show mounts a source and shows its parts in a directory.
func show(t *testing.T, p *parts) (*Mount, string) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs FUSE and root: mounts a file system")
	}
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "fs"), 0o700))
	m, err := New(filepath.Join(dir, "fs"), p, slog.New(slog.DiscardHandler))
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	for _, name := range p.names {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	must(t, m.Show(func(part string) string { return filepath.Join(dir, part) }))
	return m, dir
}

// open opens a file that this process serves itself without waiting for it by epoll: that
// would ask the server in a way in which Go does not let it run.
func open(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// TestShow: a part is read whole, and from any place, with as many bytes as it has; and
// nothing is held when it was read.
func TestShow(t *testing.T) {
	p := &parts{names: []string{"a", "b"}, data: map[string][]byte{"a": noise(5<<20 + 123), "b": noise(17)}}
	m, dir := show(t, p)
	for name, want := range p.data {
		file, err := open(filepath.Join(dir, name))
		must(t, err)
		got, err := io.ReadAll(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: read %d bytes and not %d, or others: %v", name, len(got), len(want), err)
		}
		into := make([]byte, 1<<20)
		for range 20 {
			at := rand.Int64N(int64(len(want)))
			n, err := unix.Preadv(int(file.Fd()), [][]byte{into[:4096], into[8192:]}, at)
			got := append(into[:min(n, 4096):4096], into[8192:8192+max(0, n-4096)]...)
			if err != nil || n == 0 || !bytes.Equal(got, want[at:at+int64(n)]) {
				t.Errorf("%s: read %d other bytes at %d: %v", name, n, at, err)
			}
		}
		must(t, file.Close())
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err == nil {
			t.Error("a part was written to")
		}
	}
	must(t, m.Close())
	if left, err := os.ReadFile(filepath.Join(dir, "a")); len(left) > 0 || err != nil {
		t.Errorf("after the end, %d bytes are shown: %v", len(left), err)
	}
	m.server.Wait()
	if p.users > 0 {
		t.Errorf("%d reads are not done", p.users)
	}
}

// TestSpoilt: what the source does not vouch for is not read.
func TestSpoilt(t *testing.T) {
	p := &parts{names: []string{"a"}, data: map[string][]byte{"a": noise(4 << 20)}, spoilt: 2 << 20}
	_, dir := show(t, p)
	file, err := open(filepath.Join(dir, "a"))
	must(t, err)
	defer file.Close()
	got, err := io.ReadAll(file)
	if !errors.Is(err, unix.EIO) || len(got) >= 3<<20 || !bytes.Equal(got, p.data["a"][:len(got)]) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}
