package roots

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// settled waits until it is known of all layers what is in them.
func settled(t *testing.T, c *Cache) { t.Helper(); c.settling.Wait() }

// TestHoldings: the cache knows each image by the name that each user gave it, and removes it
// with what no other image has, unless it is used.
func TestHoldings(t *testing.T) {
	s, c, alice, bob := newSite(t), newCache(t), person(t, 1000), person(t, 1001)
	base := layerOf(t, tarOf(t, entry{name: "base", content: strings.Repeat("b", 100_000)}))
	one := s.push(t, "lab/one:1", imageOf(t, base, layerOf(t, tarOf(t, entry{name: "one", content: "1"}))))
	two := s.push(t, "lab/two:1", imageOf(t, base, layerOf(t, tarOf(t, entry{name: "two", content: "2"}))))
	used, err := pullRoot(t, c, alice, one)
	must(t, err)
	for _, u := range []*User{alice, bob} {
		root, err := pullRoot(t, c, u, two)
		must(t, err)
		root.Close()
	}
	settled(t, c)
	all, err := c.List()
	must(t, err)
	if len(all) != 2 {
		t.Fatalf("%d images", len(all))
	}
	h, err := c.Find(two.Digest)
	must(t, err)
	if h.Names[1000] != two.String() || h.Names[1001] != two.String() || h.Layers != 2 || h.There != 2 || h.Bytes < 100_000 || h.Used.IsZero() {
		t.Errorf("%+v", h)
	}
	if _, err := c.Remove(one.Digest); !errors.Is(err, ErrInUse) {
		t.Errorf("an image in use: %v", err)
	}
	if _, err := os.Stat(filepath.Join(used.Layers[1], "one")); err != nil {
		t.Errorf("of an image in use: %v", err)
	}
	if freed, err := c.Remove(two.Digest); err != nil || freed == 0 || freed > 50_000 {
		t.Errorf("%d bytes, %v", freed, err)
	}
	if _, err := c.Find(two.Digest); !errors.Is(err, ErrNone) {
		t.Errorf("what was removed: %v", err)
	}
	if _, err := os.Stat(filepath.Join(used.Layers[0], "base")); err != nil {
		t.Errorf("a layer of another image was removed: %v", err)
	}
	used.Close()
	_, err = c.Remove(one.Digest)
	must(t, err)
	clean(t, c)
	if left, _ := c.Used(); left != 0 {
		t.Errorf("%d bytes are left", left)
	}
	if _, err := c.Remove(one.Digest); !errors.Is(err, ErrNone) {
		t.Errorf("twice: %v", err)
	}
	if _, err := pullRoot(t, c, alice, one); err != nil {
		t.Errorf("after it was removed: %v", err)
	}
}

// TestVerifyLayers: each change of what was unpacked is noticed.
func TestVerifyLayers(t *testing.T) {
	s, c, u := newSite(t), newCache(t), person(t, 1000)
	r := s.push(t, "lab/sound:1", imageOf(t, layerOf(t, tarOf(t, entry{name: "d/"}, entry{name: "d/a", content: "aaaa"}, entry{name: "d/l", kind: '2', link: "a"}))))
	root, err := pullRoot(t, c, u, r)
	must(t, err)
	settled(t, c)
	must(t, c.Verify(context.Background(), r.Digest))
	file := filepath.Join(root.Layers[0], "d", "a")
	info, err := os.Stat(file)
	must(t, err)
	for name, change := range map[string]func() error{
		"content": func() error { return os.WriteFile(file, []byte("aaab"), 0) },
		"mode":    func() error { return unix.Chmod(file, 0o4755) },
		"owner":   func() error { return os.Chown(file, 0, 0) },
		"more":    func() error { return os.Mkdir(file+"2", 0o755) },
		"less":    func() error { return os.Remove(filepath.Join(root.Layers[0], "d", "l")) },
	} {
		must(t, change())
		if err := c.Verify(context.Background(), r.Digest); !errors.Is(err, ErrDamaged) {
			t.Errorf("another %s: %v", name, err)
		}
		_ = os.Remove(file + "2")
		_ = os.Symlink("a", filepath.Join(root.Layers[0], "d", "l"))
		must(t, os.Lchown(filepath.Join(root.Layers[0], "d", "l"), firstID, firstID))
		must(t, os.WriteFile(file, []byte("aaaa"), 0))
		must(t, os.Chown(file, firstID, firstID))
		must(t, os.Chmod(file, info.Mode()))
		must(t, c.Verify(context.Background(), r.Digest))
	}
	must(t, os.WriteFile(c.imagePath(r.Digest), []byte(`{"documents":["e30="]}`), 0o600))
	if err := c.Verify(context.Background(), r.Digest); !errors.Is(err, ErrDamaged) {
		t.Errorf("other documents: %v", err)
	}
	root.Close()
	if _, err := c.Remove(r.Digest); err != nil {
		t.Errorf("a damaged image cannot be removed: %v", err)
	}
}

// TestConfined: what fetches and unpacks is in a group of its own, with bounds, which goes
// with the last of it.
func TestConfined(t *testing.T) {
	s, c, u := newSite(t), newCache(t), person(t, 1000)
	c.Group = fmt.Sprintf("/gleaner-roots-test-%d", os.Getpid())
	r := s.push(t, "lab/slow:1", imageOf(t, layerOf(t, tarOf(t, entry{name: "a", content: "a"}))))
	reached, done := make(chan bool, 8), make(chan bool)
	s.between = slowBlob(reached, done)
	pulled := make(chan error, 1)
	go func() { _, err := pullRoot(t, c, u, r); pulled <- err }()
	await(t, reached)
	var pids []int
	for end := time.Now().Add(prototest.Patience); len(pids) < 2 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		pids, _ = c.group().Procs() // one fetches, one unpacks
	}
	if len(pids) != 2 {
		t.Errorf("in the group are %v", pids)
	}
	close(done)
	must(t, <-pulled)
	settled(t, c)
	if _, err := c.group().Procs(); err == nil {
		// The kernel may keep a group busy for a moment after its last process.
		for end := time.Now().Add(prototest.Patience); err == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
			c.release()
			_, err = c.group().Procs()
		}
		if err == nil {
			t.Error("the group is left")
		}
	}
}
