package output

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

func TestMain(m *testing.M) {
	look = time.Millisecond
	os.Exit(m.Run())
}

// heard is what a sink got: data, and in brackets where it comes from.
type heard struct {
	mu   sync.Mutex
	text strings.Builder
}

func (h *heard) From(offset uint64, another, renamed bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintf(&h.text, "[%d", offset)
	if another {
		h.text.WriteString(" another")
	}
	if renamed {
		h.text.WriteString(" renamed")
	}
	h.text.WriteString("]")
	return nil
}

func (h *heard) Data(data []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text.Write(data)
	return nil
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

func me() userpath.Identity {
	return userpath.Identity{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
}

// file is one to which a test writes as a job does.
func file(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func write(t *testing.T, f *os.File, text string) {
	t.Helper()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func needsRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: reads as other users")
	}
}

// TestWhole: a file that is not followed is sent as it is, from where the reader was, or
// its last lines.
func TestWhole(t *testing.T) {
	needsRoot(t)
	path := filepath.Join(t.TempDir(), "out")
	write(t, file(t, path), "one\ntwo\nthree")
	lines := func(n uint32) *uint32 { return &n }
	for want, r := range map[string]Request{
		"[0]one\ntwo\nthree":         {},
		"[8]three":                   {Lines: lines(1)},
		"[4]two\nthree":              {Lines: lines(2)},
		"[0]one\ntwo\nthree ":        {Lines: lines(3)},
		"[0]one\ntwo\nthree  ":       {Lines: lines(4_000_000_000)},
		"[13]":                       {Lines: lines(0)},
		"[5]wo\nthree":               {Had: 5, Last: []byte("\nt")},
		"[5]wo\nthree ":              {Had: 5},
		"[13] ":                      {Had: 13, Last: []byte("three")},
		"[0 another]one\ntwo\nthree": {Had: 5, Last: []byte("\nx")},
		// It was longer, or is another one.
		"[0 another]one\ntwo\nthree ": {Had: 14, Last: []byte("three\n")},
	} {
		var got heard
		r.User, r.Path = me(), path
		if err := Send(context.Background(), r, &got); err != nil || got.String() != strings.TrimRight(want, " ") {
			t.Errorf("%+v: %q, %v, want %q", r, got.String(), err, want)
		}
	}
}

// TestLongLines: the last lines are found across blocks.
func TestLongLines(t *testing.T) {
	needsRoot(t)
	path := filepath.Join(t.TempDir(), "out")
	long := strings.Repeat("x", 3*block/2) + "\n"
	write(t, file(t, path), strings.Repeat(long, 3))
	two := uint32(2)
	var got heard
	if err := Send(context.Background(), Request{User: me(), Path: path, Lines: &two}, &got); err != nil || got.String() != fmt.Sprintf("[%d]", len(long))+long+long {
		t.Errorf("%d bytes, %v", len(got.String()), err)
	}
}

// TestFollow: what a job writes comes until it is over: through a truncation, and after its
// file was renamed from both.
func TestFollow(t *testing.T) {
	needsRoot(t)
	path := filepath.Join(t.TempDir(), "out")
	job := file(t, path)
	write(t, job, "a")
	var got heard
	over, sent := make(chan struct{}), make(chan error, 1)
	writes := func() bool {
		select {
		case <-over:
			return false
		default:
			return true
		}
	}
	go func() { sent <- Send(context.Background(), Request{User: me(), Path: path, Writes: writes}, &got) }()
	hears := func(want string) {
		t.Helper()
		prototest.Eventually(t, fmt.Sprintf("%q is heard", want), func() bool { return got.String() == want })
	}
	hears("[0]a")
	write(t, job, "b")
	hears("[0]ab")
	if err := job.Truncate(0); err != nil {
		t.Fatal(err)
	}
	hears("[0]ab[0 another]")
	write(t, job, "c")
	hears("[0]ab[0 another]c")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write(t, job, "d")
	hears("[0]ab[0 another]cd")
	write(t, file(t, path), "e")
	hears("[0]ab[0 another]cd[0 another]e")
	write(t, job, "f")
	hears("[0]ab[0 another]cd[0 another]e[2 renamed]f")
	write(t, file(t, path), "g")
	hears("[0]ab[0 another]cd[0 another]e[2 renamed]f[1]g")
	write(t, job, "h")
	close(over)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	hears("[0]ab[0 another]cd[0 another]e[2 renamed]f[1]g[3 renamed]h")
}

// TestFollowLeft: who stops listening ends it.
func TestFollowLeft(t *testing.T) {
	needsRoot(t)
	path := filepath.Join(t.TempDir(), "out")
	write(t, file(t, path), "a")
	ctx, cancel := context.WithCancel(context.Background())
	var got heard
	sent := make(chan error, 1)
	go func() {
		sent <- Send(ctx, Request{User: me(), Path: path, Writes: func() bool { return true }}, &got)
	}()
	prototest.Eventually(t, "data", func() bool { return got.String() == "[0]a" })
	cancel()
	if err := prototest.Receive(t, "the end", sent); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestRefused: a job's output is read as its user, from a file of that user.
func TestRefused(t *testing.T) {
	needsRoot(t)
	dir, err := os.MkdirTemp("", "gleaner-output-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ann := userpath.Identity{UID: 4242, GID: 4242}
	for name, mode := range map[string]os.FileMode{"anns": 0o400, "roots": 0o644, "secret": 0o600, "shared": 0o666} {
		write(t, file(t, dir+"/"+name), name)
		if err := os.Chmod(dir+"/"+name, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.Chown(dir+"/anns", 4242, 4242), os.Mkdir(dir+"/dir", 0o777), unix.Mkfifo(dir+"/pipe", 0o666),
		os.Chmod(dir+"/pipe", 0o666), os.Symlink("secret", dir+"/link"), os.Symlink("/proc/self/environ", dir+"/environ"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	hidden := func(place userpath.Place) bool { return strings.HasSuffix(place.Path, "/shared") }
	for path, want := range map[string]error{
		"anns": nil, "roots": userpath.ErrNotOwn, "secret": userpath.ErrNotOwn, "link": userpath.ErrNotOwn, "shared": ErrHidden, "dir": syscall.EISDIR,
		"pipe": userpath.ErrNotAFile, "none": syscall.ENOENT, "environ": userpath.ErrNotAFile,
	} {
		var got heard
		err := Send(context.Background(), Request{User: ann, Path: dir + "/" + path, Hidden: hidden}, &got)
		if !errors.Is(err, want) || (want == nil) != (got.String() == "[0]"+path) {
			t.Errorf("%s: %q, %v, want %v", path, got.String(), err, want)
		}
	}
	var got heard
	if err := Send(context.Background(), Request{User: ann, Path: dir + "/shared"}, &got); err != nil || got.String() != "[0]shared" {
		t.Errorf("a file that everybody may write to: %q, %v", got.String(), err)
	}
}
