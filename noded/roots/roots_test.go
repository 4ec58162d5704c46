package roots

import (
	"archive/tar"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRoot: an image's layers are there as its maker wrote them, owned by ids of
// containers, and come once.
func TestRoot(t *testing.T) {
	s, c, u := newSite(t), newCache(t), person(t, 1000)
	lower := layerOf(t, tarOf(t, entry{name: "bin/", mode: 0o755}, entry{name: "bin/tool", content: "#!", uid: 0}, entry{name: "old/", uid: 7}, entry{name: "old/a", content: "a"}, entry{name: "b", content: "b", uid: 1000, mode: 0o600}))
	upper := layerOf(t, tarOf(t, entry{name: ".wh.b"}, entry{name: "old/"}, entry{name: "old/.wh..wh..opq"}, entry{name: "bin/hard", kind: tar.TypeReg, content: "x"}, entry{name: "bin/link", kind: tar.TypeLink, link: "bin/hard"},
		entry{name: "far", uid: 1_000_660_000}, entry{name: "at", attributes: map[string]string{"user.note": "yes", "user.overlay.redirect": "/etc", "security.capability": "x", "trusted.overlay.opaque": "y"}}))
	r := s.push(t, "lab/tool:1", imageOf(t, lower, upper))
	root, err := pullRoot(t, c, u, r)
	must(t, err)
	var stat unix.Stat_t
	for _, want := range []struct {
		path string
		uid  uint32
		mode uint32
	}{{"0/bin/tool", firstID, unix.S_IFREG | 0o755}, {"0/old", firstID + 7, unix.S_IFDIR | 0o755}, {"0/b", firstID + 1000, unix.S_IFREG | 0o600}, {"1/b", firstID, unix.S_IFCHR}, {"1/far", firstID + 65534, unix.S_IFREG | 0o755}} {
		index, path, _ := strings.Cut(want.path, "/")
		at := filepath.Join(root.Layers[index[0]-'0'], path)
		must(t, unix.Lstat(at, &stat))
		if stat.Uid != want.uid || stat.Mode != want.mode {
			t.Errorf("%s: uid %d mode %o", want.path, stat.Uid, stat.Mode)
		}
	}
	value := make([]byte, 16)
	n, err := unix.Getxattr(filepath.Join(root.Layers[1], "old"), "user.overlay.opaque", value)
	if err != nil || string(value[:n]) != "y" {
		t.Errorf("old is not opaque: %v", err)
	}
	names := make([]byte, 256)
	if n, err = unix.Listxattr(filepath.Join(root.Layers[1], "at"), names); err != nil || string(names[:n]) != "user.note\x00" {
		t.Errorf("attributes %q, %v", names[:n], err)
	}
	asked := s.blobs
	again, err := pullRoot(t, c, u, r)
	must(t, err)
	if s.blobs != asked || fmt.Sprint(again.Layers) != fmt.Sprint(root.Layers) || again.Config.Env[0] != "PATH=/bin" {
		t.Errorf("the second time %d blobs came, %v", s.blobs-asked, again)
	}
	info, err := os.Stat(c.Dir)
	must(t, err)
	if info.Mode().Perm() != 0o700 || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("others reach the cache: %v", info.Mode())
	}
}
