package roots

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/oci/ref"
)

// TestLease: an image that a node has said to be there is there when its job starts, though
// others came that have no room beside it; they wait until the lease ends.
func TestLease(t *testing.T) {
	s, c, u := newSite(t), newCacheOf(t, 3<<20), person(t, 1000)
	image := func(name, letter string, bytes int) ref.Ref {
		return s.push(t, name, imageOf(t, layerOf(t, tarOf(t, entry{name: "a", content: strings.Repeat(letter, bytes)}))))
	}
	first, second := image("lab/a:1", "a", 1<<20), image("lab/b:1", "b", 5<<19)
	root, err := pullRoot(t, c, u, first)
	must(t, err)
	must(t, c.Lease(root))
	root.Close()

	// It is tried while the lease lasts: each try finds no room.
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	_, err = c.Root(ctx, u, second, func(string) {
		if tries++; tries > 1 {
			cancel()
		}
	})
	cancel()
	if err == nil {
		t.Fatal("another image has taken the room")
	}
	if _, err := os.Stat(root.Layers[0]); err != nil {
		t.Fatalf("it is gone: %v", err)
	}
	asked := s.blobs
	if root, err = pullRoot(t, c, u, first); err != nil || s.blobs != asked {
		t.Fatalf("it came again: %v", err)
	}
	root.Close()
	if left, _ := os.ReadDir(c.path(unpackingDir)); len(left) > 0 {
		t.Errorf("%v is left", left)
	}

	// It ends.
	must(t, c.change(layerName(root), func(r *record) { r.Until = time.Now().UnixMilli() }))
	if _, err := pullRoot(t, c, u, second); err != nil {
		t.Error(err)
	}
}

// TestLeaseBound: leases leave half of the cache to others, those that end first give way,
// and a person removes an image whatever it has.
func TestLeaseBound(t *testing.T) {
	s, c, u := newSite(t), newCacheOf(t, 6<<20), person(t, 1000)
	pull := func(letter string, lease time.Duration) *Root {
		root, err := pullRoot(t, c, u, s.push(t, "lab/"+letter+":1", imageOf(t, layerOf(t, tarOf(t, entry{name: "a", content: strings.Repeat(letter, 5<<18)})))))
		must(t, err)
		if lease > 0 {
			must(t, c.lease(root, time.Now().Add(lease)))
		}
		root.Close()
		return root
	}
	later, sooner := pull("a", 10*time.Minute), pull("b", 5*time.Minute)
	third := pull("c", 0)
	fourth := pull("d", 0) // for which c makes room
	if !there(later) || !there(sooner) || there(third) || !there(fourth) {
		t.Fatalf("%t %t %t %t", there(later), there(sooner), there(third), there(fourth))
	}
	must(t, c.change(layerName(fourth), func(r *record) { r.Until = time.Now().Add(time.Minute).UnixMilli() }))
	pull("e", 0)
	if !there(later) || !there(sooner) || there(fourth) {
		t.Errorf("%t %t %t", there(later), there(sooner), there(fourth))
	}
	if _, err := c.Remove(later.Digest); err != nil || there(later) {
		t.Errorf("remove: %v", err)
	}
	clock := Layer{until: time.Now().Add(time.Hour).UnixMilli()}
	if clock.isLeased(time.Now()) {
		t.Error("a lease of an hour, of a clock that was wrong, counts")
	}
}

func there(root *Root) bool {
	_, err := os.Stat(root.Layers[0])
	return err == nil
}

func layerName(root *Root) string { return filepath.Base(filepath.Dir(root.Layers[0])) }
